"""Wilson's 95 % intervals as the tables of the documentation print them, in per cent."""

from collections.abc import Iterable

from ideaw.bench.statistics import wilson_interval

FINE_TRIALS = 200
"""From so many trials on intervals are printed with decimals."""


def interval(hits: float, trials: float, decimals: int | None = None) -> str:
    """Wilson's 95 % interval of a share, in per cent; with decimals where there are many trials."""
    return span(*wilson_interval(hits, trials), int(trials >= FINE_TRIALS) if decimals is None else decimals)


def span(low: float, high: float, decimals: int = 0) -> str:
    """An interval of shares, in per cent."""
    return f"{100 * low:.{decimals}f}–{100 * high:.{decimals}f}"


def of(hits: int, trials: int) -> str:
    """A count with the interval of its share."""
    return f"{hits} of {trials:,} ({interval(hits, trials)} %)"


def interval_note(trials: Iterable[int]) -> str:
    """How wide 95 % intervals are where so many were tried, for a table of counts: of all, of half, and of none."""
    texts = []
    for count in sorted(set(trials)):
        all_of_them, half, none = (wilson_interval(hits, count) for hits in (count, count // 2, 0))
        decimals = int(count >= FINE_TRIALS)
        texts.append(
            f"{count:,} of {count:,} from {100 * all_of_them[0]:.{decimals}f} %, {count // 2:,} of them "
            f"{span(*half, decimals)} %, none up to {100 * none[1]:.{decimals}f} %"
        )
    return f"95 % intervals (Wilson): {'; '.join(texts)}."


def accuracy_note(lowest: float, segments: int) -> str:
    """How wide 95 % intervals are of shares of bits, where a segment is a trial: its bits hang together."""
    best, worst = (wilson_interval(share * segments, segments) for share in (1.0, lowest / 100))
    return (
        f"95 % intervals, each segment one trial (Wilson): of 100.00 from {100 * best[0]:.1f} on, of {lowest:.2f} "
        f"{span(*worst, decimals=1)}."
    )
