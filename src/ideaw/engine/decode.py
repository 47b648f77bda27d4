"""From soft values of seconds to a message: seconds that repeat one word are added up and decoded once.

A word that passes its check is accepted only if its score is significant, counting all words that there are
(`significance.py`). Messages that are spread over seconds are decoded by `long_messages.py`.
"""

from dataclasses import dataclass, replace
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from ideaw.engine.long_messages import LONG_CHECK_BITS, decode_long
from ideaw.engine.significance import EARLY_STOP_P, MESSAGE_P
from ideaw.modem.channel import KeyChannels
from ideaw.modem.fec import chernoff_log_p
from ideaw.payload.message import Message

CONTRADICTION_RATIO = 0.75
"""A second contradicts a message if its correlation with it is below this share of that with its own best word."""

MIN_OWN_WORD_SIGMA = 1.0
"""Standard deviations by which a second's own word must exceed the best word of noise."""

MAX_UNLIKE_SIGMA = 1.5
"""Standard deviations of a second's correlation with a message below which it may carry another."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """Outcome of decoding some seconds.

    Attributes:
        message: None if none is significant.
        p_value: Bound on the probability that this call gives a message as significant as this one in audio without
            the mark; 1 without a message. All words are counted: a caller multiplies by the number of its calls only.
        missing_seconds: Once a long message was recognised, the least number of further seconds it needs; else 0.
        symbols: (seconds, slots) of −1 and +1, what each second carries according to the message; None without one.
        llrs: Max-log margins of the bits that were sent, positive for 1.
        check_bits: Bits of proof that the message was made with the key: who does not have it needs 2^check_bits tries.
    """

    message: Message | None
    p_value: float
    missing_seconds: int
    symbols: NDArray[np.float32] | None
    llrs: NDArray[np.float32]
    check_bits: float

    def rows(self, first: int, last: int) -> "Decoded":
        """This decoding, restricted to the seconds from `first` to before `last`."""
        return replace(self, symbols=None if self.symbols is None else self.symbols[first:last])


def decode_seconds(values: NDArray[np.floating], channels: KeyChannels, repeated: Decoded | None = None) -> Decoded:
    """Decode the message of some seconds, whether every second repeats it or it is spread over them.

    Seconds may be cut, and partly unreadable, as long as enough is left. A call makes up to two tests, and each is
    allowed half of the accidents: P(p_value ≤ x) ≤ x.

    The average of two copies with different messages gives one of the two, or nothing, but for rare errors: a third
    passes the check of a short one once in 2^12 wrong words and more, that of a long one once in 2^48.

    Args:
        values: (seconds, slots) soft values in the order of the seconds, positive for 1, larger when surer.
        channels: Of the key.
        repeated: What `decode_repeated` gave for these values, if that is known; it is then no call of its own.
    """
    short = decode_repeated(values, channels) if repeated is None else repeated
    if short.p_value <= EARLY_STOP_P or channels.long is None:
        return short
    long = decode_long(np.asarray(values, np.float64), channels.long, len(channels.message.fec.generator))
    if long is None:
        return short
    if long.message is None:
        return short if short.message is not None else replace(short, missing_seconds=long.missing_seconds)
    p_value = min(1.0, 2 * exp(min(0.0, long.log_p)))
    if p_value > short.p_value:
        return short
    return Decoded(long.message, p_value, 0, long.symbols, long.llrs, LONG_CHECK_BITS)


def decode_repeated(values: NDArray[np.floating], channels: KeyChannels) -> Decoded:
    """Decode (seconds, slots) as repetitions of one word: that of their sum."""
    total = np.asarray(values, np.float64).sum(0)
    words, llrs = channels.short.decode(total)
    tests = 1 if channels.long is None else 2
    for word in words:
        message = Message.decode(word.bits)
        log_p = log(tests) + len(word.bits) * log(2) + chernoff_log_p(total, word.symbols > 0)
        if message is not None and log_p <= log(MESSAGE_P):
            symbols = np.tile(word.symbols, (len(values), 1))
            return Decoded(message, exp(log_p), 0, symbols, llrs, word.check_bits)
    return Decoded(None, 1.0, 0, None, llrs, 0.0)


def contradicts(
    values: NDArray[np.floating], symbols: NDArray[np.floating], channels: KeyChannels, surely: bool = True
) -> NDArray[np.bool_]:
    """Find seconds that carry another word than a message says.

    Args:
        values: (seconds, slots) soft values. Rows of zeros are taken to say what the nearest other row does.
        symbols: (seconds, slots) of −1 and +1 according to the message.
        channels: Of the key.
        surely: Whether only seconds count that can be decoded by themselves; else also those that are unlike it.

    Returns:
        (seconds,).
    """
    norms = np.sqrt(np.square(values, dtype=np.float64).sum(1))
    observed = np.flatnonzero(norms)
    if not len(observed):
        return np.zeros(len(values), bool)
    correlation = (values * symbols).sum(1)[observed] / norms[observed]
    # Decoding is slow: only seconds that correlate less than most do are decoded.
    differs = correlation < CONTRADICTION_RATIO * np.quantile(correlation, 0.75)
    if not differs.any():
        return np.zeros(len(values), bool)
    own = channels.short.best_score(np.asarray(values)[observed[differs]]) / norms[observed[differs]]
    best_of_noise = sqrt(2 * log(2) * channels.short.bits)
    significant = own > best_of_noise + MIN_OWN_WORD_SIGMA
    unlike = (correlation[differs] < MAX_UNLIKE_SIGMA) & (not surely)
    differs[differs] = unlike | (correlation[differs] < CONTRADICTION_RATIO * own) & significant
    nearest = np.searchsorted((observed[1:] + observed[:-1]) / 2, np.arange(len(values)))
    return np.asarray(differs[nearest])
