"""The paper's Table 2 on any folder of audio: one-second segments, location known, bits of code and message together.

Attacks are the real ones of `attacks/arrays.py`. Every segment is marked with random bits at exactly the SNR that
is asked for; the place is not searched. The paper's row is of its own test audio (VCTK and FMA), which we do not have.
Besides the paper's eight there are others, which a mark should survive without a search of any kind.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.audio import files
from ideaw.audio.buffer import Progress
from ideaw.audio.grid import HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.audio.resample import mix, to_network
from ideaw.audio.samples import as_float
from ideaw.bench.corpus import QUIETEST, evenly, kind, paths_under
from ideaw.bench.tables import paper_values
from ideaw.errors import FileError
from ideaw.marker import load
from ideaw.quality.accuracy import accuracy
from ideaw.quality.fidelity import snr as measured_snr

CLEAN = "clean"


@dataclass(frozen=True)
class Trial:
    """One attack with strengths of its own."""

    attack: str
    label: str
    strengths: dict[str, float | str] = field(default_factory=dict)


PAPER = (Trial(CLEAN, CLEAN), *(Trial(name, catalogue.ATTACKS[name].label) for name in catalogue.PAPER))
"""No attack, then the paper's eight at its strengths."""

OTHERS = (
    Trial("shift", "half a hop late", {"seconds": HOP_SAMPLES / 2 / SAMPLE_RATE}),
    Trial("shift", "half a hop early", {"seconds": -HOP_SAMPLES / 2 / SAMPLE_RATE}),
    Trial("shift", "50 ms late", {"seconds": 0.05}),
    Trial("polarity", "polarity"),
    Trial("lowpass", "LF both ways", {"zero_phase": True}),
    Trial("lowpass", "LF 4 kHz", {"cutoff": 4_000.0}),
    Trial("highpass", "HF 300 Hz", {"cutoff": 300.0}),
    Trial("resample", "8 kHz", {"ratio": 0.5}),
    Trial("noise", "noise 25 dB", {"snr": 25.0}),
    Trial("mp3", "MP3 32", {"kbps": 32}),
    Trial("aac", "AAC 64", {"kbps": 64}),
    Trial("opus", "Opus 32", {"kbps": 32}),
    Trial("stretch", "stretch 95 %", {"length": 0.95}),
    Trial("stretch", "stretch 105 %", {"length": 1.05}),
    Trial("speed", "speed 99 %", {"factor": 0.99}),
    Trial("speed", "speed 101 %", {"factor": 1.01}),
)


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
    bits: int
    """In a second, code and message together."""
    segments: int
    snr: float
    lowest_snr: float
    """The lowest SNR in dB that any segment was measured to have."""
    mean_snr: float
    """The mean of what they were measured to have."""
    rows: list[Row]
    others: list[Row]


def run(
    data: Path,
    model: str | None = None,
    snr: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    seed: int = 0,
    others: bool = False,
) -> Table:
    """Mark every segment of the audio under `data` (at most `limit`, evenly chosen), attack it, read it."""
    marker = load(model)
    audio, kinds = segments_under(data, limit)
    bits = np.random.default_rng(seed).integers(0, 2, (len(audio), marker.message_bits + marker.code_bits))
    message, code = np.split(bits, [marker.message_bits], 1)
    marked = marker.embed_segment(audio, message, code, snr)
    trials = PAPER + (OTHERS if others else ())
    theirs = paper_values.MODELS.get(marker.card.name)
    values = (theirs.accuracy, *theirs.attacked) if theirs else ()
    paper = dict(zip((trial.label for trial in PAPER), values, strict=False))
    rows = []
    for number, trial in enumerate(trials):
        if progress:
            progress((number + 1) / (len(trials) + 1))
        logits = np.concatenate(marker.extract_segment(attacked(trial, marked, seed)), 1)
        by_kind = {
            kind: 100 * accuracy(logits[kinds == kind], bits[kinds == kind]) for kind in sorted(set(kinds.tolist()))
        }
        right = 100 * accuracy(logits, bits)
        rows.append(Row(trial.attack, trial.label, right, by_kind, paper.get(trial.label)))
    kept = [measured_snr(host, after) for host, after in zip(audio, marked, strict=True)]
    level = marker.card.snr if snr is None else snr
    own, other = rows[: len(PAPER)], rows[len(PAPER) :]
    return Table(marker.card.name, bits.shape[1], len(audio), level, min(kept), float(np.mean(kept)), own, other)


def segments_under(data: Path, limit: int | None = None) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """All whole seconds (segments, SEGMENT_SAMPLES) louder than −40 dBFS of the audio files under a folder, and their kinds."""
    found: list[NDArray[np.float32]] = []
    kinds: list[str] = []
    for path in paths_under(data):
        recording = files.read(path)
        mono = to_network(mix(as_float(recording.samples))[:, None], recording.rate)[0]
        seconds = mono[: len(mono) // SEGMENT_SAMPLES * SEGMENT_SAMPLES].reshape(-1, SEGMENT_SAMPLES)
        loud = seconds[np.sqrt(np.square(seconds, dtype=np.float64).mean(1)) > QUIETEST]
        found.extend(loud)
        kinds.extend([kind(path)] * len(loud))
    if not found:
        raise FileError(f"{data} holds no audio file with a second louder than −40 dBFS")
    chosen = evenly(len(found), limit)
    return np.stack([found[i] for i in chosen]), np.array([kinds[i] for i in chosen])


def attacked(trial: Trial, marked: NDArray[np.floating], seed: int) -> NDArray[np.floating]:
    """(segments, SEGMENT_SAMPLES) under one attack, each with draws of its own; cut, or filled with zeros, at the end."""
    if trial.attack == CLEAN:
        return marked
    rows = enumerate(marked)
    out = [
        catalogue.run(trial.attack, row, SAMPLE_RATE, seed=seed + k, **trial.strengths)[:SEGMENT_SAMPLES]
        for k, row in rows
    ]
    return np.stack([np.pad(row, (0, SEGMENT_SAMPLES - len(row))) for row in out])
