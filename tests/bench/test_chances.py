"""What counts are worth: shares, detection at rare alarms, information."""

import pytest

from ideaw.bench.statistics import arriving, detected, mean, share, wilson


def test_a_share_has_wilson_s_interval() -> None:
    told = share([True] * 8 + [False] * 2, scale=2)
    assert (told.value, told.low, told.high) == pytest.approx((1.6, *(2 * end for end in wilson(8, 10))))
    assert share([0.5] * 4) == share([1, 1, 0, 0])


def test_a_mean_has_the_normal_interval() -> None:
    told = mean([1.0, 3.0])
    assert (told.value, told.high - 2, 2 - told.low) == pytest.approx((2, 1.96, 1.96), abs=1e-3)
    assert mean([4.0]).low == 4


def test_detection_is_measured_where_there_is_enough_unmarked_audio() -> None:
    marked, unmarked = [1e-9, 1e-3, 0.02, 0.9], [0.01] + [0.5] * 99
    by_audio, by_bound = (detected(marked, unmarked, alarms) for alarms in (1e-2, 1e-3))
    assert (by_audio.by, by_audio.share.value) == ("measured", 0.75)  # one of a hundred is allowed below 0.5
    assert (by_bound.by, by_bound.share.value) == ("p-value", 0.25)


def test_without_p_values_the_unmarked_audio_of_all_rows_must_do() -> None:
    marked, unmarked = [0.1, 0.4, 0.9], [0.3, 0.8]
    everywhere = [*unmarked * 50]  # fifty rows
    here, nowhere = (detected(marked, unmarked, alarms, everywhere) for alarms in (1e-2, 1e-3))
    assert (here.by, here.share) == ("all rows", share([1, 0, 0]))  # one may lie below, but 50 are alike
    assert (nowhere.by, nowhere.share) == ("too few", None)
    assert detected(marked, unmarked, 0.5, everywhere).by == "measured"


def test_information_is_that_of_a_symmetric_channel() -> None:
    assert [arriving(accuracy) for accuracy in (1.0, 0.5, 0.2)] == [1, 0, 0]
    assert arriving(0.89) == pytest.approx(0.5, abs=1e-3)
