"""Locating: the place and how sure it is. Without a mark of its key the evidence is noise of a known spread, always."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES, HOP, SEGMENT
from ideaw.engine import locate, whole
from ideaw.engine.network import Network
from ideaw.payload.carriers import Carriers, drawn
from ideaw.payload.code import locating_code

SLOTS, BINS = 32, 480
KEYS = 600
"""Random keys for the statistics; always the same ones, so that a test passes always or never."""

Code = tuple[Carriers, NDArray[np.float32]]
"""What is looked for: the carriers of a key, and the values of its slots."""


def _code(key: bytes) -> Code:
    rng = np.random.default_rng(list(key))
    return drawn(SLOTS, BINS, key, b"code"), rng.choice([-1, 1], SLOTS).astype(np.float32)


@pytest.fixture(scope="module")
def code() -> Code:
    return _code(b"some key")


@pytest.fixture(scope="module")
def codes() -> list[Code]:
    return [_code(f"key {number}".encode()) for number in range(KEYS)]


def _marked(code: Code, seconds: int, offset: int) -> NDArray[np.float32]:
    """A stream (hops, ranges) that holds the code in every second from hop `offset` on, and before it."""
    carriers, slots = code
    return np.roll(np.tile(carriers.narrow(carriers.stream(slots)), (seconds, 1)), offset, 0)


def _noise(hops: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((hops, BINS // 2)).astype(np.float32)


# The place


@settings(max_examples=25, deadline=None)
@given(st.integers(0, FRAMES - 1), st.integers(FRAMES, 4 * FRAMES))
def test_the_place_is_found_in_noise(offset: int, hops: int) -> None:
    code = _code(bytes([offset]))
    found = locate.place(_noise(hops, seed=hops) + 0.1 * _marked(code, 4, offset)[:hops], *code)
    assert found.offset == offset
    assert found.p_value < 1e-6


@pytest.fixture(scope="module")
def marked(network: Network, speech: NDArray[np.float32]) -> NDArray[np.float32]:
    """Speech with a mark whose seconds begin with it."""
    messages = np.random.default_rng(0).integers(0, 2, (6, network.card.message_bits))
    bits = locating_code(network.card.code_bits)
    return speech + whole.residual(network, speech[None], messages, bits, network.card.snr)[0]


@pytest.mark.parametrize("start", [0, 1, 124, 125, 126, 250, 4_444, 9_999, 12_345, 15_875, 15_999, 23_456])
def test_the_place_is_found_in_a_cut_at_any_sample(network: Network, marked: NDArray[np.float32], start: int) -> None:
    slots = network.code.values(locating_code(network.card.code_bits))
    stream = whole.code_stream(network, marked[start : start + 2 * SEGMENT])
    found = locate.place(stream, network.code.carriers, slots)
    expected = (-start % SEGMENT) / HOP
    assert abs((found.offset - expected + FRAMES / 2) % FRAMES - FRAMES / 2) <= 1
    assert found.p_value < 1e-12


def test_what_is_always_the_same_hides_no_mark(code: Code) -> None:
    always = 3 * _noise(1)
    stream = 0.1 * _noise(200 * FRAMES) + always
    stream[FRAMES + 9 : 5 * FRAMES + 9] += _marked(code, 4, 0)
    found = locate.place(stream, *code)
    assert found.offset == 9
    assert found.p_value < 1e-12
    assert locate.place(np.tile(always, (5 * FRAMES, 1)), *code).p_value > 1e-3


# How sure it is


@pytest.fixture(scope="module")
def streams(network: Network, speech: NDArray[np.float32], strings: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Of unmarked speech and music, cut at no round place."""
    return [whole.code_stream(network, audio[123:-4567]) for audio in (speech, strings)]


def test_unmarked_audio_scores_as_a_standard_normal(streams: list[NDArray[np.float32]], codes: list[Code]) -> None:
    for stream in streams:
        scores = np.array([locate.each_score(stream, *code, offset=17) for code in codes])
        assert np.abs(scores.mean(0)).max() < 4 / np.sqrt(KEYS)
        assert np.abs(scores.var(0) - 1).max() < 4 * np.sqrt(2 / KEYS)
        assert 0.03 < (np.abs(scores) > 1.96).mean() < 0.07
        places = np.array([locate.place(stream, *code).offset for code in codes])
        assert np.bincount(places, minlength=FRAMES).max() < 5 * KEYS / FRAMES  # no place is preferred


