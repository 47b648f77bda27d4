"""How unlikely it is by accident: a theorem about fair coins, and the count of everything that was tried.

Let q be the evidence of a period's tiles under one hypothesis (a piece of the audio, a speed, an offset). It depends on
the audio alone. In audio that was not marked with the key, the key's signs s are independent fair coins, and so are
they times the symbols of any word. Then P(Σ s·q ≥ t·|q|) ≤ exp(−t²/2) (Hoeffding 1963), and ≤ c · P(a standard Gaussian
≥ t) with the best constant c = 3.178 (Bentkus and Dzindzalieta 2015), whatever the audio is; and the probability that
any word under any hypothesis reaches its t is at most the sum over all of them (Boole).
"""

from math import log, pi, sqrt

from ideaw.deep.signs import PERIOD_CELLS
from ideaw.deep.words import KINDS_OF_BYTES, count_words

BENTKUS_CONSTANT = 3.179
"""How many times as often as a Gaussian of its variance a sum of independent signs, at any weights, exceeds any value:
at most 1 / (4 · P(Gaussian ≥ √2)) = 3.1787 (Bentkus and Dzindzalieta 2015), rounded up."""


def log_p_any(score: float, num_bytes: int) -> float:
    """ln of the bound for any word of so many bytes, or any of another length as unlikely, at any offset."""
    return log_tail(score) + log(count_words(num_bytes) * len(KINDS_OF_BYTES) * PERIOD_CELLS)


def log_p_given(score: float, num_words: int) -> float:
    """ln of the bound for any of so many given words, at any offset."""
    return log_tail(score) + log(max(num_words, 1) * PERIOD_CELLS)


def log_tail(score: float) -> float:
    """ln of the smaller of both bounds for a single sum; a Gaussian exceeds t at most with its density over t."""
    t = max(score, 0.0)
    gaussian = log(BENTKUS_CONSTANT / (t * sqrt(2 * pi))) if t > 1 else 0.0
    return -(t**2) / 2 + min(0.0, gaussian)
