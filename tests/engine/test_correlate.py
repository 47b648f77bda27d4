"""The matched filter: where marks are and how sure that is. Without a mark of its key it gives standard noise."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.engine import correlate
from ideaw.engine.correlate import (
    MAX_DRIFT_HOPS,
    TRACK_SCORE_OFFSET,
    find_borders,
    find_tracks,
    log_path_trials,
    matched_filter,
    remove_local_mean,
    slot_llrs,
)
from ideaw.engine.embedder import Embedder, EmbedSettings
from ideaw.engine.features import ChunkFeatures
from ideaw.engine.network import Network
from ideaw.engine.search import CHUNK_HOPS
from ideaw.engine.significance import CANDIDATE_P
from ideaw.modem.carriers import Carriers
from ideaw.modem.channel import KeyChannels, key_channels

SLOTS, BINS = 98, 480
KEYS = 300
"""Random keys for the statistics; always the same ones, so that a test passes always or never."""


def _channels(key: bytes) -> KeyChannels:
    return key_channels(key, (10, SLOTS), (10, SLOTS), BINS, True)


@pytest.fixture(scope="module")
def code() -> KeyChannels:
    return _channels(b"some key")


@pytest.fixture(scope="module")
def codes() -> list[KeyChannels]:
    return [_channels(f"key {number}".encode()) for number in range(KEYS)]


def _marked(code: KeyChannels, seconds: int, offset: int) -> NDArray[np.float32]:
    """A stream (hops, freq_tiles) that holds the code in every second from hop `offset` on, and before it."""
    return np.roll(np.tile(code.code.carriers.sum_bins(code.code_stream), (seconds, 1)), offset, 0)


def _noise(hops: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((hops, BINS // 2)).astype(np.float32)


def _known(stream: NDArray[np.float32], code: KeyChannels) -> tuple[NDArray[np.float32], Carriers, NDArray[np.float32]]:
    """A stream with what every second of it carries, as `find_borders` takes it."""
    return stream, code.code.carriers, code.code_symbols[None]


# Where


@pytest.fixture(scope="module")
def marked(network: Network, channels: KeyChannels, speech: NDArray[np.float32]) -> NDArray[np.float32]:
    """Speech with a mark whose seconds begin with it."""
    symbols = channels.message.fec.symbols(np.random.default_rng(0).integers(0, 2, (6, network.card.message_bits)))
    settings = EmbedSettings(SAMPLE_RATE, 1, network.card.snr, 0.0)
    embedder = Embedder(network, channels, symbols, settings)
    return np.concatenate([embedder.push(speech[:, None]), embedder.finish()])[:, 0].astype(np.float32)


@pytest.mark.parametrize("start", [0, 1, 124, 125, 126, 250, 4_444, 9_999, 12_345, 15_875, 15_999, 23_456])
def test_a_mark_is_found_in_a_cut_at_any_sample(
    network: Network, channels: KeyChannels, marked: NDArray[np.float32], start: int
) -> None:
    stream = ChunkFeatures(network, marked[start : start + 2 * SEGMENT_SAMPLES, None]).code
    best = find_tracks(stream, channels)[0]
    expected = (-start % SEGMENT_SAMPLES) / HOP_SAMPLES
    assert abs((best.starts[0] - expected + FRAMES_PER_SECOND / 2) % FRAMES_PER_SECOND - FRAMES_PER_SECOND / 2) <= 1
    assert best.log_p < np.log(1e-12)


@pytest.mark.parametrize(
    "step",
    [FRAMES_PER_SECOND - 2, FRAMES_PER_SECOND - 1, FRAMES_PER_SECOND, FRAMES_PER_SECOND + 1, FRAMES_PER_SECOND + 2],
)
def test_seconds_that_are_too_short_or_too_long_are_followed(code: KeyChannels, step: int) -> None:
    stream, one = _noise(10 * FRAMES_PER_SECOND), _marked(code, 1, 0)
    places = 30 + step * np.arange(7)
    for place in places:
        stream[place : place + FRAMES_PER_SECOND] += 0.2 * one
    (track,) = find_tracks(stream, code)
    assert np.array_equal(track.starts, places)
    assert track.log_p < np.log(1e-9)


def test_two_marks_that_do_not_follow_each_other_are_two_tracks(code: KeyChannels) -> None:
    stream = _noise(12 * FRAMES_PER_SECOND)
    stream[20 : 20 + 3 * FRAMES_PER_SECOND] += 0.2 * _marked(code, 3, 0)
    stream[6 * FRAMES_PER_SECOND + 5 : 10 * FRAMES_PER_SECOND + 5] += 0.2 * _marked(code, 4, 0)
    long, short = find_tracks(stream, code)
    assert np.array_equal(long.starts, 6 * FRAMES_PER_SECOND + 5 + FRAMES_PER_SECOND * np.arange(4))
    assert np.array_equal(short.starts, 20 + FRAMES_PER_SECOND * np.arange(3))
    for track, border in (
        (short, (20, 20 + 3 * FRAMES_PER_SECOND)),
        (long, (6 * FRAMES_PER_SECOND + 5, 10 * FRAMES_PER_SECOND + 5)),
    ):
        assert find_borders([_known(stream, code)], track) == pytest.approx(border, abs=3)


def test_the_border_of_a_mark_is_found_inside_a_second(code: KeyChannels) -> None:
    stream = _noise(9 * FRAMES_PER_SECOND)
    stream[100:333] += 0.3 * _marked(code, 9, 7)[100:333]
    track = find_tracks(stream, code)[0]
    assert find_borders([_known(stream, code)], track) == pytest.approx((100, 333), abs=3)


def test_a_border_near_the_end_of_the_audio_is_the_end(code: KeyChannels) -> None:
    stream = _noise(3 * FRAMES_PER_SECOND) + 0.3 * _marked(code, 3, 0)
    assert find_borders([_known(stream, code)], find_tracks(stream, code)[0]) == (0, 3 * FRAMES_PER_SECOND)


def test_a_mark_that_no_few_seconds_tell_is_told_by_all(code: KeyChannels) -> None:
    noise, mark = _noise(30 * FRAMES_PER_SECOND), _marked(code, 30, 17)
    assert find_tracks(noise, code)[0].log_p >= math.log(CANDIDATE_P)
    track, *others = find_tracks(noise + 0.006 * mark, code)
    assert track.log_p < math.log(CANDIDATE_P)
    assert all(other.log_p >= math.log(CANDIDATE_P) for other in others)
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
        assert correlate._strongest_run(np.array(scores)) == run


def test_what_is_always_the_same_hides_no_mark(code: KeyChannels) -> None:
    stream = 0.1 * _noise(200 * FRAMES_PER_SECOND) + 3 * _noise(1)
    stream[FRAMES_PER_SECOND + 9 : 5 * FRAMES_PER_SECOND + 9] += _marked(code, 4, 0)
    track = find_tracks(remove_local_mean(stream), code)[0]
    assert np.array_equal(track.starts, FRAMES_PER_SECOND * np.arange(1, 5) + 9)
    assert track.log_p < np.log(1e-12)


@pytest.mark.slow
def test_silence_around_a_mark_is_no_part_of_it(codes: list[KeyChannels]) -> None:
    for number, code in enumerate(codes):
        stream = np.zeros((20 * FRAMES_PER_SECOND, BINS // 2), np.float32)
        stream[9 : 9 + 5 * FRAMES_PER_SECOND] = _noise(5 * FRAMES_PER_SECOND, number) + 3 * _noise(1, KEYS + number)
        stream[9 + FRAMES_PER_SECOND : 9 + 5 * FRAMES_PER_SECOND] += 0.2 * _marked(code, 4, 0)
        track = find_tracks(remove_local_mean(stream), code)[0]
        assert np.array_equal(track.starts, FRAMES_PER_SECOND * np.arange(1, 5) + 9)


def test_a_stream_moves_where_it_differs_from_the_second_around(code: KeyChannels) -> None:
    still = np.tile(_noise(1), (3 * FRAMES_PER_SECOND, 1))
    assert np.abs(remove_local_mean(still)).max() < 1e-6
    stream = 0.1 * still + _marked(code, 3, 0)
    moved = remove_local_mean(stream)
    for hop in (0, 10, 100, 3 * FRAMES_PER_SECOND - 1):
        around = stream[max(hop - FRAMES_PER_SECOND // 2, 0) : hop + FRAMES_PER_SECOND // 2]
        assert moved[hop] == pytest.approx(stream[hop] - around.mean(0), abs=1e-5)
    stream[FRAMES_PER_SECOND : 2 * FRAMES_PER_SECOND] = 0  # silent, or not known
    moved = remove_local_mean(stream)
    assert not moved[FRAMES_PER_SECOND : 2 * FRAMES_PER_SECOND].any()
    # Of the second around the last hop before, only a half is heard.
    assert moved[FRAMES_PER_SECOND - 1] == pytest.approx(
        stream[FRAMES_PER_SECOND - 1] - stream[FRAMES_PER_SECOND // 2 - 1 : FRAMES_PER_SECOND].mean(0), abs=1e-5
    )


def test_no_tile_says_more_than_all_others(code: KeyChannels) -> None:
    stream = _noise(3 * FRAMES_PER_SECOND) + 0.3 * _marked(code, 3, 0)
    score = find_tracks(stream, code)[0].score
    stream[100, 50] += 1e6
    assert find_tracks(stream, code)[0].score == pytest.approx(score, rel=0.02)


def test_slots_are_read_where_the_track_says(code: KeyChannels) -> None:
    stream = _marked(code, 3, 11)
    llrs = slot_llrs(stream, code.code.carriers, np.array([11, 11 + FRAMES_PER_SECOND]))
    assert np.array_equal(np.sign(llrs), np.tile(code.code_symbols, (2, 1)))


# How sure


@pytest.fixture(scope="module")
def streams(network: Network, speech: NDArray[np.float32], strings: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Of unmarked speech and music, cut at no round place."""
    return [ChunkFeatures(network, audio[123:-4567, None]).code for audio in (speech, strings)]


