"""How unlikely it is by accident: a theorem about fair coins, and the count of everything that was tried.

Let q be the evidence of a period's tiles under one hypothesis (a piece of the audio, a speed, an offset). It depends on
the audio alone. In audio that was not marked with the key, the key's signs s are independent fair coins, and so are
they times the symbols of any word. Then (Hoeffding 1963) P(Σ s·q ≥ t·|q|) ≤ exp(−t²/2), whatever the audio is, and the
probability that any word under any hypothesis reaches its t is at most the sum over all of them (Boole).
"""

from math import log

from ideaw.deep.signs import PERIOD_CELLS
from ideaw.deep.words import KINDS_OF_BYTES, count_words


def log_p_any(score: float, num_bytes: int) -> float:
    """ln of the bound for any word of so many bytes, or any of another length as unlikely, at any offset."""
    return _log_tail(score) + log(count_words(num_bytes) * len(KINDS_OF_BYTES) * PERIOD_CELLS)


def log_p_given(score: float, num_words: int) -> float:
    """ln of the bound for any of so many given words, at any offset."""
    return _log_tail(score) + log(max(num_words, 1) * PERIOD_CELLS)


def _log_tail(score: float) -> float:
    return -(max(score, 0.0) ** 2) / 2
