"""From soft values of seconds to a message: seconds that repeat one payload are added up and decoded once.

A word that passes its check is accepted only if its score is significant, counting all words that pass
(`significance.py`). Messages that need several payloads are decoded by `long_messages.py`.
"""

from dataclasses import dataclass, replace
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from ideaw.engine.long_messages import LONG_MESSAGE_P, LONG_TRIALS, LongDecoder, align_payloads, fold_period
from ideaw.engine.significance import EARLY_STOP_P, MESSAGE_P
from ideaw.keys import PUBLIC
from ideaw.modem.fec import SHORT_RING_BITS, FecCode, chernoff_log_p
from ideaw.payload.framing import long_layout, plan_blocks
from ideaw.payload.message import Message, layout

MIN_MARGIN_BITS, MIN_MARGIN_BITS_SHORT_RING = 0.6, 1.2
"""Least margin of a word over its best rival, in units of the mean score of a bit; the second for FEC of fewer bits
than SHORT_RING_BITS, which has more systematic slots.

In the average of two copies with different messages, many wrong words score nearly as high as the two right ones. The
margin rejects three of four such wrong words (nine of ten at 10 bits). Its price: in noise in which nine of ten single
seconds can be decoded, it rejects one of these nine (at 22 bits, 1.2 rejects one in twenty more than 0.6 would).
"""

CONTRADICTION_RATIO = 0.75
"""A second contradicts a message if its correlation with it is below this share of that with its own best word.

Two words of 46 bits that differ at all correlate by 0.75 at most; two messages differ in their checks too, so less.
"""

