"""Locating: the place and how sure it is, from a signal that holds a pattern every second."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ideaw.audio.grid import SEGMENT
from ideaw.engine import locate


@pytest.fixture(scope="module")
def pattern() -> NDArray[np.float32]:
    return np.random.default_rng(5).standard_normal(SEGMENT).astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, SEGMENT - 1), st.integers(SEGMENT, 4 * SEGMENT))
def test_the_place_is_found_in_noise(offset: int, length: int) -> None:
    rng = np.random.default_rng(offset)
    pattern = rng.standard_normal(SEGMENT).astype(np.float32)
    signal = rng.standard_normal(length) + 0.2 * np.resize(np.roll(pattern, offset), length)
    found = locate.place(signal.astype(np.float32), pattern)
    assert found.offset == offset
    assert found.p_value < 1e-6


def test_noise_gets_p_values_that_are_fair(pattern: NDArray[np.float32]) -> None:
    rng = np.random.default_rng(1)
    values = [locate.place(rng.standard_normal(SEGMENT).astype(np.float32), pattern).p_value for _ in range(200)]
    assert 0.02 < np.mean(np.array(values) < 0.1) < 0.2
    assert min(values) > 1e-5


def test_p_values_are_those_of_a_gaussian() -> None:
    assert locate.Place(0, 0.0).p_value == 1
    assert locate.Place(0, -8.0).p_value == 1
    assert locate.Place(0, 8.0).p_value == pytest.approx(SEGMENT * 6.22e-16, rel=1e-2)


def test_silence_is_no_evidence(pattern: NDArray[np.float32]) -> None:
    assert locate.place(np.zeros(2 * SEGMENT, np.float32), pattern).p_value == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3 * SEGMENT), st.integers(0, SEGMENT - 1))
def test_seconds_and_their_spans_cover_the_signal_once(length: int, offset: int) -> None:
    signal = np.arange(1, length + 1, dtype=np.float32)
    cut, spans = locate.seconds(signal, offset), locate.spans(length, offset)
    assert np.array_equal(cut[cut > 0], signal)
    assert len(cut) == len(spans)
    assert spans[0, 0] == 0
    assert spans[-1, 1] == length
    assert np.array_equal(spans[1:, 0], spans[:-1, 1])
    assert all(start % SEGMENT == offset for start in spans[1:, 0])
    for row, (start, end) in zip(cut, spans, strict=True):
        assert row.any() == (end > start)


def test_seconds_with_a_mark_stand_out(pattern: NDArray[np.float32]) -> None:
    rng = np.random.default_rng(2)
    signal = rng.standard_normal(8 * SEGMENT)
    signal[1000 + 2 * SEGMENT : 1000 + 5 * SEGMENT] += 0.2 * np.tile(pattern, 3)
    scores = locate.each_score(signal.astype(np.float32), pattern, 1000)
    marked = scores > locate.CLEAR
    assert locate.runs(marked) == [slice(3, 6)]


@pytest.mark.parametrize(
    ("marked", "expected"),
    [([], []), ([0, 0], []), ([1], [(0, 1)]), ([1, 1, 0, 1], [(0, 2), (3, 4)]), ([0, 1, 1], [(1, 3)])],
)
def test_runs(marked: list[int], expected: list[tuple[int, int]]) -> None:
    assert locate.runs(np.array(marked, bool)) == [slice(*run) for run in expected]


def test_a_fold_is_the_mean_second(pattern: NDArray[np.float32]) -> None:
    signal = np.resize(np.roll(pattern, 4000), 3 * SEGMENT + 8000)
    whole_seconds = np.array([0, 1, 1, 1, 0])
    assert np.allclose(locate.fold(signal, 4000, whole_seconds), pattern, atol=1e-6)
    assert np.allclose(locate.fold(signal, 4000, 7 * whole_seconds), pattern, atol=1e-6)
