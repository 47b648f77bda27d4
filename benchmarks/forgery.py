"""How many forged words a decoder accepts, and how their bits of proof differ from those of genuine words (E108).

    python benchmarks/forgery.py [--model 46+10] [--tries 65536] [--proofs 4096] [--json FILE]

No audio: words are written into the slots of a second, and decoded with the secret key. 65,536 tries take about five
minutes for each method on one core.
"""

import argparse
import dataclasses
import json
from math import log2
from pathlib import Path

import numpy as np

import ideaw
from ideaw.bench.forgery import FORGING_METHODS, Forgeries, Proofs, compare_proofs, expected_tries_log2, forge
from ideaw.bench.statistics import wilson_interval
from ideaw.keys import Key
from ideaw.modem.short_frames import RingFrames

PROOF_BITS = (16, 24, 48)
"""Bits of proof that may be demanded."""


def main() -> None:
    """Try, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="46+10")
    parser.add_argument("--methods", nargs="+", choices=FORGING_METHODS, help="all that the model has, unless given")
    parser.add_argument("--tries", type=int, default=1 << 16)
    parser.add_argument("--proofs", type=int, default=1 << 12, help="words whose bits of proof are compared")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results go")
    given = parser.parse_args()
    secret = Key(np.random.default_rng([given.seed, 0]).bytes(32))
    channels = ideaw.load(given.model, threads=1).network.channels(secret)
    ring = isinstance(channels.short, RingFrames)
    bound = expected_tries_log2(channels)
    if bound is not None:
        print(f"zeros let a compared word pass once in 2^{bound:g} tries")
    forged: list[Forgeries] = []
    for method in given.methods or [method for method in FORGING_METHODS if ring or method != "word"]:
        forged.append(
            forge(channels, method, given.tries, np.random.default_rng([given.seed, 1, FORGING_METHODS.index(method)]))
        )
        print(_in_words(forged[-1]), flush=True)
    proofs: list[Proofs] = []
    if ring:
        proofs = compare_proofs(channels, given.proofs, np.random.default_rng([given.seed, 2]))
        for row in proofs:
            shares = ", ".join(
                f"{100 * np.mean(np.array(row.check_bits) >= bits):.2f} % {bits} and more" for bits in PROOF_BITS
            )
            print(f"{row.label}: {len(row.check_bits)} of {row.tries} read; of these {shares}")
    if given.json:
        content = {"version": ideaw.__version__, "model": given.model, "seed": given.seed}
        rows = {"forged": list(map(dataclasses.asdict, forged)), "proofs": list(map(dataclasses.asdict, proofs))}
        given.json.write_text(json.dumps(content | rows, indent=1) + "\n")


def _in_words(row: Forgeries) -> str:
    low, high = (share * row.tries for share in wilson_interval(row.accepted, row.tries))
    zeros = "" if row.past_zeros is None else f"{row.past_zeros} past the zeros, "
    rate = f", one in 2^{log2(row.tries / row.accepted):.1f}" if row.accepted else ""
    known = f" from {row.known} known words" if row.known else ""
    bits = ", ".join(f"{proof:.1f}" for proof in sorted(row.check_bits))
    accepted = f"{row.accepted} accepted (95 %: {low:.1f} to {high:.1f}){rate}"
    return (
        f"{row.method}, {row.tries} tries{known}: {zeros}{accepted}, {row.accepted_negated} with the tag negated; "
        f"bits of proof: {bits or 'none'}"
    )


if __name__ == "__main__":
    main()
