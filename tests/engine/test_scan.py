"""Scanning: where marks are and how sure that is. Without a mark of its key the evidence is noise of a known spread."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.engine import scan
from ideaw.engine.embedding import Embedding
from ideaw.engine.network import Network
from ideaw.engine.search import Heard
from ideaw.modem.carriers import CODE_TILE_FRAMES, Carriers, keyed_carriers
from ideaw.modem.locating_code import locating_code

SLOTS, BINS = 98, 480
KEYS = 300
"""Random keys for the statistics; always the same ones, so that a test passes always or never."""

Code = tuple[Carriers, NDArray[np.float32]]
"""What is looked for: the carriers of a key, and the values of its slots."""


def _code(key: bytes) -> Code:
    rng = np.random.default_rng(list(key))
    return keyed_carriers(SLOTS, BINS, key, b"code", CODE_TILE_FRAMES), rng.choice([-1, 1], SLOTS).astype(np.float32)


@pytest.fixture(scope="module")
def code() -> Code:
    return _code(b"some key")


@pytest.fixture(scope="module")
def codes() -> list[Code]:
    return [_code(f"key {number}".encode()) for number in range(KEYS)]


def _marked(code: Code, seconds: int, offset: int) -> NDArray[np.float32]:
    """A stream (hops, ranges) that holds the code in every second from hop `offset` on, and before it."""
    carriers, slots = code
    return np.roll(np.tile(carriers.sum_bins(carriers.stream(slots)), (seconds, 1)), offset, 0)


def _noise(hops: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((hops, BINS // 2)).astype(np.float32)


def _known(stream: NDArray[np.float32], code: Code) -> tuple[NDArray[np.float32], Carriers, NDArray[np.float32]]:
    """A stream with what every second of it carries, as `span` takes it."""
    carriers, slots = code
    return stream, carriers, slots[None]


# Where


@pytest.fixture(scope="module")
def marked(network: Network, speech: NDArray[np.float32]) -> NDArray[np.float32]:
    """Speech with a mark whose seconds begin with it."""
    messages = np.random.default_rng(0).integers(0, 2, (6, network.card.message_bits))
    bits = locating_code(network.card.code_bits)
    embedding = Embedding(network, messages, bits, SAMPLE_RATE, 1, network.card.snr, 0.0)
    return np.concatenate([embedding.push(speech[:, None]), embedding.finish()])[:, 0].astype(np.float32)


@pytest.mark.parametrize("start", [0, 1, 124, 125, 126, 250, 4_444, 9_999, 12_345, 15_875, 15_999, 23_456])
def test_a_mark_is_found_in_a_cut_at_any_sample(network: Network, marked: NDArray[np.float32], start: int) -> None:
    slots = network.code.values(locating_code(network.card.code_bits))
    stream = Heard(network, marked[start : start + 2 * SEGMENT_SAMPLES, None]).code
    best = scan.tracks(stream, network.code.carriers, slots)[0]
    expected = (-start % SEGMENT_SAMPLES) / HOP_SAMPLES
    assert abs((best.starts[0] - expected + FRAMES_PER_SECOND / 2) % FRAMES_PER_SECOND - FRAMES_PER_SECOND / 2) <= 1
    assert best.log_p < np.log(1e-12)


@pytest.mark.parametrize(
    "step",
    [FRAMES_PER_SECOND - 2, FRAMES_PER_SECOND - 1, FRAMES_PER_SECOND, FRAMES_PER_SECOND + 1, FRAMES_PER_SECOND + 2],
)
def test_seconds_that_are_too_short_or_too_long_are_followed(code: Code, step: int) -> None:
    stream, one = _noise(10 * FRAMES_PER_SECOND), _marked(code, 1, 0)
    places = 30 + step * np.arange(7)
    for place in places:
        stream[place : place + FRAMES_PER_SECOND] += 0.2 * one
    (track,) = scan.tracks(stream, *code)
    assert np.array_equal(track.starts, places)
    assert track.log_p < np.log(1e-9)


def test_two_marks_that_do_not_follow_each_other_are_two_tracks(code: Code) -> None:
    stream = _noise(12 * FRAMES_PER_SECOND)
    stream[20 : 20 + 3 * FRAMES_PER_SECOND] += 0.2 * _marked(code, 3, 0)
    stream[6 * FRAMES_PER_SECOND + 5 : 10 * FRAMES_PER_SECOND + 5] += 0.2 * _marked(code, 4, 0)
    long, short = scan.tracks(stream, *code)
    assert np.array_equal(long.starts, 6 * FRAMES_PER_SECOND + 5 + FRAMES_PER_SECOND * np.arange(4))
    assert np.array_equal(short.starts, 20 + FRAMES_PER_SECOND * np.arange(3))
    for track, border in (
        (short, (20, 20 + 3 * FRAMES_PER_SECOND)),
        (long, (6 * FRAMES_PER_SECOND + 5, 10 * FRAMES_PER_SECOND + 5)),
    ):
        assert scan.span([_known(stream, code)], track) == pytest.approx(border, abs=3)


def test_the_border_of_a_mark_is_found_inside_a_second(code: Code) -> None:
    stream = _noise(9 * FRAMES_PER_SECOND)
    stream[100:333] += 0.3 * _marked(code, 9, 7)[100:333]
    track = scan.tracks(stream, *code)[0]
    assert scan.span([_known(stream, code)], track) == pytest.approx((100, 333), abs=3)


def test_a_border_near_the_end_of_the_audio_is_the_end(code: Code) -> None:
    stream = _noise(3 * FRAMES_PER_SECOND) + 0.3 * _marked(code, 3, 0)
    assert scan.span([_known(stream, code)], scan.tracks(stream, *code)[0]) == (0, 3 * FRAMES_PER_SECOND)


def test_a_mark_that_no_few_seconds_tell_is_told_by_all(code: Code) -> None:
    noise, mark = _noise(30 * FRAMES_PER_SECOND), _marked(code, 30, 17)
    assert not scan.tracks(noise, *code)[0].worth_reading
    (track,) = scan.tracks(noise + 0.006 * mark, *code)
    assert track.worth_reading
    assert (track.starts % FRAMES_PER_SECOND == 17).all()
    assert len(track.starts) > 20
    assert track.scores.max() < 4
    assert track.log_p == pytest.approx(np.log(2 * FRAMES_PER_SECOND) - track.score**2 / 2)


def test_of_all_seconds_those_are_told_that_say_something() -> None:
    for scores, run in (
        ([0.5, -1.0, 6.0, 1.0, -0.3], slice(2, 3)),
        ([-1.0, 2.0, 1.5, 2.2, -0.2, 1.9, -2.0], slice(1, 6)),
        ([-3.0, -0.5], slice(1, 2)),
    ):
        assert scan._strongest_run(np.array(scores)) == run


def test_what_is_always_the_same_hides_no_mark(code: Code) -> None:
    stream = 0.1 * _noise(200 * FRAMES_PER_SECOND) + 3 * _noise(1)
    stream[FRAMES_PER_SECOND + 9 : 5 * FRAMES_PER_SECOND + 9] += _marked(code, 4, 0)
    track = scan.tracks(scan.moving(stream), *code)[0]
    assert np.array_equal(track.starts, FRAMES_PER_SECOND * np.arange(1, 5) + 9)
    assert track.log_p < np.log(1e-12)


def test_silence_around_a_mark_is_no_part_of_it(codes: list[Code]) -> None:
    for number, code in enumerate(codes):
        stream = np.zeros((20 * FRAMES_PER_SECOND, BINS // 2), np.float32)
        stream[9 : 9 + 5 * FRAMES_PER_SECOND] = _noise(5 * FRAMES_PER_SECOND, number) + 3 * _noise(1, KEYS + number)
        stream[9 + FRAMES_PER_SECOND : 9 + 5 * FRAMES_PER_SECOND] += 0.2 * _marked(code, 4, 0)
        track = scan.tracks(scan.moving(stream), *code)[0]
        assert np.array_equal(track.starts, FRAMES_PER_SECOND * np.arange(1, 5) + 9)


def test_a_stream_moves_where_it_differs_from_the_second_around(code: Code) -> None:
    still = np.tile(_noise(1), (3 * FRAMES_PER_SECOND, 1))
    assert np.abs(scan.moving(still)).max() < 1e-6
    stream = 0.1 * still + _marked(code, 3, 0)
    moved = scan.moving(stream)
    for hop in (0, 10, 100, 3 * FRAMES_PER_SECOND - 1):
        around = stream[max(hop - FRAMES_PER_SECOND // 2, 0) : hop + FRAMES_PER_SECOND // 2]
        assert moved[hop] == pytest.approx(stream[hop] - around.mean(0), abs=1e-5)
    stream[FRAMES_PER_SECOND : 2 * FRAMES_PER_SECOND] = 0  # silent, or not known
    moved = scan.moving(stream)
    assert not moved[FRAMES_PER_SECOND : 2 * FRAMES_PER_SECOND].any()
    # Of the second around the last hop before, only a half is heard.
    assert moved[FRAMES_PER_SECOND - 1] == pytest.approx(
        stream[FRAMES_PER_SECOND - 1] - stream[FRAMES_PER_SECOND // 2 - 1 : FRAMES_PER_SECOND].mean(0), abs=1e-5
    )


def test_no_tile_says_more_than_all_others(code: Code) -> None:
    stream = _noise(3 * FRAMES_PER_SECOND) + 0.3 * _marked(code, 3, 0)
    score = scan.tracks(stream, *code)[0].score
    stream[100, 50] += 1e6
    assert scan.tracks(stream, *code)[0].score == pytest.approx(score, rel=0.02)


def test_slots_are_read_where_the_track_says(code: Code) -> None:
    carriers, slots = code
    stream = _marked(code, 3, 11)
    logits = scan.slot_logits(stream, carriers, np.array([11, 11 + FRAMES_PER_SECOND]))
    assert np.array_equal(np.sign(logits), np.tile(slots, (2, 1)))


# How sure


@pytest.fixture(scope="module")
def streams(network: Network, speech: NDArray[np.float32], strings: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Of unmarked speech and music, cut at no round place."""
    return [Heard(network, audio[123:-4567, None]).code for audio in (speech, strings)]


