"""Quiet audio: the same segments brought to levels from −50 to −10 dBFS, marked, attacked and read.

The paper's second limit is that marks in quiet audio are less imperceptible; ours keep their SNR at any level, and
should be read as well. Quantisation alone has steps of a fixed size, so it is told apart from the rest.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ideaw.audio.buffer import Progress
from ideaw.bench.tables.segments import PAPER, attacked, segments_under
from ideaw.marker import load
from ideaw.quality.accuracy import accuracy

LEVELS = (-50.0, -40.0, -30.0, -20.0, -10.0)
"""RMS in dBFS. Segments whose peaks would clip are brought as near as they can be."""


@dataclass(frozen=True)
class Table:
    """What `ideaw bench levels` measured: attack → share of bits right, in per cent, at each level."""

    model: str
    segments: int
    snr: float
    levels: tuple[float, ...]
    accuracy: dict[str, list[float]]


def run(
    data: Path,
    model: str | None = None,
    snr: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> Table:
    """Mark the segments under `data` at every level, attack them, read them."""
    marker = load(model)
    audio, _ = segments_under(data, limit)
    bits = np.random.default_rng(seed).integers(0, 2, (len(audio), marker.message_bits + marker.code_bits))
    message, code = np.split(bits, [marker.message_bits], 1)
    even = audio / np.sqrt(np.square(audio).mean(1, keepdims=True))
    loudest = 0.99 / np.abs(even).max(1, keepdims=True)
    found: dict[str, list[float]] = {trial.label: [] for trial in PAPER}
    for number, level in enumerate(LEVELS):
        marked = marker.embed_segment(even * np.minimum(10 ** (level / 20), loudest), message, code, snr)
        for part, trial in enumerate(PAPER):
            logits = np.concatenate(marker.extract_segment(attacked(trial, marked, seed)), 1)
            found[trial.label].append(100 * accuracy(logits, bits))
            if progress:
                progress((number + (part + 1) / len(PAPER)) / len(LEVELS))
    return Table(marker.card.name, len(audio), marker.card.snr if snr is None else snr, LEVELS, found)
