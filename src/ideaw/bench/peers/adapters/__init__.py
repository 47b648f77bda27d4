"""One module for each system, all with the same three functions; imported by `worker.py` alone, in its environment.

A system that works on mono audio at a rate of its own marks the mix of the channels; what that changes is brought to
the file's rate and added to every channel, so nothing else is lost.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
"""(n, channels), or (n,) where it is said to be mono."""


class PeerResult(NamedTuple):
    """What a system finds in audio."""

    mark: bool
    """Whether it says that a mark is there."""
    bits: str | None
    """Bits of the message, where it gives one; some systems do so without a mark too."""
    score: float
    """How sure it is that a mark is there, 0 to 1."""


class Adapter(ABC):
    """One system, loaded."""

    bits: int
    """Bits of a message; 0: it only tells that a mark is there."""

    weights: bool = True
    """Whether it has its weights; random ones take as long."""

    @abstractmethod
    def embed(self, samples: Samples, rate: int, message: str) -> Samples:
        """(n, channels) with a message in it."""

    @abstractmethod
    def detect(self, samples: Samples, rate: int) -> PeerResult:
        """What is found in (n, channels)."""

    def part(self, task: str, samples: Samples, rate: int) -> tuple[Samples, float]:
        """The samples that are enough to time a task, and how many times as long all of them take."""
        return samples, 1.0

    def any_message(self) -> str:
        """A message to be timed with."""
        return "".join(map(str, np.random.default_rng(0).integers(0, 2, self.bits)))


def mono(samples: Samples, rate: int, at: int) -> Samples:
    """(n,): the mix of the channels at another rate."""
    mixed = samples[:, 0] if samples.shape[1] == 1 else samples.mean(1)
    return _resample(mixed, rate, at)


def with_mark(samples: Samples, rate: int, at: int, mark: Callable[[Samples], Samples]) -> Samples:
    """(n, channels) with what `mark` changes in their mix (n,) at the rate `at`."""
    host = mono(samples, rate, at)
    marked = np.asarray(mark(host), np.float32)
    length = min(len(host), len(marked))
    change = _resample(marked[:length] - host[:length], at, rate)[: len(samples)]
    return samples + np.pad(change, (0, len(samples) - len(change)))[:, None]


def _resample(samples: Samples, rate: int, at: int) -> Samples:
    if rate == at:
        return samples
    import soxr

    resampled: Samples = soxr.resample(samples, rate, at)
    return resampled
