"""Audio that arrives in blocks as evidence in chunks, each computed once, in constant memory.

The powers of all channels are added, so a mark in one of two channels is heard, and no phase between channels matters.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import SampleBuffer
from ideaw.deep.bands import (
    CELL_HOP_SAMPLES,
    CELLS_PER_SECOND,
    HALF_WINDOW_SAMPLES,
    NUM_MEL_BANDS,
    analyse,
    measuring_bands,
    powers,
)
from ideaw.deep.evidence import evidence

CHUNK_CELLS, MARGIN_CELLS = 30 * CELLS_PER_SECOND, CELLS_PER_SECOND
"""Frames of a chunk, and on each side of it, which are seen and not given."""


@dataclass(frozen=True)
class Chunk:
    """Evidence of consecutive frames.

    Attributes:
        start: number of its first frame.
        evidence: (frames, NUM_MEL_BANDS).
        loudness: mean over bands of the log powers, to compare chunks by.
    """

    start: int
    evidence: NDArray[np.float32]
    loudness: float


class EvidenceStream:
    """Evidence of `(n, channels)` audio at 16 kHz."""

    def __init__(self) -> None:
        self._audio = SampleBuffer(start=-HALF_WINDOW_SAMPLES)
        self._powers = SampleBuffer(NUM_MEL_BANDS)
        self._given = 0
        """Frames whose evidence was given."""

    def push(self, audio: NDArray[np.floating]) -> Iterator[Chunk]:
        """Go on; the chunks that this settles. A chunk waits until half of the next is there, so that none is short."""
        if not len(self._audio) and self._audio.end < 0:
            self._audio.append(np.zeros((HALF_WINDOW_SAMPLES, audio.shape[1]), np.float32))
        self._audio.append(audio.astype(np.float32, copy=False))
        self._measure()
        while self._powers.end - self._given >= CHUNK_CELLS * 3 // 2 + MARGIN_CELLS:
            yield self._next(CHUNK_CELLS)

    def finish(self) -> Iterator[Chunk]:
        """There is no more: the rest."""
        if self._audio.end > 0:
            self._audio.append(np.zeros((HALF_WINDOW_SAMPLES, *self._audio.get(0, 1).shape[1:]), np.float32))
            self._measure()
            if self._powers.end > self._given:
                yield self._next(self._powers.end - self._given)

    def _measure(self) -> None:
        """Measure all frames whose windows are whole."""
        first = self._powers.end * CELL_HOP_SAMPLES - HALF_WINDOW_SAMPLES
        held = self._audio.get(first, self._audio.end)
        if len(held) >= 2 * HALF_WINDOW_SAMPLES:
            power = powers(analyse(np.ascontiguousarray(held.T))).sum(0)
            self._powers.append(power @ measuring_bands())
            self._audio.drop_before(self._powers.end * CELL_HOP_SAMPLES - HALF_WINDOW_SAMPLES)

    def _next(self, cells: int) -> Chunk:
        start, stop = self._given, self._given + cells
        held = range(max(start - MARGIN_CELLS, self._powers.start), min(stop + MARGIN_CELLS, self._powers.end))
        power = self._powers.get(held.start, held.stop)
        self._given = stop
        chunk = evidence(power)[start - held.start : stop - held.start] if power.any() else np.zeros_like(power)[:cells]
        inside = power[start - held.start : stop - held.start]
        self._powers.drop_before(stop - MARGIN_CELLS)
        return Chunk(start, chunk, float(np.log(inside + np.float32(1e-12)).mean()))
