"""Where a mark is: the code's evidence, folded over seconds, at every hop at once.

A mark repeats its code every second, so all seconds of a signal add up at the one hop where its seconds begin.
The signs of the code's tiles follow from a key, so without a mark of that key the evidence is a sum of numbers
with random signs, whatever the audio: its spread is known, and so is the chance of a peak. (Learned carriers follow
from no key; with them both are estimates.)
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES, HOP
from ideaw.payload.carriers import Carriers

CLEAR = 3.0
"""Standard deviations from which on a single second counts as marked, once the place is known."""


@dataclass(frozen=True)
class Place:
    """Where the code speaks most: from hop `offset` (0 … FRAMES − 1) on, every second."""

    offset: int
    score: float
    """The peak in standard deviations."""

    @property
    def p_value(self) -> float:
        """At most this is the chance of such a peak at any of the hops, by Hoeffding's inequality."""
        return min(1.0, FRAMES * math.exp(-(max(self.score, 0.0) ** 2) / 2))


def place(narrow: NDArray[np.float32], carriers: Carriers, slots: NDArray[np.float32]) -> Place:
    """(hops, ranges) of the code's stream and the code that is looked for (slots,) → its most likely place."""
    ring = seconds(narrow, 0).sum(0)
    # What stays the same all the time is no code, and over minutes it would drown one that is only in some seconds.
    ring = ring - ring.mean(0)
    hops = np.arange(FRAMES)
    scores = _score(ring[(hops[:, None] + hops) % FRAMES], carriers, slots)
    best = int(np.argmax(scores))
    return Place(best, float(scores[best]))


def each_score(
    narrow: NDArray[np.float32], carriers: Carriers, slots: NDArray[np.float32], offset: int
) -> NDArray[np.float64]:
    """The evidence (seconds,) of each second by itself at `offset`, in its own standard deviations."""
    return _score(seconds(narrow, offset), carriers, slots)


def seconds(narrow: NDArray[np.float32], offset: int) -> NDArray[np.float32]:
    """(hops, ranges) → (seconds, FRAMES, ranges) cut where seconds begin at `offset`; what is missing is 0."""
    before = -offset % FRAMES
    after = -(before + len(narrow)) % FRAMES
    return np.pad(narrow, ((before, after), (0, 0))).reshape(-1, FRAMES, narrow.shape[1])


def spans(length: int, offset: int) -> NDArray[np.int64]:
    """(seconds, 2): first and last sample of the seconds that `seconds` cuts `length` samples into."""
    before, hops = -offset % FRAMES, -(-length // HOP)
    starts = np.arange(-(-(before + hops) // FRAMES)) * FRAMES - before
    return (np.stack([starts, starts + FRAMES], 1) * HOP).clip(0, length)


def runs(marked: NDArray[np.bool_]) -> list[slice]:
    """The stretches of True in (seconds,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]])))
    return [slice(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def _score(cut: NDArray[np.float32], carriers: Carriers, slots: NDArray[np.float32]) -> NDArray[np.float64]:
    """(seconds, FRAMES, ranges) → evidence (seconds,) in standard deviations; 0 where there is only silence."""
    pieces, looked_for = carriers.pieces(cut), slots @ carriers.read
    spread = np.sqrt(np.square(pieces) @ np.square(looked_for), dtype=np.float64)
    return np.divide(pieces @ looked_for, spread, out=np.zeros(len(cut)), where=spread > 0)