def _sparse(seed: int) -> NDArray[np.float32]:
    """Evidence with very heavy tails: most of it in a few numbers."""
    rng = np.random.default_rng(seed)
    return (rng.standard_cauchy((3 * FRAMES_PER_SECOND, BINS // 2)) ** 3).astype(np.float32)


def _p_value(stream: NDArray[np.float32], code: Code) -> float:
    return float(np.exp(min((track.log_p for track in scan.tracks(stream, *code)), default=0.0)))


def test_p_values_are_no_smaller_than_the_chance_of_them(streams: list[NDArray[np.float32]], codes: list[Code]) -> None:
    for stream in (*streams, _sparse(1), np.tile(_noise(1), (2 * FRAMES_PER_SECOND, 1))):
        values = np.array([_p_value(stream, code) for code in codes])
        for bound in (0.5, 0.2, 0.1, 0.05, 0.01):
            assert (values <= bound).mean() <= bound
        assert values.min() > 1e-4


def test_unmarked_audio_scores_as_a_standard_normal(streams: list[NDArray[np.float32]], codes: list[Code]) -> None:
    for stream in streams:
        every = np.array([scan._normal(*scan._every_sum(stream, each, each.template(slots))) for each, slots in codes])
        full = every[:, FRAMES_PER_SECOND : len(stream) : 16]  # seconds that lie wholly in the audio
        assert np.abs(full.mean(0)).max() < 4.5 / np.sqrt(KEYS)
        assert np.abs(full.var(0) - 1).max() < 4.5 * np.sqrt(2 / KEYS)


def test_silence_is_no_evidence(code: Code) -> None:
    with np.errstate(all="raise"):
        (track,) = scan.tracks(np.zeros((2 * FRAMES_PER_SECOND, BINS // 2), np.float32), *code)
    assert (track.score, track.log_p, track.worth_reading) == (0, 0, False)


def test_a_path_between_marks_that_overlap_is_found_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, best_path = 0, scan._best_path

    def counted(gains: NDArray[np.float64]) -> NDArray[np.int64] | None:
        nonlocal rounds
        rounds += 1
        assert rounds < 20
        return best_path(gains)

    monkeypatch.setattr(scan, "_best_path", counted)
    for seed in range(590, 610):  # 598 once went to and fro between two paths for ever
        rng = np.random.default_rng(seed)
        scores = rng.standard_normal(int(rng.integers(260, 520)))
        for _ in range(int(rng.integers(3, 8))):
            scores[rng.integers(len(scores))] = rng.uniform(4, 8)
        gains = scores - scan.EMPTY
        path = best_path(gains)
        if path is not None:
            rounds = 0
            found = scan._without_slides(path, gains, scores)
            assert np.all(np.abs(np.diff(found) - FRAMES_PER_SECOND) <= scan.DRIFT)
