"""Listening to a little: what channels apart, or audio that was played faster or slower, might hold.

Some loud seconds are enough to tell whether a search of everything is worth its time.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.resample import QUALITY, mix
from ideaw.engine.search import Heard, Search

SECONDS = 2
"""That are listened to at every speed: at least one whole second of any mark."""

MANY_SECONDS, MOST_SAMPLES = 10, 4_000_000
"""Seconds of which the channels are listened to, since codecs leave little in a single one; fewer if that were more
samples."""

APART, LEAST_ENERGY = 1e-4, 1e-30
"""Share of the loudest channel's energy, −40 dB, that must be in some channel and not in the mix to make channels worth
listening to; and what counts as no energy."""

STEP = 1.02
"""From one speed to the next: the code is found up to 1 % beside the true one."""

NEAR = tuple(STEP**k for k in (-3, -2, -1, 1, 2, 3))
"""What is tried when nothing was found: 6 % to both sides."""

ALL = tuple(STEP**k for k in range(-11, 12) if k)
"""0.8 to 1.25."""

CLOSER = (0.99, 0.995, 1.005, 1.01)
"""What is tried around the best of them."""


class Loudest:
    """The loudest seconds of audio that arrives in blocks, from one of its quarter seconds on."""

    def __init__(self, rate: int, seconds: int) -> None:
        self._length, self._quarters = rate // 4, 4 * seconds
        self._loose: list[NDArray[np.floating]] = []
        """Samples that make no quarter yet."""
        self._recent: list[tuple[float, NDArray[np.floating]]] = []
        """The last quarters, with their energies."""
        self._best: list[NDArray[np.floating]] = []
        self._energy = -1.0

    @property
    def samples(self) -> NDArray[np.floating]:
        """(n, channels), at its own rate; all there are, if these are fewer."""
        pieces = self._best or [*(quarter for _, quarter in self._recent), *self._loose]
        return np.concatenate(pieces) if pieces else np.empty((0, 1))

    def through(self, blocks: Iterable[NDArray[np.floating]]) -> Iterator[NDArray[np.floating]]:
        """The same blocks `(n, channels)`; what is loudest in them is kept on the way."""
        for block in blocks:
            self.push(block)
            yield block

    def push(self, block: NDArray[np.floating]) -> None:
        """Go on with `(n, channels)` samples."""
        self._loose.append(block.copy())
        if sum(map(len, self._loose)) >= self._length:
            loose = np.concatenate(self._loose)
            whole = len(loose) // self._length * self._length
            for start in range(0, whole, self._length):
                self._put(loose[start : start + self._length])
            self._loose = [loose[whole:]]

    def _put(self, quarter: NDArray[np.floating]) -> None:
        self._recent = [*self._recent, (float(np.vdot(quarter, quarter)), quarter)][-self._quarters :]
        energy = sum(each for each, _ in self._recent)
        if len(self._recent) == self._quarters and energy > self._energy:
            self._energy, self._best = energy, [each for _, each in self._recent]


def enough(rate: int, channels: int) -> Loudest:
    """What keeps enough of some audio to listen to its channels."""
    return Loudest(rate, max(SECONDS, min(MANY_SECONDS, MOST_SAMPLES // (rate * channels))))


def are_apart(audio: NDArray[np.floating]) -> bool:
    """Whether any of `(n, channels)` says what their mix does not say."""
    mixed = mix(audio)
    energy, shared = np.square(audio.T).sum(-1), np.square(mixed @ audio) / max(float(mixed @ mixed), LEAST_ENERGY)
    return bool((energy - shared > APART * energy.max()).any())


def best_channels(search: Search, audio: NDArray[np.floating], rate: int) -> tuple[list[int], float]:
    """Of `(n, channels)` samples, the channels that hold a code most likely, all or one, and the chance of that.

    They say nearly the same, so it does not count how many were tried.
    """
    every = list(range(audio.shape[1]))
    heard = Heard(search.owners[0], _played(audio, rate))
    found = [(_code_in(search, heard.codes[some].sum(0)), some) for some in (every, *([one] for one in every))]
    log_p, best = min(found, key=lambda each: each[0])
    return best, _chance(search, log_p)


def best_speed(search: Search, audio: NDArray[np.floating], rate: int, speeds: Sequence[float]) -> tuple[float, float]:
    """The speed at which `(n, voices)` samples were most likely played, and the chance of that.

    That is what a code tells in the loudest seconds.
    """
    moment = Loudest(rate, SECONDS)
    moment.push(audio)

    def at_each(speeds: Sequence[float]) -> dict[float, float]:
        at = partial(_code_at, search, moment.samples, rate)
        return dict(zip(speeds, search.owners[0].each(at, speeds), strict=True))

    found = at_each(speeds)
    about = min(found, key=found.__getitem__)
    if _chance(search, found[about], len(found)) < 1:
        found |= at_each([about * factor for factor in CLOSER])
    best = min(found, key=found.__getitem__)
    return best, _chance(search, found[best], len(found))


def _code_at(search: Search, audio: NDArray[np.floating], rate: int, speed: float) -> float:
    return _code_in(search, Heard(search.owners[0], _played(audio, rate, speed), alone=True).code)


def _played(audio: NDArray[np.floating], rate: int, speed: float = 1.0) -> NDArray[np.float32]:
    """`(n, voices)` samples as the network gets them, played so many times as fast."""
    return np.asarray(soxr.resample(audio.astype(np.float32), rate / speed, SAMPLE_RATE, quality=QUALITY))


def _code_in(search: Search, stream: NDArray[np.float32]) -> float:
    """The least `log_p` of any code that a search looks for."""
    return min((track.log_p for _, _, track in search.tracks(stream)), default=0.0)


def _chance(search: Search, log_p: float, tried: int = 1) -> float:
    """Of an accident like this with any key, if so much was tried."""
    return min(1.0, tried * len(search.owners) * math.exp(log_p))
