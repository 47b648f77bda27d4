"""Significance of a decoded word: a Chernoff bound, and the levels at which words and blocks are accepted.

The null hypothesis is audio without a mark of the key. Carriers have pseudo-random signs drawn from the key, so the
slots are then values with independent random signs, whatever the audio is.
"""

from math import log

import numpy as np
from numpy.typing import NDArray

MESSAGE_P = 1e-4
"""Level at which a message is accepted; a bound, since all words that pass the check are counted (union bound).

In a million sums of noise about 4 words are accepted at 46 bits, 3 at 22 and fewer at 10, of the 490, 2,000 and 125,000
that pass the check. (Scores measured on 6,000 to 60,000 sums of Gaussian noise, passing checks calculated.)
"""

BLOCK_P = 1e-3
"""Level at which a single block of a long message is accepted; the body has a check of its own besides."""

_CHERNOFF_LAMBDAS = np.geomspace(0.05, 20, 24)


def chernoff_log_p(values: NDArray[np.floating], word: NDArray[np.integer]) -> float:
    """Bound the probability that one given word scores so high by chance.

    For random signs E exp(λ Σ ±v) = Π cosh(λ v), so P(score ≥ s) ≤ Π cosh(λ v) / exp(λ s) for every λ > 0; the least
    bound of 24 values of λ is taken. It holds for one word: add the logarithm of the number of words compared.

    Args:
        values: (…), soft values of slots, positive for 1.
        word: (…), zeros and ones.

    Returns:
        Natural logarithm of the bound, at most 0.
    """
    slots = np.asarray(values, np.float64).ravel()
    rms = np.sqrt(np.square(slots).mean())
    if not rms:
        return 0.0
    slots = slots / rms
    score = slots @ (2.0 * np.ravel(word) - 1)
    exponents = _CHERNOFF_LAMBDAS[:, None] * np.abs(slots)
    bounds = (np.logaddexp(exponents, -exponents) - log(2)).sum(-1) - _CHERNOFF_LAMBDAS * score
    return float(min(0.0, bounds.min()))
