"""One trial of a threat, and what threats make it of: other people's keys, other audio."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.bench.corpus import Samples
from ideaw.bench.protocols.system import Bits, WatermarkSystem
from ideaw.keys import Key


@dataclass(frozen=True, eq=False)
class Case:
    """One trial: what is searched, with which key (None: that of the clip), and what is a right answer."""

    audio: Samples
    right: tuple[Bits, ...]
    key: Key | None = None


def foreign_key(system: WatermarkSystem, number: int, draw: int = 0) -> Key:
    """The key of somebody else, of another one for each `draw`."""
    return Key(np.random.default_rng([system.settings.seed, number, 99, draw]).bytes(16))


def unrelated_host(system: WatermarkSystem, number: int) -> Samples:
    """Audio that is not this clip's: the next clip, or this one backwards where there is no other."""
    count = len(system.settings.paths)
    return system.host((number + 1) % count) if count > 1 else system.host(number)[::-1]


def clip_to_full_scale(audio: NDArray[np.floating]) -> Samples:
    """Audio as a file would hold it."""
    return audio.clip(-1.0, 1.0).astype(np.float32)