MIN_OWN_WORD_SIGMA = 1.0
"""Standard deviations by which a second's own word must exceed the best word of noise."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """Outcome of decoding some seconds.

    Attributes:
        message: None if none is significant.
        p_value: Bound on the probability that this call gives a message as significant as this one in audio without
            the mark; 1 without a message. All `trials` are in it: a caller multiplies by the number of its calls only.
        missing_seconds: Once a long message was recognised, the least number of further payloads it needs; else 0.
        payloads: (seconds, message_bits), what each second carries according to the message; None without one.
        llrs: (message_bits,) max-log margins of the sum of all seconds, positive for 1.
        trials: How many hypotheses the p-value covers by a union bound: words that pass the check of a payload, or
            body checks of a long message.
    """

    message: Message | None
    p_value: float
    missing_seconds: int
    payloads: NDArray[np.uint8] | None
    llrs: NDArray[np.float32]
    trials: int

    def rows(self, first: int, last: int) -> "Decoded":
        """This decoding, restricted to the seconds from `first` to before `last`."""
        return replace(self, payloads=None if self.payloads is None else self.payloads[first:last])


def decode_seconds(
    values: NDArray[np.floating], fec: FecCode, key: bytes = PUBLIC, repeated: Decoded | None = None
) -> Decoded:
    """Decode the message of some seconds, whether it fits into one payload or not.

    Payloads of a long message are decoded one by one, and together where they repeat each other; seconds may be cut,
    in any order and partly unreadable, as long as enough are left.

    A call makes up to two tests: of one payload, where P(p_value ≤ x) ≤ x, and of a long message, which is accepted
    with probability `LONG_MESSAGE_P` at most. So P(p_value ≤ x) ≤ x, plus LONG_MESSAGE_P from x = LONG_MESSAGE_P on.

    The average of two copies with different messages gives one of the two, or nothing, but for rare errors: a third
    message of one payload in up to 25 of a million averages at 46 bits, 22 at 22 and about 50 at 10 (the worst of five
    levels of noise; scores measured on 3,000 to 20,000 averages, checks taken to pass once in 2^check), and a long one
    with probability `LONG_MESSAGE_P` at most.

    Args:
        values: (seconds, slots) soft values in the order of the seconds, positive for 1, larger when surer.
        fec: The FEC of the payload.
        key: The key of checks.
        repeated: What `decode_repeated` gave for these values, if that is known; it is then no call of its own.
    """
    rows = np.asarray(values, np.float64)
    bits, missing = len(fec.generator), 0
    short = decode_repeated(values, fec, key) if repeated is None else repeated
    if short.p_value > EARLY_STOP_P and (blocks := long_layout(bits)) is not None:
        for candidates in (*fold_period(rows, blocks.max_blocks), rows):
            outcome = LongDecoder(candidates, fec, blocks, key).decode()
            if isinstance(outcome, Message):
                payloads = align_payloads(plan_blocks(outcome, bits, key).period_payloads, rows, fec)
                return Decoded(outcome, LONG_MESSAGE_P, 0, payloads, short.llrs, LONG_TRIALS)
            missing = min(filter(None, (missing, outcome)), default=0)
    return short if short.message is not None else replace(short, missing_seconds=missing)


def decode_repeated(values: NDArray[np.floating], fec: FecCode, key: bytes = PUBLIC) -> Decoded:
    """Decode (seconds, slots) as repetitions of one payload: the word of their sum."""
    total = np.asarray(values, np.float64).sum(0)
    llrs = fec.decode_word(total)
    bits = llrs > 0
    message, p_value = _accept_word(total, llrs, fec, key) or (None, 1.0)
    payloads = None if message is None else np.tile(bits.astype(np.uint8), (len(values), 1))
    return Decoded(message, p_value, 0, payloads, llrs, _passing_words(len(bits)))


def contradicts(values: NDArray[np.floating], payloads: NDArray[np.integer], fec: FecCode) -> NDArray[np.bool_]:
    """Find seconds that carry another word than a message says.

    Args:
        values: (seconds, slots) soft values. Rows of zeros are taken to say what the nearest other row does.
        payloads: (seconds, bits) according to the message.
        fec: The FEC of the payload.

    Returns:
        (seconds,); False where a second cannot be decoded by itself.
    """
    norms = np.sqrt(np.square(values, dtype=np.float64).sum(1))
    observed = np.flatnonzero(norms)
    if not len(observed):
        return np.zeros(len(values), bool)
    correlation = (values * (2.0 * fec.encode(payloads) - 1)).sum(1)[observed] / norms[observed]
    # Decoding is slow: only seconds that correlate less than most do are decoded.
    differs = correlation < CONTRADICTION_RATIO * np.quantile(correlation, 0.75)
    if not differs.any():
        return np.zeros(len(values), bool)
    own = fec.word_score(np.asarray(values)[observed[differs]]) / norms[observed[differs]]
    best_of_noise = sqrt(2 * log(2) * len(fec.generator))
    significant = own > best_of_noise + MIN_OWN_WORD_SIGMA
    differs[differs] = (correlation[differs] < CONTRADICTION_RATIO * own) & significant
    nearest = np.searchsorted((observed[1:] + observed[:-1]) / 2, np.arange(len(values)))
    return np.asarray(differs[nearest])


def _accept_word(
    total: NDArray[np.float64], llrs: NDArray[np.float32], fec: FecCode, key: bytes
) -> tuple[Message, float] | None:
    """The message of the word `llrs` (bits,) of slots `total` (slots,), and its p-value over all passing words."""
    bits = llrs > 0
    message = Message.decode(bits, key)
    word = fec.encode(bits)
    margin = MIN_MARGIN_BITS if len(bits) >= SHORT_RING_BITS else MIN_MARGIN_BITS_SHORT_RING
    if message is None or np.abs(llrs).min() < margin * (total @ (2.0 * word - 1)) / len(bits):
        return None
    log_p = (len(bits) - layout(len(bits)).check_bits) * log(2) + chernoff_log_p(total, word)
    p_value = exp(min(0.0, log_p))
    return (message, p_value) if p_value <= MESSAGE_P else None


def _passing_words(bits: int) -> int:
    """Words of so many bits whose check passes."""
    return 1 << bits - layout(bits).check_bits
