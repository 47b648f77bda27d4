"""Texts of some length in whole clips: how often they are read after some edits, and how many bits of proof they have.

    python benchmarks/letters.py audio/eval --letters 20 --seconds 10 --edits "clean,CP,AAC 64" --limit 60

Edits are those of `ideaw bench files`. Every clip is searched at its own speed only.
"""

import argparse
from pathlib import Path
from string import ascii_lowercase

import numpy as np

import ideaw
from ideaw.bench.corpus import is_loud, list_audio_files
from ideaw.bench.statistics import wilson_interval
from ideaw.bench.tables.files import CLIP_RATE, EDITS, read_clip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--letters", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--edits", default="clean,CP,AAC 64")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--check-bits", type=int, default=0, help="proof that is asked for, without which none is read")
    given = parser.parse_args()
    edits, marker = given.edits.split(","), ideaw.load(threads=1)
    read: dict[str, list[bool]] = {edit: [] for edit in edits}
    proofs: dict[str, list[int]] = {edit: [] for edit in edits}
    for number, path in enumerate(list_audio_files(given.folder, given.limit)):
        clip = read_clip(path, given.seconds)
        if not is_loud(clip):
            continue
        rng = np.random.default_rng([7, number])
        text, seed = "".join(rng.choice(list(ascii_lowercase), given.letters)), int(rng.integers(1 << 31))
        marked = marker.embed(clip, CLIP_RATE, text)
        for edit in edits:
            found = marker.detect(
                EDITS[edit](marked, seed), CLIP_RATE, speeds="none", layers="fast", min_check_bits=given.check_bits
            )
            read[edit].append(found.found and found.message == text)
            proofs[edit] += [found.check_bits] * read[edit][-1]
    for edit in edits:
        right, clips = sum(read[edit]), len(read[edit])
        low, high = (100 * share for share in wilson_interval(right, clips))
        shares = [np.mean(np.array(proofs[edit]) >= bits) for bits in (12, 24, 48)] if proofs[edit] else []
        proved = ", ".join(f"{100 * share:.0f} %" for share in shares)
        print(f"{edit}: {right} of {clips} ({low:.1f} to {high:.1f} %); check bits of 12, 24, 48 and more: {proved}")


if __name__ == "__main__":
    main()
