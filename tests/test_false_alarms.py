"""Unmarked audio stays unfound where most is tried: at every speed, in stereo, with several keys, and with copies."""

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import SAMPLE_RATE

KEYS = [ideaw.Key(bytes([number]) * 16) for number in range(3)]


@pytest.fixture(scope="module")
def markers() -> list[ideaw.Marker]:
    return [ideaw.load(name, threads=1) for name in ideaw.model_names()]


@pytest.mark.parametrize(
    "speeds", ["none", pytest.param("near", marks=pytest.mark.slow), pytest.param("all", marks=pytest.mark.slow)]
)
def test_unmarked_stereo_is_not_found_at_other_speeds(
    markers: list[ideaw.Marker], music: NDArray[np.float32], speeds: str
) -> None:
    for marker in markers:
        detection = marker.detect(music, 44_100, speeds=speeds)  # type: ignore[arg-type]
        assert not detection.found
        assert detection.message is None


@pytest.mark.slow
def test_channels_that_have_nothing_in_common_are_not_found(
    markers: list[ideaw.Marker], speech: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    apart = np.stack([speech, strings, np.zeros_like(speech), -speech], axis=1)
    for marker in markers:
        assert not marker.detect(apart, SAMPLE_RATE, keys=KEYS, speeds="all").found


@pytest.mark.slow
@pytest.mark.parametrize("period", [0.5, 1.0, 1.009])
def test_loops_are_not_found(markers: list[ideaw.Marker], speech: NDArray[np.float32], period: float) -> None:
    """What repeats with the period of the mark, about once a second, is where averaging over seconds could err."""
    beat = speech[SAMPLE_RATE : SAMPLE_RATE + round(period * SAMPLE_RATE)]
    loop = np.tile(beat, 1 + round(8 / period))[: 8 * SAMPLE_RATE]
    for marker in markers:
        assert not marker.detect(loop, SAMPLE_RATE, keys=KEYS).found


@pytest.mark.slow
def test_marks_of_other_keys_are_not_found_at_other_speeds(
    markers: list[ideaw.Marker], speech: NDArray[np.float32]
) -> None:
    for marker in markers:
        marked = marker.embed(speech, SAMPLE_RATE, [1, 0, 1])
        assert not marker.detect(marked, SAMPLE_RATE, keys=KEYS, speeds="all").found
