"""The decision: one loop over hypotheses, one counter of trials, p-values that are bounds, three kinds of answers."""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import FRAMES_PER_SECOND, SAMPLE_RATE
from ideaw.detector import Detector, TrialCounter, fisher_product_p
from ideaw.engine import search as search_module
from ideaw.engine.correlate import MAX_DRIFT_HOPS, log_path_trials
from ideaw.engine.search import Search
from ideaw.engine.significance import FILE_P
from ideaw.hypotheses import (
    SPEED_GRID,
    TEMPO_GRID,
    Hypothesis,
    LoudestExcerpt,
    Screening,
    count_hypotheses,
    differ_from_mix,
)
from ideaw.keys import PUBLIC, Key

OTHER = Key(b"another key. . .")


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


@pytest.fixture(scope="module")
def marked(marker: ideaw.Marker, speech: NDArray[np.float32]) -> NDArray[np.float32]:
    return marker.embed(speech, SAMPLE_RATE, "hey")


def _search(marker: ideaw.Marker, audio: NDArray[np.float32], *keys: Key, chunk_hops: int | None = None) -> Search:
    channels = [marker.network.channels(key) for key in keys or (PUBLIC,)]
    search = Search(marker.network, channels)
    if chunk_hops is not None:
        search.chunk_hops = chunk_hops
    for start in range(0, len(audio), 7_777):
        search.push(audio[start : start + 7_777, None].astype(np.float32))
    search.finish()
    return search


# Statistics


def test_fisher_says_what_a_product_of_two_p_values_is_worth() -> None:
    rng = np.random.default_rng(1)
    products = rng.random(200_000) * rng.random(200_000)
    for p in (0.5, 0.1, 0.01, 0.001):
        share = (products <= p).mean()
        assert share == pytest.approx(fisher_product_p(p, 1.0), abs=4 * math.sqrt(share / 200_000))
    assert fisher_product_p(0.0, 0.5) == 0
    assert fisher_product_p(1.0, 1.0) == 1


def _weight_of_all_paths(starts: int) -> float:
    """Σ exp(−log_path_trials) over every path: one step all along, or any others, at every place where it fits."""
    steps = range(FRAMES_PER_SECOND - MAX_DRIFT_HOPS, FRAMES_PER_SECOND + MAX_DRIFT_HOPS + 1)
    total = starts * math.exp(-log_path_trials(np.array([0]), starts))
    spans = {0: 1}
    for seconds in itertools.count(2):
        spans_after: dict[int, int] = {}
        for span, count in spans.items():
            for step in steps:
                spans_after[span + step] = spans_after.get(span + step, 0) + count
        spans = {span: count for span, count in spans_after.items() if span < starts}
        if not spans:
            return total
        even = np.arange(seconds) * steps[0]
        uneven = np.cumsum([0, *([steps[0]] * (seconds - 2)), steps[1]])
        even_weight = math.exp(-log_path_trials(even, starts))
        uneven_weight = math.exp(-log_path_trials(uneven, starts)) if seconds > 2 else 0.0
        for span, count in spans.items():
            evens = sum(span == (seconds - 1) * step for step in steps)
            total += (starts - span) * (evens * even_weight + (count - evens) * uneven_weight)
    raise AssertionError


@pytest.mark.parametrize("starts", [1, 63, 64, 65, 127, 200, 703, 2_000, 8_063])
def test_the_weights_of_all_paths_sum_to_at_most_one(starts: int) -> None:
    assert 0 < _weight_of_all_paths(starts) <= 1


def test_everything_that_may_be_tried_is_counted() -> None:
    assert count_hypotheses(1, "none") == 1
    near = len(SPEED_GRID["near"]) + len(TEMPO_GRID["near"])
    assert count_hypotheses(1, "near") == 1 + near
    assert count_hypotheses(2, "near") == 1 + 3 + near
    trials = TrialCounter(count_hypotheses(2, "near"), [PUBLIC, OTHER], chunks=5)
    assert trials.searches == (4 + near) * 2 * 5
    assert trials.track_p(math.log(1e-9)) == pytest.approx(trials.searches * 1e-9)


