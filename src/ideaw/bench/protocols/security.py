"""Threats: what somebody can do to marks without their key, or with a key of their own.

Each threat makes the audio of one trial from a clip, and says with which key it is searched and which messages are
right there. The answers are counted: a right message, a wrong one, or none. Systems without keys, or without messages,
are spared the threats that need them; of a system without messages, right is that a mark was found.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.bench.corpus import Samples
from ideaw.bench.protocols.system import Bits, WatermarkSystem
from ideaw.keys import Key

COPY_GAIN = 10.0
"""Gain of a copied residual where it may be audible."""


@dataclass(frozen=True, eq=False)
class Case:
    """One trial: what is searched, with which key (None: that of the clip), and what is a right answer."""

    audio: Samples
    right: tuple[Bits, ...]
    key: Key | None = None


def _foreign_key(system: WatermarkSystem, number: int) -> Key:
    """The key of somebody else."""
    return Key(np.random.default_rng([system.settings.seed, number, 99]).bytes(16))


def _unrelated_host(system: WatermarkSystem, number: int) -> Samples:
    """Audio that is not this clip's: the next clip, or this one backwards where there is no other."""
    count = len(system.settings.paths)
    return system.host((number + 1) % count) if count > 1 else system.host(number)[::-1]


def _clip_to_full_scale(audio: NDArray[np.floating]) -> Samples:
    """Audio as a file would hold it."""
    return audio.clip(-1.0, 1.0).astype(np.float32)


def wrong_key(system: WatermarkSystem, number: int) -> Case:
    """Somebody else searches."""
    clip = system.clip(number)
    return Case(clip.marked, (clip.message,), _foreign_key(system, number))


def _mark_twice(system: WatermarkSystem, number: int) -> Samples:
    clip = system.clip(number)
    return system.mark(clip.marked, system.message(number, 1), _foreign_key(system, number))


def overwritten(system: WatermarkSystem, number: int) -> Case:
    """Somebody marks the marked audio once more; who marked first searches."""
    return Case(_mark_twice(system, number), (system.clip(number).message,))


def overwriting(system: WatermarkSystem, number: int) -> Case:
    """Somebody marks the marked audio once more; who marked last searches."""
    return Case(_mark_twice(system, number), (system.message(number, 1),), _foreign_key(system, number))


def marked_again(system: WatermarkSystem, number: int) -> Case:
    """Somebody marks the marked audio once more with the same system and no other key; who marked first searches."""
    clip = system.clip(number)
    return Case(system.mark(clip.marked, system.message(number, 1)), (clip.message,))


def averaged(system: WatermarkSystem, number: int) -> Case:
    """Two buyers mix their copies, whose messages differ; both are right."""
    clip, second = system.clip(number), system.message(number, 1)
    return Case(_clip_to_full_scale((clip.marked + system.mark(clip.host, second)) / 2), (clip.message, second))


def averaged_keys(system: WatermarkSystem, number: int) -> Case:
    """Copies marked with two keys are mixed; one of the keys is searched."""
    clip = system.clip(number)
    second = system.mark(clip.host, system.message(number, 1), _foreign_key(system, number))
    return Case(_clip_to_full_scale((clip.marked + second) / 2), (clip.message,))


def _copy_mark(system: WatermarkSystem, number: int, gain: float) -> Case:
    clip = system.clip(number)
    return Case(
        _clip_to_full_scale(_unrelated_host(system, number) + gain * (clip.marked - clip.host)), (clip.message,)
    )


def copied(system: WatermarkSystem, number: int) -> Case:
    """Who has host and marked copy puts their difference under other audio."""
    return _copy_mark(system, number, 1.0)


def copied_loudly(system: WatermarkSystem, number: int) -> Case:
    """Who has host and marked copy puts ten times their difference under other audio."""
    return _copy_mark(system, number, COPY_GAIN)


def guessed_key(system: WatermarkSystem, number: int) -> Case:
    """Who has this software marks audio with a key that is not that of the clip, which is searched with."""
    clip = system.clip(number)
    return Case(system.mark(clip.host, clip.message, _foreign_key(system, number)), (clip.message,))


def shaped_noise(system: WatermarkSystem, number: int) -> Case:
    """Noise that is as loud as a mark at every frequency and sounds alike, but has random phases."""
    clip = system.clip(number)
    spectrum = np.fft.rfft(clip.marked - clip.host, axis=0)
    rng = np.random.default_rng([system.settings.seed, number, 98])
    turned = spectrum * np.exp(2j * np.pi * rng.random((len(spectrum), 1)))
    return Case(_clip_to_full_scale(clip.host + np.fft.irfft(turned, len(clip.host), axis=0)), (clip.message,))


THREATS: dict[str, Callable[[WatermarkSystem, int], Case]] = {
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


def why_not(threat: str, system: WatermarkSystem) -> str | None:
    """Why a system cannot meet a threat; None if it can."""
    if threat in NEED_KEYS and not system.keyed:
        return f"{system.title} has no keys"
    if threat in NEED_MESSAGES and not system.bits:
        return f"{system.title} carries no message"
    return None