def _sparse(seed: int) -> NDArray[np.float32]:
    """Evidence with very heavy tails: most of it in a few numbers."""
    rng = np.random.default_rng(seed)
    return (rng.standard_cauchy((3 * FRAMES, BINS // 2)) ** 3).astype(np.float32)


def test_p_values_are_no_smaller_than_the_chance_of_them(streams: list[NDArray[np.float32]], codes: list[Code]) -> None:
    for stream in (*streams, _sparse(1), np.tile(_noise(1), (2 * FRAMES, 1))):
        values = np.array([locate.place(stream, *code).p_value for code in codes])
        for bound in (0.5, 0.2, 0.1, 0.05, 0.01):
            assert (values <= bound).mean() <= bound
        assert values.min() > 1e-4


def test_p_values_are_not_idle(streams: list[NDArray[np.float32]], codes: list[Code]) -> None:
    values = np.array([locate.place(streams[0], *code).p_value for code in codes])
    # A Gaussian's peak among 64 is so high about once in 15 times.
    assert (values <= 0.5).mean() > 0.02


def test_p_values_follow_hoeffding() -> None:
    assert locate.Place(0, 0.0).p_value == 1
    assert locate.Place(0, -8.0).p_value == 1
    assert locate.Place(0, 8.0).p_value == pytest.approx(FRAMES * np.exp(-32))
    assert locate.Place(0, 100.0).p_value < 1e-300


def test_the_score_of_a_clean_code_is_the_root_of_its_tiles(code: Code) -> None:
    scores = locate.each_score(_marked(code, 3, 5), *code, offset=5)
    tiles = (FRAMES // 2) * (BINS // 2)
    assert scores[1:-1] == pytest.approx(np.sqrt(tiles), rel=1e-5)


def test_silence_is_no_evidence(code: Code) -> None:
    silence = np.zeros((2 * FRAMES, BINS // 2), np.float32)
    with np.errstate(all="raise"):
        assert locate.place(silence, *code) == locate.Place(0, 0.0)
        assert not locate.each_score(silence, *code, offset=3).any()
    assert locate.place(silence, *code).p_value == 1


# Seconds


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3 * SEGMENT), st.integers(0, FRAMES - 1))
def test_seconds_and_their_spans_cover_the_signal_once(length: int, offset: int) -> None:
    hops = -(-length // HOP)
    stream = np.arange(1, 2 * hops + 1, dtype=np.float32).reshape(hops, 2)
    cut, spans = locate.seconds(stream, offset), locate.spans(length, offset)
    assert cut.shape == (len(spans), FRAMES, 2)
    assert np.array_equal(cut[cut > 0], stream.ravel())
    assert spans[0, 0] == 0
    assert spans[-1, 1] == length
    assert np.array_equal(spans[1:, 0], spans[:-1, 1])
    assert all(start % SEGMENT == offset * HOP for start in spans[1:, 0])
    for second, (start, end) in zip(cut, spans, strict=True):
        assert end > start
        assert second.any(-1).sum() == -(-end // HOP) - start // HOP


def test_seconds_with_a_mark_stand_out(code: Code) -> None:
    stream = _noise(8 * FRAMES)
    stream[2 * FRAMES + 4 : 5 * FRAMES + 4] += 0.2 * _marked(code, 3, 0)
    scores = locate.each_score(stream, *code, offset=4)
    assert len(scores) == 9
    assert locate.runs(scores > locate.CLEAR) == [slice(3, 6)]


@pytest.mark.parametrize(
    ("marked", "expected"),
    [([], []), ([0, 0], []), ([1], [(0, 1)]), ([1, 1, 0, 1], [(0, 2), (3, 4)]), ([0, 1, 1], [(1, 3)])],
)
def test_runs(marked: list[int], expected: list[tuple[int, int]]) -> None:
    assert locate.runs(np.array(marked, bool)) == [slice(*run) for run in expected]
