"""Decoding of messages that are spread over seconds: their length and phase from known slots, then all seconds as one.

The slots that tell length and phase fix which stretch of the code's sequence each second carries, also across cuts.
Seconds of one phase are added up; all phases together are decoded once, into a few words, of which one must pass the
check.
"""

from dataclasses import dataclass
from math import log, log2

import numpy as np
from numpy.typing import NDArray

from ideaw.engine.significance import MESSAGE_P
from ideaw.modem.fec import chernoff_log_p
from ideaw.modem.long_frames import CHECK_ZEROS, LENGTH_SLOTS, NUM_LENGTHS, SEQUENCE_PHASES, LongFrames
from ideaw.payload.body import parse_body, seconds_for
from ideaw.payload.message import Message

MIN_SLOTS_PER_BIT = 4
"""Slots for each bit below which nothing can be decoded, however clear they are."""

NUM_TRIED_LENGTHS, NUM_LONG_RIVALS = 2, 1
"""Lengths for which the seconds are decoded, and words besides the best that are compared for each."""

CUT_PENALTY_SIGMA = 5.0
"""Cost of a jump in the phase of the message, in standard deviations of a second's correlation."""

MAX_SCREENED_SECONDS = 512
"""Most seconds in a row by which lengths are told apart, those with the most energy: bounds the time."""

LONG_CHECK_BITS = CHECK_ZEROS - log2(NUM_TRIED_LENGTHS * (1 + NUM_LONG_RIVALS))
"""Bits of proof that the check of a long message gives: all words that are tried are counted."""


@dataclass(frozen=True, eq=False)
class LongDecoding:
    """What some seconds say together.

    Attributes:
        message: None if nothing significant.
        log_p: Logarithm of a bound on the probability that seconds without the mark say anything so significant.
        symbols: (seconds, slots) of −1 and +1 that they carry according to the message.
        llrs: Max-log margins of the word that was sent.
        missing_seconds: Where a length was recognised and no message, at least so many more are needed; else 0.
    """

    message: Message | None
    log_p: float
    symbols: NDArray[np.float32]
    llrs: NDArray[np.float32]
    missing_seconds: int


def decode_long(rows: NDArray[np.float64], frames: LongFrames, message_bits: int) -> LongDecoding | None:
    """Decode (seconds, slots) as a message that is spread over them; None if nothing hints at one."""
    most_bits = int(rows.any(1).sum()) * frames.content_slots // MIN_SLOTS_PER_BIT
    lengths = min(NUM_LENGTHS, (most_bits - frames.code(0).bits) // 8)
    if lengths < 1:
        return None
    hint: LongDecoding | None = None
    for index in _likely_lengths(rows, frames, lengths):
        decoding = _decode_aligned(rows, frames, index, lengths, message_bits)
        if decoding is not None and decoding.message is not None:
            return decoding
        hint = hint or decoding
    return hint


def _decode_aligned(
    rows: NDArray[np.float64], frames: LongFrames, index: int, lengths: int, message_bits: int
) -> LongDecoding | None:
    """Decode seconds for one of so many lengths."""
    phases, num_bytes = _align(rows, frames, index), index + 1
    here, folded = np.unique(phases), np.zeros((SEQUENCE_PHASES, frames.slots))
    np.add.at(folded, phases, rows * frames.masks[phases])
    log_alignments, code = _log_alignments(phases, lengths), frames.code(num_bytes)
    totals = code.collect(folded[:, LENGTH_SLOTS:], frames.places(code))
    words, llrs = code.decode(totals, NUM_LONG_RIVALS)
    for word in words:
        bits = frames.open(word)
        if bits is not None and (message := parse_body(bits, message_bits)) is not None:
            template = frames.template(word)
            log_p = log_alignments + len(bits) * log(2) + chernoff_log_p(folded[here], template[here] > 0)
            if log_p <= log(MESSAGE_P):
                return LongDecoding(message, log_p, template[phases] * frames.masks[phases], llrs, 0)
    known = np.broadcast_to(frames.lengths[index] > 0, (len(here), LENGTH_SLOTS))
    if log_alignments + chernoff_log_p(folded[here, :LENGTH_SLOTS], known) > log(MESSAGE_P):
        return None
    missing = max(1, seconds_for(num_bytes) - int(rows.any(1).sum()))
    return LongDecoding(None, 0.0, np.zeros_like(rows), llrs, missing)


def _likely_lengths(rows: NDArray[np.float64], frames: LongFrames, lengths: int) -> list[int]:
    """The indices of the lengths, of so many, that fit the seconds best, the best first."""
    count = len(rows)
    if count > MAX_SCREENED_SECONDS:
        energy = np.cumsum(np.square(rows[:, :LENGTH_SLOTS]).sum(1))
        first = int(np.argmax(energy[MAX_SCREENED_SECONDS:] - energy[:-MAX_SCREENED_SECONDS]))
        rows = rows[first : first + MAX_SCREENED_SECONDS]
    patterns = frames.lengths[:lengths].T / _sigma(rows)
    best = np.zeros((SEQUENCE_PHASES, lengths), np.float32)
    for row in rows[:, :LENGTH_SLOTS].astype(np.float32):
        best = np.maximum(np.roll(best, 1, 0), best.max(0) - np.float32(CUT_PENALTY_SIGMA))
        best += (row * frames.masks[:, :LENGTH_SLOTS]) @ patterns
    scores = best.max(0)
    return [int(index) for index in np.argsort(-scores, kind="stable")[:NUM_TRIED_LENGTHS]]


def _align(rows: NDArray[np.float64], frames: LongFrames, index: int) -> NDArray[np.int64]:
    """Viterbi over the phase of the message, for one length: (seconds,) phases.

    One phase follows the other, except at a cut, which costs CUT_PENALTY_SIGMA.
    """
    pattern = frames.masks[:, :LENGTH_SLOTS] * frames.lengths[index]
    correlation = rows[:, :LENGTH_SLOTS] @ pattern.T / _sigma(rows)
    previous = np.roll(np.arange(SEQUENCE_PHASES), 1)
    traceback = np.empty(correlation.shape, np.int64)
    best = np.zeros(SEQUENCE_PHASES)
    for second, scores in enumerate(correlation):
        cut = best.max() - CUT_PENALTY_SIGMA > best[previous]
        traceback[second] = np.where(cut, best.argmax(), previous)
        best = np.where(cut, best.max() - CUT_PENALTY_SIGMA, best[previous]) + scores
    path = [int(best.argmax())]
    for second in range(len(rows) - 1, 0, -1):
        path.append(int(traceback[second, path[-1]]))
    return np.array(path[::-1])


def _log_alignments(phases: NDArray[np.int64], lengths: int) -> float:
    """Logarithm of the number of alignments that count where these phases are chosen (weighted union bound).

    Any length and first phase, any number of cuts, each at any second and to any phase: of weight 2^−(1 + cuts).
    """
    cuts = int((np.diff(phases) % SEQUENCE_PHASES != 1).sum())
    return log(lengths * SEQUENCE_PHASES) + cuts * log(SEQUENCE_PHASES * len(phases)) + (1 + cuts) * log(2)


def _sigma(rows: NDArray[np.float64]) -> float:
    """Standard deviation of a second's correlation with known slots."""
    return float(np.sqrt(np.square(rows[:, :LENGTH_SLOTS]).sum() / max(rows.any(1).sum(), 1))) or 1.0
