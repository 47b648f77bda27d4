"""Threats: what somebody can do to marks without their key, or with a key of their own.

Each threat makes the audio of one trial from a clip, and says with which key it is searched and which messages are
right there. The answers are counted: a right message, a wrong one, or none. Systems without keys, or without messages,
are spared the threats that need them, and those that are not ours the ones of `learned.py`, which are made with our
network; of a system without messages, right is that a mark was found.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from ideaw.bench.corpus import Samples
from ideaw.bench.protocols import learned
from ideaw.bench.protocols.case import Case, clip_to_full_scale, foreign_key, unrelated_host
from ideaw.bench.protocols.system import WatermarkSystem

COPY_GAIN = 10.0
"""Gain of a copied residual where it may be audible."""


def wrong_key(system: WatermarkSystem, number: int) -> Case:
    """Somebody else searches."""
    clip = system.clip(number)
    return Case(clip.marked, (clip.message,), foreign_key(system, number))


def _overwrite(system: WatermarkSystem, number: int, times: int) -> Samples:
    """The marked clip, marked over with a fresh key and message so many times."""
    audio = system.clip(number).marked
    for time in range(times):
        audio = system.mark(audio, system.message(number, time + 1), foreign_key(system, number, time))
    return audio


def overwritten(system: WatermarkSystem, number: int, times: int = 1) -> Case:
    """Somebody marks the marked audio with so many fresh keys; who marked first searches."""
    return Case(_overwrite(system, number, times), (system.clip(number).message,))


def overwriting(system: WatermarkSystem, number: int) -> Case:
    """Somebody marks the marked audio once more; who marked last searches."""
    return Case(_overwrite(system, number, 1), (system.message(number, 1),), foreign_key(system, number))


def marked_again(system: WatermarkSystem, number: int) -> Case:
    """Somebody marks the marked audio once more with the same system and no other key; who marked first searches."""
    clip = system.clip(number)
    return Case(system.mark(clip.marked, system.message(number, 1)), (clip.message,))


def averaged(system: WatermarkSystem, number: int, copies: int = 2) -> Case:
    """So many buyers mix their copies, whose messages differ; all are right."""
    clip, messages = system.clip(number), [system.message(number, draw) for draw in range(copies)]
    marked = [clip.marked, *(system.mark(clip.host, message) for message in messages[1:])]
    return Case(clip_to_full_scale(np.mean(marked, 0)), tuple(messages))


def averaged_keys(system: WatermarkSystem, number: int) -> Case:
    """Copies marked with two keys are mixed; one of the keys is searched."""
    clip = system.clip(number)
    second = system.mark(clip.host, system.message(number, 1), foreign_key(system, number))
    return Case(clip_to_full_scale((clip.marked + second) / 2), (clip.message,))


def _copy_mark(system: WatermarkSystem, number: int, gain: float) -> Case:
    clip = system.clip(number)
    return Case(clip_to_full_scale(unrelated_host(system, number) + gain * (clip.marked - clip.host)), (clip.message,))


def copied(system: WatermarkSystem, number: int) -> Case:
    """Who has host and marked copy puts their difference under other audio."""
    return _copy_mark(system, number, 1.0)


def copied_loudly(system: WatermarkSystem, number: int) -> Case:
    """Who has host and marked copy puts ten times their difference under other audio."""
    return _copy_mark(system, number, COPY_GAIN)


def guessed_key(system: WatermarkSystem, number: int) -> Case:
    """Who has this software marks audio with a key that is not that of the clip, which is searched with."""
    clip = system.clip(number)
    return Case(system.mark(clip.host, clip.message, foreign_key(system, number)), (clip.message,))


def shaped_noise(system: WatermarkSystem, number: int) -> Case:
    """Noise that is as loud as a mark at every frequency and sounds alike, but has random phases."""
    clip = system.clip(number)
    spectrum = np.fft.rfft(clip.marked - clip.host, axis=0)
    rng = np.random.default_rng([system.settings.seed, number, 98])
    turned = spectrum * np.exp(2j * np.pi * rng.random((len(spectrum), 1)))
    return Case(clip_to_full_scale(clip.host + np.fft.irfft(turned, len(clip.host), axis=0)), (clip.message,))


Threat: TypeAlias = Callable[[WatermarkSystem, int], Case]

NEED_NETWORK: dict[str, Threat] = {
    "transplanted": learned.transplanted,
    "transplanted_from_mp3": learned.transplanted_from_mp3,
    "erased": learned.erased,
    "combined": learned.combined,
}
NEED_KEYS: dict[str, Threat] = {
    "wrong_key": wrong_key,
    "overwritten": overwritten,
    "overwritten_twice": partial(overwritten, times=2),
    "overwritten_three_times": partial(overwritten, times=3),
    "overwritten_five_times": partial(overwritten, times=5),
    "overwriting": overwriting,
    "averaged_keys": averaged_keys,
    "guessed_key": guessed_key,
}
NEED_MESSAGES: dict[str, Threat] = {
    "averaged": averaged,
    "averaged_five": partial(averaged, copies=5),
    "averaged_ten": partial(averaged, copies=10),
}
"""Threats that are made with ideaw's network, and those that only systems with keys, or with messages, can meet."""

THREATS: dict[str, Threat] = {
    **NEED_NETWORK,
    **NEED_KEYS,
    **NEED_MESSAGES,
    "marked_again": marked_again,
    "copied": copied,
    "copied_loudly": copied_loudly,
    "shaped_noise": shaped_noise,
}


def why_not(threat: str, system: WatermarkSystem) -> str | None:
    """Why a system cannot meet a threat; None if it can."""
    if threat in NEED_NETWORK and system.network is None:
        return f"it takes the extractor of ideaw, and {system.title} has one of its own"
    if threat in NEED_KEYS and not system.keyed:
        return f"{system.title} has no keys"
    if threat in NEED_MESSAGES and not system.bits:
        return f"{system.title} carries no message"
    return None
