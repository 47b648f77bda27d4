"""Quiet audio: the same segments brought to levels from −50 to −10 dBFS, marked, attacked and read.

The paper's second limit is that marks in quiet audio are less imperceptible; ours keep their SNR at any level, and
should be read as well. Only quantisation has steps of a fixed size, whatever the level.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ideaw.audio.blocks import Progress
from ideaw.bench.rivals import load_segment_marker
from ideaw.bench.tables.segments import PAPER_TRIALS, attack_segments, read_segments
from ideaw.quality.accuracy import accuracy

LEVELS_DBFS = (-50.0, -40.0, -30.0, -20.0, -10.0)
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
    """Mark the segments under `data` at every level, attack them, read them; parameters are those of `segments.run`."""
    marker = load_segment_marker(model)
    audio, _ = read_segments(data, limit)
    bits = np.random.default_rng(seed).integers(0, 2, (len(audio), marker.message_bits + marker.code_bits))
    message, code = np.split(bits, [marker.message_bits], 1)
    normalised = audio / np.sqrt(np.square(audio).mean(1, keepdims=True))
    loudest = 0.99 / np.abs(normalised).max(1, keepdims=True)
    by_attack: dict[str, list[float]] = {trial.label: [] for trial in PAPER_TRIALS}
    for number, level in enumerate(LEVELS_DBFS):
        marked = marker.embed_segment(normalised * np.minimum(10 ** (level / 20), loudest), message, code, snr)
        for part, trial in enumerate(PAPER_TRIALS):
            logits = np.concatenate(marker.extract_segment(attack_segments(trial, marked, seed)), 1)
            by_attack[trial.label].append(100 * accuracy(logits, bits))
            if progress:
                progress((number + (part + 1) / len(PAPER_TRIALS)) / len(LEVELS_DBFS))
    return Table(marker.card.name, len(audio), marker.card.snr if snr is None else snr, LEVELS_DBFS, by_attack)