def _sparse(seed: int) -> NDArray[np.float32]:
    """Evidence with very heavy tails: most of it in a few numbers."""
    rng = np.random.default_rng(seed)
    return (rng.standard_cauchy((3 * FRAMES_PER_SECOND, BINS // 2)) ** 3).astype(np.float32)


def _p_value(stream: NDArray[np.float32], code: KeyChannels) -> float:
    return float(np.exp(min((track.log_p for track in find_tracks(stream, code)), default=0.0)))


@pytest.mark.slow
def test_p_values_are_no_smaller_than_the_chance_of_them(
    streams: list[NDArray[np.float32]], codes: list[KeyChannels]
) -> None:
    beats = np.tile(np.pad(_noise(8, 2), ((0, FRAMES_PER_SECOND // 2 - 8), (0, 0))), (12, 1))  # a metronome
    for stream in (*streams, _sparse(1), remove_local_mean(beats), np.tile(_noise(1), (2 * FRAMES_PER_SECOND, 1))):
        values = np.array([_p_value(stream, code) for code in codes])
        for bound in (0.5, 0.2, 0.1, 0.05, 0.01):
            assert (values <= bound).mean() <= bound
        assert values.min() > 1e-4


def test_unmarked_audio_scores_as_a_standard_normal(
    streams: list[NDArray[np.float32]], codes: list[KeyChannels]
) -> None:
    for stream in streams:
        filtered = [matched_filter(stream, code.code.carriers, code.code_template_bands) for code in codes]
        scores = np.array([sums / np.sqrt(variances) for sums, variances in filtered])
        full = scores[:, FRAMES_PER_SECOND : len(stream) : 16]  # seconds that lie wholly in the audio
        assert np.abs(full.mean(0)).max() < 4.5 / np.sqrt(KEYS)
        assert np.abs(full.var(0) - 1).max() < 4.5 * np.sqrt(2 / KEYS)


STEPS = range(FRAMES_PER_SECOND - MAX_DRIFT_HOPS, FRAMES_PER_SECOND + MAX_DRIFT_HOPS + 1)
"""Hops from one second of a track to the next."""


def _weight(path: NDArray[np.int64], starts: int) -> float:
    return math.exp(-log_path_trials(path, starts))


def _enumerated_weight(starts: int) -> float:
    """The weights of all paths, one by one."""
    total = 0.0
    for length in range(1, 2 + (starts - 1) // STEPS[0]):
        for steps in itertools.product(STEPS, repeat=length - 1):
            path = np.cumsum([0, *steps])
            total += sum(_weight(path + place, starts) for place in range(starts - int(path[-1])))
    return total


def _counted_weight(starts: int) -> float:
    """The same, by how many paths of each length have steps that are all the same, and steps that are not."""
    total = starts * _weight(np.array([0]), starts)
    spans = np.ones(1)  # the share of sequences of steps of each span, from the shortest one on
    for length in range(2, 2 + (starts - 1) // STEPS[0]):
        spans = np.convolve(spans, np.full(len(STEPS), 1 / len(STEPS)))
        places = np.maximum(starts - (length - 1) * STEPS[0] - np.arange(len(spans)), 0)
        even = sum(max(starts - (length - 1) * step, 0) for step in STEPS)
        uneven = float(spans @ places) - even * float(len(STEPS)) ** (1 - length)  # in units of all sequences
        total += even * _weight(STEPS[0] * np.arange(length), starts)
        if length > 2:
            path = np.cumsum([0, STEPS[1], *[STEPS[0]] * (length - 2)])
            total += uneven * math.exp((length - 1) * math.log(len(STEPS)) - log_path_trials(path, starts))
    return total


@pytest.mark.parametrize("starts", [1, 61, STEPS[0] + 1, 2 * FRAMES_PER_SECOND, 200])
def test_weights_of_paths_are_counted_as_they_are(starts: int) -> None:
    assert _counted_weight(starts) == pytest.approx(_enumerated_weight(starts), rel=1e-9)


@pytest.mark.parametrize(
    "starts", [1, 5, STEPS[0], 100, 200, *(FRAMES_PER_SECOND * np.array([4, 7, 10, 20, 40, 80])), CHUNK_HOPS, 40_000]
)
def test_all_paths_together_weigh_one_at_most(starts: int) -> None:
    """The union bound over paths holds whatever hop, drift and chunk are, or this turns red."""
    assert _counted_weight(int(starts)) <= 1 + 1e-9


def test_phases_of_all_seconds_together_weigh_one(code: KeyChannels) -> None:
    """One half of the trials is for tracks, the other for all seconds pooled, from any hop of the first on."""
    pooled = find_tracks(_noise(30 * FRAMES_PER_SECOND) + 0.006 * _marked(code, 30, 17), code)[0]
    assert pooled.log_p == pytest.approx(math.log(2) + math.log(FRAMES_PER_SECOND) - pooled.score**2 / 2)


def test_silence_is_no_evidence(code: KeyChannels) -> None:
    with np.errstate(all="raise"):
        (track,) = find_tracks(np.zeros((2 * FRAMES_PER_SECOND, BINS // 2), np.float32), code)
    assert (track.score, track.log_p) == (0, 0)


def test_a_path_between_marks_that_overlap_is_found_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, best_path = 0, correlate._best_path

    def counted(gains: NDArray[np.float64]) -> NDArray[np.int64] | None:
        nonlocal rounds
        rounds += 1
        assert rounds < 20
        return best_path(gains)

    monkeypatch.setattr(correlate, "_best_path", counted)
    for seed in range(590, 610):  # 598 once went to and fro between two paths for ever
        rng = np.random.default_rng(seed)
        scores = rng.standard_normal(int(rng.integers(260, 520)))
        for _ in range(int(rng.integers(3, 8))):
            scores[rng.integers(len(scores))] = rng.uniform(4, 8)
        gains = scores - TRACK_SCORE_OFFSET
        path = best_path(gains)
        if path is not None:
            rounds = 0
            single = correlate._strongest_of_merged(path, gains, scores)
            assert np.all(np.abs(np.diff(single) - FRAMES_PER_SECOND) <= MAX_DRIFT_HOPS)
