"""Where a mark is: the code's evidence, folded over seconds, at every offset at once.

A mark repeats its code every second, so all seconds of a signal add up at the one offset where its seconds
begin. Elsewhere the evidence is noise, and its spread there says how unlikely the peak is.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SEGMENT

CLEAR = 3.0
"""Standard deviations from which on a single second counts as marked, once the place is known."""

GAUSSIAN = 1.4826
"""Standard deviation over median absolute deviation of a Gaussian."""


@dataclass(frozen=True)
class Place:
    """Where the code speaks most: from sample `offset` (0 … 15,999) on, every second."""

    offset: int
    score: float
    """The peak in standard deviations."""

    @property
    def p_value(self) -> float:
        """The chance of such a peak at any of the offsets, if all is Gaussian noise."""
        return min(1.0, SEGMENT / 2 * math.erfc(self.score / math.sqrt(2)))


def place(code_signal: NDArray[np.float32], pattern: NDArray[np.floating]) -> Place:
    """(n,) signal of the code and (SEGMENT,) pattern of the code that is looked for → its most likely place."""
    scores = _scores(seconds(code_signal, 0).sum(0, dtype=np.float64), pattern)
    offset = int(scores.argmax())
    return Place(offset, float(scores[offset]))


def seconds(signal: NDArray[np.float32], offset: int) -> NDArray[np.float32]:
    """(n,) → (seconds, SEGMENT) cut where seconds begin at `offset`; what is missing at the ends is 0."""
    before = -offset % SEGMENT
    after = -(before + len(signal)) % SEGMENT
    return np.pad(signal, (before, after)).reshape(-1, SEGMENT)


def spans(length: int, offset: int) -> NDArray[np.int64]:
    """(seconds, 2): first and last sample of the seconds that `seconds` cuts `length` samples into."""
    before = -offset % SEGMENT
    count = -(-(before + length) // SEGMENT)
    starts = np.arange(count) * SEGMENT - before
    return np.stack([starts, starts + SEGMENT], 1).clip(0, length)


def each_score(code_signal: NDArray[np.float32], pattern: NDArray[np.floating], offset: int) -> NDArray[np.float64]:
    """The evidence (seconds,) of each second by itself at `offset`, in its own standard deviations."""
    return np.array([_scores(second, pattern)[0] for second in seconds(code_signal, offset)])


def fold(signal: NDArray[np.float32], offset: int, weights: NDArray[np.floating]) -> NDArray[np.float32]:
    """(n,) → (SEGMENT,): the mean second, each with its weight (seconds,)."""
    lengths = np.diff(spans(len(signal), offset))[:, 0] / SEGMENT
    shares = (weights / max(float(lengths @ weights), 1e-9)).astype(np.float32)
    return shares @ seconds(signal, offset)


def runs(marked: NDArray[np.bool_]) -> list[slice]:
    """The stretches of True in (seconds,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]])))
    return [slice(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def _scores(second: NDArray[np.floating], pattern: NDArray[np.floating]) -> NDArray[np.float64]:
    """(SEGMENT,) → evidence at every offset, in standard deviations; all 0 where there is only silence."""
    evidence = np.fft.irfft(np.fft.rfft(second) * np.fft.rfft(pattern).conj(), SEGMENT)
    evidence = evidence - np.median(evidence)
    spread = GAUSSIAN * float(np.median(np.abs(evidence)))
    return evidence / spread if spread > 0 else np.zeros(SEGMENT)
