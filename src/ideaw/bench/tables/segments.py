"""The paper's Table 2 on any folder of audio: one-second segments, location known, all bits counted together.

Attacks are the real ones of `attacks/arrays.py`. Every segment is marked with random bits at exactly the SNR that
is asked for; the place is not searched. The paper's row is of its own test audio (VCTK and FMA), which we do not have.
Besides the paper's eight there are others, which a mark should survive without a search of any kind.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.audio.blocks import Progress
from ideaw.audio.grid import HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.bench.corpus import MIN_RMS, audio_kind, evenly_spaced, list_audio_files, read_network_mono
from ideaw.bench.rivals import load_segment_marker
from ideaw.bench.tables import paper_values
from ideaw.errors import FileError
from ideaw.quality.accuracy import accuracy
from ideaw.quality.fidelity import snr as measured_snr

CLEAN = "clean"


@dataclass(frozen=True)
class Trial:
    """One attack with strengths of its own."""

    attack: str
    label: str
    strengths: dict[str, float | str] = field(default_factory=dict)


PAPER_TRIALS = (Trial(CLEAN, CLEAN), *(Trial(name, catalogue.ATTACKS[name].label) for name in catalogue.PAPER))
"""No attack, then the paper's eight at its strengths."""

OTHER_TRIALS = (
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
    """Bits in a second, locating code and message together."""
    segments: int
    snr: float
    lowest_snr: float
    """The lowest SNR in dB that any segment was measured to have."""
    mean_snr: float
    """The mean SNR in dB of all segments as measured."""
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
    """Mark every segment of the audio under `data`, attack it, read it.

    Args:
        data: A folder of audio files.
        model: A packaged model or a model folder; None for the default.
        snr: In dB, of every segment; None for what the model's card says.
        limit: At most so many segments, evenly spaced.
        progress: Called with the share that is done.
        seed: Of bits and attacks.
        others: Whether attacks besides the paper's are measured.
    """
    marker = load_segment_marker(model)
    audio, kinds = read_segments(data, limit)
    bits = np.random.default_rng(seed).integers(0, 2, (len(audio), marker.message_bits + marker.code_bits))
    message, code = np.split(bits, [marker.message_bits], 1)
    marked = marker.embed_segment(audio, message, code, snr)
    trials = PAPER_TRIALS + (OTHER_TRIALS if others else ())
    printed = paper_values.MODELS.get(marker.card.name)
    values = (printed.accuracy, *printed.attacked) if printed else ()
    paper = dict(zip((trial.label for trial in PAPER_TRIALS), values, strict=False))
    rows = []
    for number, trial in enumerate(trials):
        if progress:
            progress((number + 1) / (len(trials) + 1))
        logits = np.concatenate(marker.extract_segment(attack_segments(trial, marked, seed)), 1)
        by_kind = {
            kind: 100 * accuracy(logits[kinds == kind], bits[kinds == kind]) for kind in sorted(set(kinds.tolist()))
        }
        total = 100 * accuracy(logits, bits)
        rows.append(Row(trial.attack, trial.label, total, by_kind, paper.get(trial.label)))
    snrs = [measured_snr(host, after) for host, after in zip(audio, marked, strict=True)]
    level = marker.card.snr if snr is None else snr
    paper_rows, other_rows = rows[: len(PAPER_TRIALS)], rows[len(PAPER_TRIALS) :]
    return Table(
        marker.card.name, bits.shape[1], len(audio), level, min(snrs), float(np.mean(snrs)), paper_rows, other_rows
    )


def read_segments(data: Path, limit: int | None = None) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """The seconds `(segments, SEGMENT_SAMPLES)` above −40 dBFS of the audio under a folder, and the kind of each.

    Args:
        data: A folder of audio files.
        limit: At most so many segments, evenly spaced.

    Raises:
        FileError: There is no such segment.
    """
    segments: list[NDArray[np.float32]] = []
    kinds: list[str] = []
    for path in list_audio_files(data):
        mono = read_network_mono(path)
        seconds = mono[: len(mono) // SEGMENT_SAMPLES * SEGMENT_SAMPLES].reshape(-1, SEGMENT_SAMPLES)
        loud = seconds[np.sqrt(np.square(seconds, dtype=np.float64).mean(1)) > MIN_RMS]
        segments.extend(loud)
        kinds.extend([audio_kind(path)] * len(loud))
    if not segments:
        raise FileError(f"{data} holds no audio file with a second louder than −40 dBFS")
    chosen = evenly_spaced(len(segments), limit)
    return np.stack([segments[i] for i in chosen]), np.array([kinds[i] for i in chosen])


def attack_segments(trial: Trial, marked: NDArray[np.floating], seed: int) -> NDArray[np.floating]:
    """`(segments, SEGMENT_SAMPLES)` under one attack, each with its own draws, cut or padded with zeros to a second."""
    if trial.attack == CLEAN:
        return marked
    rows = enumerate(marked)
    out = [
        catalogue.run(trial.attack, row, SAMPLE_RATE, seed=seed + k, **trial.strengths)[:SEGMENT_SAMPLES]
        for k, row in rows
    ]
    return np.stack([np.pad(row, (0, SEGMENT_SAMPLES - len(row))) for row in out])
