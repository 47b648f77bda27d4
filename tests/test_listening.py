"""Listening to less: the same answers where all is heard, fewer seconds where a mark is sure, every look counted."""

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.audio.blocks import split_blocks
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.detector import Detector, TrialCounter
from ideaw.keys import PUBLIC, Key
from ideaw.listening import (
    EVERYTHING,
    FIRST_LOOK_SECONDS,
    PROBE_SECONDS,
    Listening,
    cut_excerpts,
    is_look_due,
)
from ideaw.results import Detection

SURE = Listening(until_sure=True)


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


@pytest.fixture(scope="module")
def plain(speech: NDArray[np.float32]) -> NDArray[np.float32]:
    """Two and a half minutes of speech, `(n, 1)`: more than a chunk."""
    return np.tile(speech, 25)[:, None]


@pytest.fixture(scope="module")
def marked(marker: ideaw.Marker, plain: NDArray[np.float32]) -> NDArray[np.float32]:
    return marker.embed(plain, SAMPLE_RATE, "hey")


def detect(
    marker: ideaw.Marker, audio: NDArray[np.float32], listening: Listening, *keys: Key, length: int | None = -1
) -> Detection:
    detector = Detector(marker.network, keys or [PUBLIC], "none")
    blocks = partial(split_blocks, audio, 30_000)
    return detector.detect(blocks, SAMPLE_RATE, 1, len(audio) if length == -1 else length, None, listening)


# Statistics


def test_all_looks_together_have_the_allowed_accidents_of_one() -> None:
    """Σ 1/(weight of look k) over any number of looks is at most 1, and p-values are multiplied by that weight."""
    trials, total = TrialCounter(3, [PUBLIC], 7), 0.0
    alone = trials.searches
    for look in range(1, 10_000):
        trials.look = look
        total += alone / trials.searches
    assert 0.999 < total <= 1
    trials.look = 0
    assert trials.searches == alone


