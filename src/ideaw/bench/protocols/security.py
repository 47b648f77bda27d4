"""What somebody can do to marks without their key, or with one of their own.

Each threat makes the audio of one trial from a clip, and says with which key it is searched and which messages are
right there. The answers are counted: a right message, a wrong one, or none. Systems without keys, or without messages,
are spared the threats that need them; of a system without messages, right is that a mark was found.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.bench.protocols.system import Bits, Samples, Subject
from ideaw.keys import Key

LOUDLY = 10.0
"""What a copied residual is multiplied by where nobody minds that it is heard."""


@dataclass(frozen=True, eq=False)
class Case:
    """One trial: what is searched, with which key (None: that of the clip), and what is a right answer."""

    audio: Samples
    right: tuple[Bits, ...]
    key: Key | None = None


def _key(subject: Subject, number: int) -> Key:
    """A key that nobody knows but the other side."""
    return Key(np.random.default_rng([subject.settings.seed, number, 99]).bytes(16))


def _other_host(subject: Subject, number: int) -> Samples:
    """Audio that is not this clip's: the next clip, or this one backwards where there is no other."""
    count = len(subject.settings.paths)
    return subject.host((number + 1) % count) if count > 1 else subject.host(number)[::-1]


def _within(audio: NDArray[np.floating]) -> Samples:
    """Audio as a file would hold it."""
    return audio.clip(-1.0, 1.0).astype(np.float32)


def wrong_key(subject: Subject, number: int) -> Case:
    """Somebody else searches."""
    clip = subject.clip(number)
    return Case(clip.marked, (clip.message,), _key(subject, number))


def _twice(subject: Subject, number: int) -> Samples:
    clip = subject.clip(number)
    return subject.mark(clip.marked, subject.message(number, 1), _key(subject, number))


def overwritten(subject: Subject, number: int) -> Case:
    """Somebody marks the marked audio once more; the owner searches."""
    return Case(_twice(subject, number), (subject.clip(number).message,))


def overwriting(subject: Subject, number: int) -> Case:
    """The same; who marked last searches."""
    return Case(_twice(subject, number), (subject.message(number, 1),), _key(subject, number))


def marked_again(subject: Subject, number: int) -> Case:
    """Somebody marks the marked audio once more with the same system and no other key; the owner searches."""
    clip = subject.clip(number)
    return Case(subject.mark(clip.marked, subject.message(number, 1)), (clip.message,))


def averaged(subject: Subject, number: int) -> Case:
    """Two buyers mix their copies, whose messages differ; both are right."""
    clip, second = subject.clip(number), subject.message(number, 1)
    return Case(_within((clip.marked + subject.mark(clip.host, second)) / 2), (clip.message, second))


def averaged_keys(subject: Subject, number: int) -> Case:
    """Copies of two owners are mixed; one of them searches."""
    clip = subject.clip(number)
    second = subject.mark(clip.host, subject.message(number, 1), _key(subject, number))
    return Case(_within((clip.marked + second) / 2), (clip.message,))


def _copied(subject: Subject, number: int, gain: float) -> Case:
    clip = subject.clip(number)
    return Case(_within(_other_host(subject, number) + gain * (clip.marked - clip.host)), (clip.message,))


def copied(subject: Subject, number: int) -> Case:
    """Who has host and marked copy puts their difference under other audio."""
    return _copied(subject, number, 1.0)


def copied_loudly(subject: Subject, number: int) -> Case:
    """The same, ten times as loud."""
    return _copied(subject, number, LOUDLY)


def guessed_key(subject: Subject, number: int) -> Case:
    """Who has this software marks audio with a key that is not the owner's, who searches."""
    clip = subject.clip(number)
    return Case(subject.mark(clip.host, clip.message, _key(subject, number)), (clip.message,))


def shaped_noise(subject: Subject, number: int) -> Case:
    """Noise that is as loud as a mark at every frequency and sounds alike, but has random phases."""
    clip = subject.clip(number)
    spectrum = np.fft.rfft(clip.marked - clip.host, axis=0)
    rng = np.random.default_rng([subject.settings.seed, number, 98])
    turned = spectrum * np.exp(2j * np.pi * rng.random((len(spectrum), 1)))
    return Case(_within(clip.host + np.fft.irfft(turned, len(clip.host), axis=0)), (clip.message,))


THREATS: dict[str, Callable[[Subject, int], Case]] = {
    threat.__name__: threat
    for threat in (
        wrong_key,
        overwritten,
        overwriting,
        marked_again,
        averaged,
        averaged_keys,
        copied,
        copied_loudly,
        guessed_key,
        shaped_noise,
    )
}

NEED_KEYS = {threat.__name__ for threat in (wrong_key, overwritten, overwriting, averaged_keys, guessed_key)}
NEED_MESSAGES = {averaged.__name__}
"""Threats that only systems with keys, or with messages, can meet."""


def lacking(threat: str, subject: Subject) -> str | None:
    """Why a system cannot meet a threat; None if it can."""
    if threat in NEED_KEYS and not subject.keyed:
        return f"{subject.title} has no keys"
    if threat in NEED_MESSAGES and not subject.bits:
        return f"{subject.title} carries no message"
    return None
