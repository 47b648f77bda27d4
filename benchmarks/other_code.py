"""Attacks whose code elsewhere differs from that of our presets, beside each other on the same clips.

    python benchmarks/other_code.py --data DIR [--limit 40]

Clips of mono audio at 16 kHz, the rate at which most benchmarks run, marked as loud as hearing allows and at a fixed
SNR. Writes docs/results/other-code.json, from which `publish.py` makes the table of docs/results/protocols.md.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ideaw
from ideaw.attacks import catalogue
from ideaw.attacks.channels import fit_length
from ideaw.bench.corpus import is_loud, list_audio_files, read_clip

RESULT = Path(__file__).parent.parent / "docs/results/other-code.json"

RATE_HZ, CLIP_SECONDS, FIXED_SNR_DB = 16_000, 6.0, 38.0
"""Of the clips, and of marks that hearing does not set."""

PRESET_WINDOW_SAMPLES = 744
"""2048 samples at 44.1 kHz last as long as these at 16 kHz."""

STRETCHES = ((0.75, 0.95), (1.05, 1.25))
"""Ranges of RAW-Bench's strict time stretch."""

Attack = Callable[[NDArray[np.float32], int], NDArray[np.float32]]


@dataclass(frozen=True)
class Row:
    """An attack: of how many clips the message was right, by the level of the mark."""

    benchmark: str
    attack: str
    clips: int
    by_hearing: int
    fixed_snr: int


def stretch(window: int) -> Attack:
    """A time stretch by a rate that is the clip's own, at the length that it had."""

    def attack(samples: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
        rng = np.random.default_rng(seed)
        factor = float(rng.uniform(*STRETCHES[rng.integers(2)]))
        return fit_length(catalogue.run("tempo", samples, RATE_HZ, factor=factor, window=window), len(samples))

    return attack


def thresholds(factor: float) -> Attack:
    """Noise removed by thresholds on wavelets."""
    return lambda samples, seed: catalogue.run("wavelet", samples, RATE_HZ, levels=12, factor=factor)


ATTACKS: dict[tuple[str, str], Attack] = {
    ("RAW-Bench, strict", "time stretch, windows of 2048 samples, as its code has at 16 kHz"): stretch(2_048),
    ("RAW-Bench, strict", "time stretch, windows of 46 ms, as our preset has at 44.1 kHz"): stretch(
        PRESET_WINDOW_SAMPLES
    ),
    ("DeepMark", "wavelets, half of the universal threshold, as its configuration has"): thresholds(0.5),
    ("resynthesis", "wavelets, the universal threshold"): thresholds(1.0),
}
"""Benchmark and what is done → how."""


def measure(data: Path, limit: int) -> list[Row]:
    """A row for each attack."""
    marker, counts, clips = ideaw.load(threads=1), {name: [0, 0] for name in ATTACKS}, 0
    for number, path in enumerate(list_audio_files(data, limit)):
        clip = read_clip(path, CLIP_SECONDS, RATE_HZ, 1)
        if not is_loud(clip):
            continue
        clips += 1
        message = f"{number:04}"
        levels = (marker.embed(clip, RATE_HZ, message), marker.embed(clip, RATE_HZ, message, snr=FIXED_SNR_DB))
        for name, attack in ATTACKS.items():
            for place, marked in enumerate(levels):
                counts[name][place] += marker.detect(attack(marked, number), RATE_HZ).message == message
        print(f"{path.name}: {list(counts.values())} of {clips}", flush=True)
    return [Row(*name, clips, *counts[name]) for name in ATTACKS]


def main() -> None:
    """Measure, and write down what came out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="a folder of audio files")
    parser.add_argument("--limit", type=int, default=40, help="at most so many files, evenly spaced")
    parser.add_argument("--json", type=Path, default=RESULT)
    given = parser.parse_args()
    rows = [asdict(row) for row in measure(given.data, given.limit)]
    content = {"seconds": CLIP_SECONDS, "rate": RATE_HZ, "snr": FIXED_SNR_DB, "rows": rows}
    given.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
