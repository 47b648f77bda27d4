"""Listening to a little: what a channel, or audio that was played faster or slower, might hold.

A loud second is enough to tell whether a search of everything is worth its time.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import RATE
from ideaw.audio.rates import QUALITY
from ideaw.engine.search import Heard, Search

SECONDS = 2
"""That are listened to: at least one whole second of any mark."""

STEP = 1.02
"""From one speed to the next: the code is found up to 1 % beside the true one."""

NEAR = tuple(STEP**k for k in (-3, -2, -1, 1, 2, 3))
"""What is tried when nothing was found: 6 % to both sides."""

ALL = tuple(STEP**k for k in range(-11, 12) if k)
"""0.8 to 1.25."""

CLOSER = (0.99, 0.995, 1.005, 1.01)
"""What is tried around the best of them."""


class Loudest:
    """The loudest seconds of audio that arrives in blocks."""

    def __init__(self, rate: int) -> None:
        self.samples: NDArray[np.floating] = np.empty((0, 1))
        """(n, channels), at its own rate."""
        self._waiting: NDArray[np.floating] = self.samples
        self._rate, self._energy = rate, -1.0

    def through(self, blocks: Iterable[NDArray[np.floating]]) -> Iterator[NDArray[np.floating]]:
        """The same blocks `(n, channels)`; what is loudest in them is kept on the way."""
        for block in blocks:
            self._push(block)
            yield block

    def _push(self, block: NDArray[np.floating]) -> None:
        self._waiting = np.concatenate([self._waiting, block]) if len(self._waiting) else block
        length = SECONDS * self._rate
        if len(self._waiting) < length:
            self.samples = self._waiting if self._energy < 0 else self.samples
            return
        power = np.concatenate([[0.0], np.cumsum(sum(np.square(self._waiting.T)))])
        starts = np.arange(0, len(self._waiting) - length + 1, self._rate // 4)
        energies = power[starts + length] - power[starts]
        best = int(energies.argmax())
        if energies[best] > self._energy:
            self._energy = float(energies[best])
            self.samples = self._waiting[starts[best] : starts[best] + length].copy()
        self._waiting = self._waiting[int(starts[-1]) :].copy()


def best_speed(search: Search, audio: NDArray[np.floating], rate: int, speeds: Sequence[float]) -> tuple[float, float]:
    """The speed at which `(n,)` samples were most likely played, as far as a code tells it, and that one's `log_p`."""
    found = _codes_in(search, audio, rate, speeds)
    about = min(found, key=found.__getitem__)
    if found[about] < 0:
        found |= _codes_in(search, audio, rate, [about * factor for factor in CLOSER])
    best = min(found, key=found.__getitem__)
    return best, found[best]


def code_in(search: Search, audio: NDArray[np.floating], rate: int, speed: float = 1.0) -> float:
    """The least `log_p` of any code that a search looks for in `(n,)` samples played so many times as fast."""
    resampled = soxr.resample(audio.astype(np.float32), rate / speed, RATE, quality=QUALITY)
    return min((track.log_p for _, _, track in search.tracks(Heard(search.owners[0], resampled))), default=0.0)


def _codes_in(search: Search, audio: NDArray[np.floating], rate: int, speeds: Sequence[float]) -> dict[float, float]:
    """`code_in` at each of these speeds."""
    return dict(zip(speeds, search.owners[0].each(partial(code_in, search, audio, rate), speeds), strict=True))
