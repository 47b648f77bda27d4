"""The paper's Table 2 on any folder of audio: one-second segments, location known, bits of code and message together.

Attacks are the real ones of `attacks/arrays.py`. Every segment is marked with random bits at exactly the SNR that
is asked for; the place is not searched. The paper's row is of its own test audio (VCTK and FMA), which we do not have.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.audio import files
from ideaw.audio.grid import RATE, SEGMENT
from ideaw.audio.rates import mix, to_network
from ideaw.audio.samples import as_float
from ideaw.engine.whole import Progress
from ideaw.errors import FileError
from ideaw.marker import load
from ideaw.quality.accuracy import accuracy
from ideaw.quality.fidelity import snr as measured_snr

QUIETEST = 10 ** (-40 / 20)
"""Segments with a lower RMS are left out: the quantiser's steps are of a fixed size."""

CLEAN = "clean"

PAPER_ROWS = {
    "46+10": (99.44, 98.72, 98.12, 99.00, 98.61, 98.84, 98.87, 99.42, 98.66),
    "22+10": (99.52, 99.33, 98.53, 99.15, 98.73, 99.23, 99.02, 99.48, 98.82),
    "10+10": (99.64, 99.47, 98.62, 99.41, 98.86, 99.60, 99.11, 99.49, 98.95),
}
"""What the paper prints for each of its models, in per cent: clean, then its attacks in their order."""


@dataclass(frozen=True)
class Row:
    """One attack: share of bits that were right, in per cent, over all segments and by the kind of their file."""

    attack: str
    label: str
    accuracy: float
    by_kind: dict[str, float]
    paper: float | None


@dataclass(frozen=True)
class Table:
    """What `ideaw bench segments` measured."""

    model: str
    segments: int
    snr: float
    lowest_snr: float
    """The lowest SNR in dB that any segment was measured to have."""
    rows: list[Row]


def run(
    data: Path,
    model: str | None = None,
    snr: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> Table:
    """Mark every segment of the audio under `data` (at most `limit`, evenly chosen), attack it, read it."""
    marker = load(model)
    audio, kinds = segments_under(data, limit)
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (len(audio), marker.message_bits + marker.code_bits))
    message, code = np.split(bits, [marker.message_bits], 1)
    marked = marker.embed_segment(audio, message, code, snr)
    names = (CLEAN, *catalogue.PAPER)
    paper = PAPER_ROWS.get(marker.card.name, (None,) * len(names))
    rows = []
    for number, (name, printed) in enumerate(zip(names, paper, strict=True)):
        if progress:
            progress((number + 3) / (len(names) + 3))
        logits = np.concatenate(marker.extract_segment(attacked(name, marked, seed)), 1)
        by_kind = {
            kind: 100 * accuracy(logits[kinds == kind], bits[kinds == kind]) for kind in sorted(set(kinds.tolist()))
        }
        label = name if name == CLEAN else catalogue.ATTACKS[name].label
        rows.append(Row(name, label, 100 * accuracy(logits, bits), by_kind, printed))
    lowest = min(measured_snr(host, after) for host, after in zip(audio, marked, strict=True))
    return Table(marker.card.name, len(audio), marker.card.snr if snr is None else snr, lowest, rows)


def segments_under(data: Path, limit: int | None = None) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """All whole seconds (segments, SEGMENT) louder than −40 dBFS of the audio files under a folder, and their kinds.

    The kind of a file is the part of its name before the first "-", or else the name of its folder.
    """
    if not data.is_dir():
        raise FileError(f"{data} is not a folder of audio files")
    found: list[NDArray[np.float32]] = []
    kinds: list[str] = []
    for path in sorted(path for path in data.rglob("*") if path.suffix.lower() in files.EXTENSIONS):
        recording = files.read(path)
        mono = to_network(mix(as_float(recording.samples))[:, None], recording.rate)[0]
        seconds = mono[: len(mono) // SEGMENT * SEGMENT].reshape(-1, SEGMENT)
        loud = seconds[np.sqrt(np.square(seconds, dtype=np.float64).mean(1)) > QUIETEST]
        found.extend(loud)
        kinds.extend([path.stem.split("-")[0] if "-" in path.stem else path.parent.name] * len(loud))
    if not found:
        raise FileError(f"{data} holds no audio file with a second louder than −40 dBFS")
    chosen = np.linspace(0, len(found) - 1, min(limit or len(found), len(found))).round().astype(int)
    return np.stack([found[i] for i in chosen]), np.array([kinds[i] for i in chosen])


def attacked(name: str, marked: NDArray[np.floating], seed: int) -> NDArray[np.floating]:
    """(segments, SEGMENT) under one attack at the paper's strength, each with random draws of its own."""
    if name == CLEAN:
        return marked
    rows = [catalogue.run(name, row, RATE, seed=seed + number) for number, row in enumerate(marked)]
    return np.stack(rows)
