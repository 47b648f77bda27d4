"""Interval estimates of rates, detection rates at a given false-alarm rate, and the capacity of a binary channel.

Wilson's interval is written out, since scipy's takes whole counts only and shares of bits are not whole.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Z_95 = 1.959964
"""Normal quantile of a two-sided 95 % interval."""


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class DetectionRate:
    """The share of marked clips that are detected at a false-alarm rate.

    `by` says where the threshold comes from: "measured" on unmarked audio under the same attack, where there is enough
    of it; the "p-value", which is a bound; or, for scores that are no p-values, unmarked audio of "all rows". Where
    that is too little as well ("too few"), there is no share.
    """

    share: Estimate | None
    by: Literal["measured", "p-value", "all rows", "too few"]


def wilson_interval(hits: float, trials: int) -> tuple[float, float]:
    """Wilson's 95 % score interval of a probability of which `hits` in `trials` were seen."""
    share, square = hits / trials, Z_95**2 / trials
    centre = share + square / 2
    margin = Z_95 * math.sqrt(max(0.0, share * (1 - share)) / trials + square / 4 / trials)
    return max(0.0, (centre - margin) / (1 + square)), min(1.0, (centre + margin) / (1 + square))


def estimate_share(values: Sequence[float], scale: float = 1.0) -> Estimate:
    """The mean of values from 0 to 1, one for each trial, times `scale`, with Wilson's interval.

    Hits and misses have the largest variance that values with this mean can have, so the interval is conservative for
    values in between.
    """
    low, high = wilson_interval(sum(values), len(values))
    return Estimate(scale * sum(values) / len(values), scale * low, scale * high)


def estimate_mean(values: Sequence[float]) -> Estimate:
    """The mean of any values with the normal interval; a single value has no width."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)
    margin = Z_95 * math.sqrt(variance / len(values))
    return Estimate(mean, mean - margin, mean + margin)


def detection_rate(
    marked: Sequence[float],
    unmarked: Sequence[float],
    false_alarm_rate: float,
    pooled_unmarked: Sequence[float] | None = None,
) -> DetectionRate:
    """The share of marked clips below the threshold that lets at most `false_alarm_rate` of unmarked clips pass.

    Args:
        marked: Doubts about marked clips, 0 to 1; p-values unless `pooled_unmarked` is given.
        unmarked: Doubts about unmarked clips under the same attack.
        false_alarm_rate: Share of unmarked clips that may be taken for marked.
        pooled_unmarked: For doubts that are no p-values: those about unmarked clips under all attacks.
    """
    threshold = _quantile(unmarked, false_alarm_rate)
    by: Literal["measured", "p-value", "all rows"] = "measured"
    if threshold is None and pooled_unmarked is None:
        threshold, by = false_alarm_rate, "p-value"
    elif threshold is None and pooled_unmarked is not None:
        threshold, by = _quantile(pooled_unmarked, false_alarm_rate), "all rows"
    if threshold is None:
        return DetectionRate(None, "too few")
    return DetectionRate(estimate_share([float(doubt < threshold) for doubt in marked]), by)


def _quantile(values: Sequence[float], share: float) -> float | None:
    """The value below which at most `share` of the values lie; None if that is not even one of them."""
    allowed = int(share * len(values) + 1e-9)
    return sorted(values)[allowed] if allowed else None


def bsc_capacity(accuracy: float) -> float:
    """Capacity in bits per bit sent of a binary symmetric channel that delivers this share of bits right."""
    errors = min(1 - accuracy, 0.5)
    return 1.0 if errors <= 0 else 1 + errors * math.log2(errors) + (1 - errors) * math.log2(1 - errors)