@pytest.mark.slow
def test_each_look_costs_its_weight(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    """Of a minute there are two looks, at its opening and at all; the second has a sixth of the allowed accidents."""
    minute, noise = marked[: 60 * SAMPLE_RATE], np.random.default_rng(0).standard_normal((60 * SAMPLE_RATE, 1))
    for level in np.geomspace(0.01, 0.2, 20):
        faint = minute + level * noise
        whole = detect(marker, faint, EVERYTHING)
        if whole.status == "none" and 1e-8 < whole.p_value < 0.1:
            break
    assert detect(marker, faint, SURE).p_value == pytest.approx(6 * whole.p_value)


def test_no_look_finds_a_mark_of_another_key(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    keys = [Key(number.to_bytes(16, "big")) for number in range(40)]
    for listening in (SURE, Listening(True, 2)):
        assert detect(marker, marked, listening, *keys).status == "none"


# Until sure


def test_a_mark_from_the_beginning_is_sure_after_ten_seconds(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    found = detect(marker, marked, SURE)
    assert (found.status, found.message, found.heard_seconds) == ("found", "hey", FIRST_LOOK_SECONDS)
    assert found.segments[0].start == pytest.approx(0, abs=0.1)
    assert found.segments[-1].end == pytest.approx(FIRST_LOOK_SECONDS, abs=0.1)


@pytest.mark.slow
def test_a_mark_that_begins_late_is_found_too(
    marker: ideaw.Marker, plain: NDArray[np.float32], marked: NDArray[np.float32]
) -> None:
    late = np.concatenate([plain[: 125 * SAMPLE_RATE], marked[125 * SAMPLE_RATE :]])
    found = detect(marker, late, SURE)
    assert (found.status, found.message, found.heard_seconds) == ("found", "hey", None)


@pytest.mark.slow
def test_audio_of_unknown_length_is_heard_until_sure(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    assert detect(marker, marked, SURE, length=None).heard_seconds == FIRST_LOOK_SECONDS
    assert detect(marker, marked[: 5 * SAMPLE_RATE], SURE, length=None).heard_seconds is None


@pytest.mark.slow
def test_where_nothing_is_found_all_was_heard(marker: ideaw.Marker, plain: NDArray[np.float32]) -> None:
    heard, whole = detect(marker, plain, SURE), detect(marker, plain, EVERYTHING)
    assert heard.status == whole.status == "none"
    assert heard.heard_seconds is None
    assert heard.p_value >= whole.p_value


def test_short_audio_is_heard_as_a_whole(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    short = marked[: 30 * SAMPLE_RATE]
    assert detect(marker, short, SURE) == detect(marker, short, EVERYTHING)


def test_looks_become_rare() -> None:
    assert [chunks for chunks in range(1, 40) if is_look_due(chunks)] == [1, 2, 4, 8, 16, 32]


# Probes


def test_probes_are_spread_and_of_one_length() -> None:
    starts = Listening(probes=4).probe_starts(400.0)
    assert starts == [45, 145, 245, 345]
    audio = np.arange(400 * 100, dtype=np.float32)[:, None]
    excerpts = list(cut_excerpts(split_blocks(audio, 777), 100, starts))
    assert [start for start, _ in excerpts] == starts
    for start, samples in excerpts:
        np.testing.assert_array_equal(samples[:, 0], np.arange(start * 100, (start + PROBE_SECONDS) * 100))


def test_what_is_behind_the_last_probe_is_not_read() -> None:
    def blocks():
        yield np.zeros((1000, 1))
        raise AssertionError("read on")

    assert len(list(cut_excerpts(blocks(), 100, [0]))) == 1


def test_probes_answer_for_long_audio(
    marker: ideaw.Marker, plain: NDArray[np.float32], marked: NDArray[np.float32]
) -> None:
    found = detect(marker, marked, Listening(probes=2))
    assert (found.message, found.heard_seconds) == ("hey", 2 * PROBE_SECONDS)
    assert detect(marker, marked, Listening(True, 2)).heard_seconds == PROBE_SECONDS
    none = detect(marker, plain, Listening(probes=2))
    assert (none.status, none.heard_seconds) == ("none", 2 * PROBE_SECONDS)
    short = marked[: 79 * SAMPLE_RATE]
    assert detect(marker, short, Listening(probes=2)).heard_seconds is None


@pytest.mark.slow
def test_a_mark_between_the_probes_is_missed_and_one_that_they_hint_at_is_not(
    marker: ideaw.Marker, plain: NDArray[np.float32], marked: NDArray[np.float32]
) -> None:
    between = plain.copy()
    between[: 20 * SAMPLE_RATE] = marked[: 20 * SAMPLE_RATE]
    assert Listening(probes=2).probe_starts(150.0) == [32, 107]
    assert detect(marker, between, Listening(probes=2)).status == "none"
    touched = plain.copy()
    touched[20 * SAMPLE_RATE : 35 * SAMPLE_RATE] = marked[20 * SAMPLE_RATE : 35 * SAMPLE_RATE]
    found = detect(marker, touched, Listening(probes=2))
    assert found.message == "hey"


def test_fewer_than_no_probes_are_refused() -> None:
    with pytest.raises(ideaw.IdeawError, match="-1 probes"):
        Listening(probes=-1)


# Silence


@pytest.mark.slow
def test_digital_silence_passes_no_network(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    """What is found and how sure it is stays, with silence in the middle of a chunk; the network is run less often."""
    gap = np.zeros((40 * SAMPLE_RATE, 1), np.float32)
    piece = marked[: 20 * SAMPLE_RATE]
    calls: list[int] = []
    network = marker.network
    original = network.locate

    def counted(received):
        calls.append(received.shape[1])
        return original(received)

    network.locate = counted  # type: ignore[method-assign]
    try:
        found = detect(marker, np.concatenate([piece, gap, piece]), EVERYTHING)
    finally:
        network.locate = original  # type: ignore[method-assign]
    assert found.message == "hey"
    assert sum(calls) < 60 * 64
