"""The table by which the deep layer whitens: how speech's log energies are spread over modulation and quefrency.

    python benchmarks/deep_spectrum.py SPEECH_FOLDER [--seconds 16] [--table src/ideaw/deep/speech_spectrum.npy]

Joins the files of each folder of recordings, as far as they go in the order of their names, and takes the mean over
pieces of so many seconds. Only clips for training belong here.
"""

import argparse
from pathlib import Path

import numpy as np

from ideaw.audio.blocks import to_network_mono
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.read import read_audio
from ideaw.deep.bands import analyse, measuring_bands, powers
from ideaw.deep.evidence import log_energies, modulation_spectrum


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("speech", type=Path)
    parser.add_argument("--seconds", type=int, default=16)
    parser.add_argument("--pieces", type=int, default=60)
    parser.add_argument("--table", type=Path, default=Path("src/ideaw/deep/speech_spectrum.npy"))
    arguments = parser.parse_args()
    paths = sorted(path for path in arguments.speech.rglob("*") if path.suffix in {".ogg", ".flac", ".wav"})
    paths = paths[:: max(1, len(paths) // (arguments.pieces * 3))]
    recordings = (read_audio(path) for path in paths)
    audio = np.concatenate([to_network_mono(recording.samples, recording.rate) for recording in recordings])
    length = arguments.seconds * SAMPLE_RATE
    pieces = [audio[start : start + length] for start in range(0, len(audio) - length + 1, length)][: arguments.pieces]
    energies = (log_energies(powers(analyse(piece)) @ measuring_bands()) for piece in pieces)
    table = np.mean([modulation_spectrum(piece) for piece in energies], 0).astype(np.float32)
    np.save(arguments.table, table)
    print(f"{len(pieces)} pieces of {arguments.seconds} s: {arguments.table}, {table.shape}")


if __name__ == "__main__":
    main()
