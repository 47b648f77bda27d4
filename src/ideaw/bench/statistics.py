"""What counts say about chances, and what detection is worth where alarms must be rare."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

NORMAL = 1.959964
"""Standard deviations of a two-sided 95 % interval."""


@dataclass(frozen=True)
class Share:
    """A value with its interval of 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Detected:
    """The share of marks that is found where false alarms are as rare as asked for.

    `by` says what the threshold comes from: unmarked audio under the same attack, where there is enough of it to see
    an alarm, or the p-value, which is a bound; without p-values, unmarked audio under all attacks. Where that is too
    little as well, there is no share.
    """

    share: Share | None
    by: Literal["measured", "p-value", "all rows", "too few"]


def wilson(hits: float, trials: int) -> tuple[float, float]:
    """The 95 % interval of a chance of which `hits` in `trials` were seen (Wilson's)."""
    share, square = hits / trials, NORMAL**2 / trials
    middle = share + square / 2
    reach = NORMAL * math.sqrt(max(0.0, share * (1 - share)) / trials + square / 4 / trials)
    return max(0.0, (middle - reach) / (1 + square)), min(1.0, (middle + reach) / (1 + square))


def share(values: Sequence[float], scale: float = 1.0) -> Share:
    """The mean of values from 0 to 1, one for each trial, times `scale`.

    The interval is Wilson's. Hits and misses have the largest variance that values with this mean can have, so it
    is too wide for values in between rather than too narrow.
    """
    low, high = wilson(sum(values), len(values))
    return Share(scale * sum(values) / len(values), scale * low, scale * high)


def mean(values: Sequence[float]) -> Share:
    """The mean of any values, with the normal interval; of one value, the value itself."""
    middle = sum(values) / len(values)
    spread = sum((value - middle) ** 2 for value in values) / max(len(values) - 1, 1)
    reach = NORMAL * math.sqrt(spread / len(values))
    return Share(middle, middle - reach, middle + reach)


def detected(
    marked: Sequence[float], unmarked: Sequence[float], alarms: float, everywhere: Sequence[float] | None = None
) -> Detected:
    """How many marks are found by their p-values if at most the share `alarms` of unmarked audio may be.

    With `everywhere`, those of unmarked audio under all attacks, values are no p-values but doubts of any scale.
    """
    threshold = _threshold(unmarked, alarms)
    by: Literal["measured", "p-value", "all rows"] = "measured"
    if threshold is None and everywhere is None:
        threshold, by = alarms, "p-value"
    elif threshold is None and everywhere is not None:
        threshold, by = _threshold(everywhere, alarms), "all rows"
    if threshold is None:
        return Detected(None, "too few")
    return Detected(share([float(p < threshold) for p in marked]), by)


def _threshold(unmarked: Sequence[float], alarms: float) -> float | None:
    """Below which at most the share `alarms` of some values lies; None if that is not one of them."""
    allowed = int(alarms * len(unmarked) + 1e-9)
    return sorted(unmarked)[allowed] if allowed else None


def arriving(accuracy: float) -> float:
    """Information in bits for each bit sent over a symmetric channel, of which this share arrives right."""
    wrong = min(1 - accuracy, 0.5)
    return 1.0 if wrong <= 0 else 1 + wrong * math.log2(wrong) + (1 - wrong) * math.log2(1 - wrong)