def test_no_accident_is_less_likely_than_guessing_the_key(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    assert marker.detect(marked, SAMPLE_RATE).p_value == 2.0 ** -(8 * len(PUBLIC))
    assert TrialCounter(1, [OTHER]).reported_p(0.0, 0) == 2.0**-128
    assert TrialCounter(1, [OTHER]).reported_p(3.0, 0) == 1


@pytest.mark.parametrize("kind", ["plain", "spliced", "unreadable"])
def test_every_decoding_is_counted(
    marker: ideaw.Marker,
    speech: NDArray[np.float32],
    marked: NDArray[np.float32],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    other = marker.embed(speech, SAMPLE_RATE, "zz")
    audio = {
        "plain": marked,
        "spliced": np.concatenate([marked[: 3 * SAMPLE_RATE], other[3 * SAMPLE_RATE :]]),
        "unreadable": (marked + other) / 2,
    }[kind]
    sums: list[tuple[int, ...]] = []

    def counting(work: Callable[..., object]) -> Callable[..., object]:
        def count(llrs: NDArray[np.float32], *rest: object) -> object:
            if len(rest) < 2:  # with a third argument what was decoded before is gone on with
                sums.append(llrs.shape)
            return work(llrs, *rest)

        return count

    for name in ("decode_repeated", "decode_seconds"):
        monkeypatch.setattr(search_module, name, counting(getattr(search_module, name)))
    stretches = _search(marker, audio).stretches
    assert stretches
    assert sum(decodings for _, decodings in {(s.log_p, s.decodings) for s in stretches}) == len(sums)


# Answers


def test_there_are_three_answers(
    marker: ideaw.Marker, speech: NDArray[np.float32], marked: NDArray[np.float32]
) -> None:
    found = marker.detect(marked, SAMPLE_RATE)
    assert (found.status, found.found, found.message, found.key) == ("found", True, "hey", PUBLIC.fingerprint)
    none = marker.detect(speech, SAMPLE_RATE)
    assert (none.status, none.found, none.message, none.segments, none.key) == ("none", False, None, [], None)
    # Of a message of 60 letters four seconds are too few: the code is certain, the message cannot be read.
    long = marker.embed(np.tile(speech, 5), SAMPLE_RATE, "x" * 60)[: 4 * SAMPLE_RATE]
    unreadable = marker.detect(long, SAMPLE_RATE)
    assert (unreadable.status, unreadable.found, unreadable.message) == ("unreadable", False, None)
    assert unreadable.p_value < FILE_P
    assert unreadable.segments
    assert str(unreadable).startswith("unreadable: a mark is there, but its message cannot be read")


def test_joined_recordings_tell_both_messages(
    marker: ideaw.Marker, strings: NDArray[np.float32], marked: NDArray[np.float32]
) -> None:
    other = marker.embed(strings, SAMPLE_RATE, "zz")
    joined = marker.detect(np.concatenate([marked[: 4 * SAMPLE_RATE], other[: 4 * SAMPLE_RATE]]), SAMPLE_RATE)
    assert set(joined.messages) == {"hey", "zz"}
    assert joined.messages[0] == joined.message


def test_a_mark_goes_on_from_chunk_to_chunk(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    whole, parts = (_search(marker, marked, chunk_hops=hops) for hops in (None, 130))
    assert (whole.chunks, parts.chunks) == (1, 3)
    (one,), (joined,) = whole.stretches, parts.stretches
    assert joined.joined
    assert np.array_equal(one.starts, joined.starts)
    assert one.decoded.message == joined.decoded.message
    assert abs(one.first - joined.first) <= 4
    assert abs(one.last - joined.last) <= 4


def test_a_long_message_in_pieces_is_pooled(marker: ideaw.Marker, strings: NDArray[np.float32]) -> None:
    audio = np.tile(strings, 4)
    text = "a text of twenty ..."
    marked = marker.embed(audio, SAMPLE_RATE, text)
    gap = np.zeros(SAMPLE_RATE + 4_321, np.float32)
    pieces = [marked[: 8 * SAMPLE_RATE], gap, marked[9 * SAMPLE_RATE + 777 : 20 * SAMPLE_RATE]]
    assert marker.detect(np.concatenate(pieces), SAMPLE_RATE).message == text


def test_digital_silence_is_not_analysed(marker: ideaw.Marker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker.network, "locate", None)
    answer = marker.detect(np.zeros(200 * 8_000), 8_000)
    assert (answer.status, answer.p_value) == ("none", 1.0)


# Hypotheses


def test_the_loudest_seconds_are_the_excerpt(speech: NDArray[np.float32]) -> None:
    audio = np.concatenate([0.01 * speech, speech, 0.01 * speech])[:, None]
    excerpt = LoudestExcerpt(SAMPLE_RATE, 2)
    blocks = np.array_split(audio, 17)
    assert [len(block) for block in excerpt.tap(blocks)] == [len(block) for block in blocks]
    quarters = np.square(audio[: len(audio) // 4_000 * 4_000]).reshape(-1, 4_000).sum(1)
    first = int(np.convolve(quarters, np.ones(8), "valid").argmax()) * 4_000
    assert np.array_equal(excerpt.samples, audio[first : first + 2 * SAMPLE_RATE])


def test_channels_differ_from_their_mix_or_not(speech: NDArray[np.float32], strings: NDArray[np.float32]) -> None:
    assert not differ_from_mix(speech[:, None])
    assert not differ_from_mix(np.stack([speech, 0.5 * speech], 1))
    assert differ_from_mix(np.stack([speech, strings], 1))
    assert differ_from_mix(np.stack([speech, -speech], 1))


def _screened(marker: ideaw.Marker, audio: NDArray[np.floating], speeds: str = "near") -> list[Hypothesis]:
    keys = [marker.network.channels(PUBLIC)]
    return list(Screening(marker.network, keys, audio, SAMPLE_RATE, speeds).hypotheses())  # type: ignore[arg-type]


def test_the_excerpt_tells_which_channel_and_speed_hold_a_mark(
    marker: ideaw.Marker, marked: NDArray[np.float32], speech: NDArray[np.float32]
) -> None:
    noise = 0.3 * np.random.default_rng(0).standard_normal(len(marked))
    channels = _screened(marker, np.stack([noise, marked], 1), "none")
    assert channels[0].channels is not None
    assert 1 in channels[0].channels
    (speed,) = _screened(marker, soxr.resample(marked, SAMPLE_RATE, SAMPLE_RATE / 1.04)[:, None])
    assert speed.speed == pytest.approx(1.04, rel=0.006)
    assert _screened(marker, speech[:, None]) == []
    assert _screened(marker, np.zeros((32_000, 2))) == []


def test_the_loop_ends_where_a_mark_is_found(
    marker: ideaw.Marker, marked: NDArray[np.float32], speech: NDArray[np.float32]
) -> None:
    opened = 0

    def blocks() -> Iterator[NDArray[np.float64]]:
        nonlocal opened
        opened += 1
        yield stereo.astype(np.float64)

    for stereo, times in ((np.stack([marked, marked], 1), 1), (np.stack([marked, -marked], 1), 2)):  # noqa: B007
        opened = 0
        answer = Detector(marker.network, [PUBLIC]).detect(blocks, SAMPLE_RATE, 2, len(marked), None)
        assert (answer.message, opened) == ("hey", times)
