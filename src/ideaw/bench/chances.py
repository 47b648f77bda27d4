"""What a count says about a chance."""

import math

NORMAL = 1.959964
"""Standard deviations of a two-sided 95 % interval."""


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a chance of which `hits` in `trials` were seen (Wilson's)."""
    share, square = hits / trials, NORMAL**2 / trials
    middle = share + square / 2
    reach = NORMAL * math.sqrt(share * (1 - share) / trials + square / 4 / trials)
    return max(0.0, (middle - reach) / (1 + square)), min(1.0, (middle + reach) / (1 + square))
