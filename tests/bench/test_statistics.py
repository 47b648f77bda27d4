"""What counts are worth: shares, detection at rare alarms, information."""

import pytest
from scipy import stats

from ideaw.bench.statistics import bsc_capacity, detection_rate, estimate_mean, estimate_share, wilson_interval


def test_a_share_has_wilson_s_interval() -> None:
    estimate = estimate_share([True] * 8 + [False] * 2, scale=2)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
        (1.6, *(2 * end for end in wilson_interval(8, 10)))
    )
    assert estimate_share([0.5] * 4) == estimate_share([1, 1, 0, 0])


def test_a_mean_has_the_normal_interval() -> None:
    estimate = estimate_mean([1.0, 3.0])
    assert (estimate.value, estimate.high - 2, 2 - estimate.low) == pytest.approx((2, 1.96, 1.96), abs=1e-3)
    assert estimate_mean([4.0]).low == 4


def test_detection_is_measured_where_there_is_enough_unmarked_audio() -> None:
    marked, unmarked = [1e-9, 1e-3, 0.02, 0.9], [0.01] + [0.5] * 99
    by_audio, by_bound = (detection_rate(marked, unmarked, alarms) for alarms in (1e-2, 1e-3))
    assert (by_audio.by, by_audio.share.value) == ("measured", 0.75)  # one of a hundred is allowed below 0.5
    assert (by_bound.by, by_bound.share.value) == ("p-value", 0.25)


def test_without_p_values_the_unmarked_audio_of_all_rows_must_do() -> None:
    marked, unmarked = [0.1, 0.4, 0.9], [0.3, 0.8]
    everywhere = [*unmarked * 50]  # fifty rows
    here, nowhere = (detection_rate(marked, unmarked, alarms, everywhere) for alarms in (1e-2, 1e-3))
    assert (here.by, here.share) == ("all rows", estimate_share([1, 0, 0]))  # one may lie below, but 50 are alike
    assert (nowhere.by, nowhere.share) == ("too few", None)
    assert detection_rate(marked, unmarked, 0.5, everywhere).by == "measured"


def test_information_is_that_of_a_symmetric_channel() -> None:
    assert [bsc_capacity(accuracy) for accuracy in (1.0, 0.5, 0.2)] == [1, 0, 0]
    assert bsc_capacity(0.89) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("hits", "trials"), [(0, 12), (99, 99), (42, 44), (3, 1566)])
def test_wilson_s_interval_is_scipy_s_for_whole_counts(hits: int, trials: int) -> None:
    known = stats.binomtest(hits, trials).proportion_ci(method="wilson")
    assert wilson_interval(hits, trials) == pytest.approx((known.low, known.high), abs=1e-7)
