"""What `ideaw capacity` says that survives, against what does: texts of that length and of others, marked and read.

    python benchmarks/survival.py audio/eval --join 2 --limit 12 --shares 0.7,1,1.4

Clips are joined into longer recordings. For every copy (untouched, MP3) texts of some shares of the length
that is said are marked, coded and searched at their own speed. Where all that fits is said to survive, that length is
tried alone, and counted by itself.
"""

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

import ideaw
from ideaw.audio.formats import Encoding
from ideaw.audio.read import read_audio
from ideaw.audio.write import write_audio
from ideaw.bench.corpus import list_audio_files
from ideaw.bench.statistics import wilson_interval
from ideaw.survival import Survival, copies, measure_survival

FLAC = Encoding("FLAC", "PCM_16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--join", type=int, default=1)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--shares", default="0.7,1,1.4")
    parser.add_argument("--kbps", default="128,64")
    parser.add_argument("--texts", type=int, default=1)
    given = parser.parse_args()
    kbps = [int(rate) for rate in given.kbps.split(",")]
    shares, marker = [float(share) for share in given.shares.split(",")], ideaw.load(threads=1)
    read: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    for number, (samples, rate) in enumerate(recordings(given.folder, given.join, given.limit)):
        rng, most = np.random.default_rng([107, number]), marker.capacity(len(samples) / rate)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "clip.flac")
            write_audio(path, samples, rate, FLAC)
            said = measure_survival(marker.network, path, len(samples), kbps).copies
        line = []
        for survival in said:
            line.append(f"{survival.copy}: {survival.bytes} of {most},")
            for kind, size in sizes(survival, most, shares) * given.texts:
                text = "".join(rng.choice(list(ascii_lowercase), size))
                found = is_read(marker, samples, rate, text, survival.copy, kbps)
                read[survival.copy, kind].append(found)
                line.append(f"{size} {'read' if found else 'lost'}")
        print(f"{number}: {len(samples) / rate:.1f} s;", " ".join(line), flush=True)
    for (copy, kind), results in read.items():
        low, high = (100 * bound for bound in wilson_interval(sum(results), len(results)))
        print(f"{copy}, {kind}: {sum(results)} of {len(results)} read ({low:.0f} to {high:.0f} %)")


def recordings(folder: Path, join: int, limit: int | None) -> list[tuple[NDArray[np.float64], int]]:
    """Clips of one rate and number of channels, joined."""
    clips = [read_audio(path) for path in list_audio_files(folder, None)]
    groups = [clips[first : first + join] for first in range(0, len(clips) - join + 1, join)]
    alike = [group for group in groups if len({(clip.rate, clip.samples.shape[1]) for clip in group}) == 1]
    order = np.random.default_rng(107).permutation(len(alike))[:limit]
    return [(np.concatenate([clip.samples for clip in alike[place]]), alike[place][0].rate) for place in order]


def sizes(survival: Survival, most: int, shares: list[float]) -> list[tuple[str, int]]:
    """Lengths to try, each with the kind that it is counted under."""
    if survival.bytes in (0, most):
        return [("all that fits", most)] if survival.bytes else []
    if survival.bytes <= survival.short_bytes:
        return [("in every second", survival.bytes)]
    tried = [(f"{share:g} times", round(share * survival.bytes)) for share in shares]
    return [(kind, size) for kind, size in tried if survival.short_bytes < size <= most]


def is_read(
    marker: ideaw.Marker, samples: NDArray[np.float64], rate: int, text: str, name: str, kbps: list[int]
) -> bool:
    """Whether a text is read from a copy of marked samples."""
    marked = marker.embed(samples, rate, text)
    with tempfile.TemporaryDirectory() as folder:
        for copy, (coded, coded_rate) in copies((marked, rate), Path(folder, "own.flac"), FLAC, kbps):
            if copy == name:
                return marker.detect(coded, coded_rate, speeds="none").message == text
    raise ValueError(f"there is no copy {name}")


if __name__ == "__main__":
    main()
