"""Forward error correction (FEC): for each number of bits and slots there is one fixed linear code.

Decoding is soft: it starts from LLRs of slots, so that a slot received with confidence counts for more. FEC of up to
MAX_EXHAUSTIVE_BITS bits is decoded exhaustively; for more bits it is a tail-biting convolutional code.
"""

from functools import cache

import numpy as np

from ideaw.modem.exhaustive import (
    MAX_EXHAUSTIVE_BITS,
    MAX_EXHAUSTIVE_SLOTS,
    ExhaustiveCode,
    Uncoded,
    all_words,
    bit_llrs_of_words,
)
from ideaw.modem.soft_decision import (
    LLR_SCALE,
    MAX_SLOTS_PER_BIT,
    SHORT_RING_BITS,
    FecCode,
    SoftCode,
    TailBitingCode,
    chernoff_log_p,
    logsumexp,
)

__all__ = [
    "LLR_SCALE",
    "SHORT_RING_BITS",
    "ExhaustiveCode",
    "FecCode",
    "SoftCode",
    "TailBitingCode",
    "Uncoded",
    "all_words",
    "bit_llrs_of_words",
    "chernoff_log_p",
    "fec_code",
    "fec_exists",
    "logsumexp",
    "usual_slots",
]

USUAL_SLOTS = 540
"""Approximate number of slots: five tiles of a message each, or seven of a locating code. With 98 slots of the same
total energy the best FEC of 46 bits that we know needs 1 dB more."""


def fec_exists(bits: int, slots: int) -> bool:
    """Whether there is an FEC that carries `bits` bits in `slots` slots."""
    if bits == slots:
        return bits >= 0
    if 1 <= bits <= MAX_EXHAUSTIVE_BITS:
        return bits < slots <= MAX_EXHAUSTIVE_SLOTS
    return bits > 0 and slots % bits == 0 and 2 <= slots // bits <= MAX_SLOTS_PER_BIT


def usual_slots(bits: int) -> int:
    """Slots of the FEC of so many bits, where the carriers leave the choice."""
    if bits <= MAX_EXHAUSTIVE_BITS:
        return bits * (USUAL_SLOTS // bits) if bits else 0
    # A multiple of four per bit, so that a quarter of them can be systematic.
    return bits * min(MAX_SLOTS_PER_BIT, max(2, 4 * round(USUAL_SLOTS / (4 * bits))))


@cache
def fec_code(bits: int, slots: int) -> FecCode:
    """The FEC that carries `bits` bits in `slots` slots; `fec_exists` must hold."""
    assert fec_exists(bits, slots)
    if bits == slots:
        return Uncoded(np.eye(bits, dtype=np.uint8))
    if bits <= MAX_EXHAUSTIVE_BITS:
        return ExhaustiveCode.of(bits, slots)
    return TailBitingCode.of(bits, slots // bits)
