"""From stretches to an answer: which messages are told, where, and how sure that is; on stretches as a search gives."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from plans import plan_of, symbols_for

import ideaw
from ideaw import detector
from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE
from ideaw.detector import Detector, TrialCounter, fisher_product_p
from ideaw.engine.decode import decode_seconds
from ideaw.engine.network import Network
from ideaw.engine.search import MarkedStretch
from ideaw.engine.significance import FALSE_ALARM_HOURS, FILE_P
from ideaw.hypotheses import SPEED_RATIO, Hypothesis, count_hypotheses
from ideaw.keys import PUBLIC, Key
from ideaw.modem.channel import KeyChannels
from ideaw.payload.message import Message
from ideaw.results import Detection

OTHER = Key(b"another key, not ours")
KEYS = [PUBLIC, OTHER]
CERTAIN = -200.0
"""Logarithm of the probability of a code that is there."""


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load()


@pytest.fixture(scope="module")
def network(marker: ideaw.Marker) -> Network:
    return marker.network


def _llrs(network: Network, text: str, seconds: int, noise: float = 0.5, key: Key = PUBLIC) -> NDArray[np.float32]:
    """(seconds, slots) that say a text, as long as it may be, in noise."""
    sent = symbols_for(plan_of(Message(text), network.card.message_bits, key), seconds)
    return (sent + noise * np.random.default_rng(0).standard_normal(sent.shape)).astype(np.float32)


def _noise(network: Network, seconds: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((seconds, network.card.message_slots)).astype(np.float32)


def _stretch(
    network: Network, llrs: NDArray[np.float32], first: int = 0, key_index: int = 0, log_p: float = CERTAIN
) -> MarkedStretch:
    seconds, key = len(llrs), KEYS[key_index]
    starts = first + FRAMES_PER_SECOND * np.arange(seconds)
    decoded = decode_seconds(llrs, network.channels(key))
    last = first + FRAMES_PER_SECOND * seconds
    return MarkedStretch(
        key_index, starts, np.full(seconds, 10.0), log_p, llrs, first, last, decoded, 1, decoded.check_bits
    )


def _answer(
    network: Network,
    *stretches: MarkedStretch,
    seconds: float = 60.0,
    keys: Sequence[Key] = KEYS,
    log_p: float = 0.0,
    chunks: int = 1,
    speed: float = 1.0,
    channels: int = 1,
) -> Detection:
    """The detector's answer where its search gives these stretches, at this speed alone."""

    class GivenSearch:
        def __init__(self, network: Network, keys: Sequence[KeyChannels], *_: Any, **__: Any) -> None:
            self.keys, self.chunks, self.hop_samples = keys, chunks, HOP_SAMPLES
            self.min_check_bits = self.decodings = 0
            here = len(searches) == (speed != 1)
            self.stretches = list(stretches) if here else []
            self.log_p = min([log_p, *(stretch.log_p for stretch in self.stretches)])
            searches.append(self)

        def push(self, audio: NDArray[np.float32]) -> None: ...

        def finish(self) -> None: ...

    class GivenScreening:
        def __init__(self, *_: Any) -> None: ...

        def hypotheses(self, apart: bool) -> Iterator[Hypothesis]:
            yield from [Hypothesis(None, speed)] * (apart and speed != 1)

    searches: list[GivenSearch] = []
    audio = np.zeros((round(seconds * SAMPLE_RATE), channels), np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detector, "Search", GivenSearch)
        patch.setattr(detector, "Screening", GivenScreening)
        speeds = "none" if speed == 1 else "near"
        return Detector(network, keys, speeds).detect(lambda: [audio], SAMPLE_RATE, channels, len(audio), None)


# What is told


def test_nothing_is_no_mark(network: Network) -> None:
    assert _answer(network, seconds=10.0) == Detection("none", None, 1.0, [], ())


def test_a_stretch_tells_what_and_where_and_whose(network: Network) -> None:
    for key_index, key in enumerate(KEYS):
        answer = _answer(network, _stretch(network, _llrs(network, "hey", 4, key=key), 32, key_index), seconds=10.0)
        assert (answer.status, answer.message, answer.key) == ("found", "hey", key.fingerprint)
        assert answer.p_value < FILE_P
        (segment,) = answer.segments
        assert (segment.start, segment.end, segment.message_ok) == (0.5, 4.5, True)
        assert (segment.message, segment.key) == ("hey", key.fingerprint)
        _, llrs = network.channels(key).short.decode(_llrs(network, "hey", 1, 0.0, key)[0])
        assert np.array_equal(np.array(answer.bit_confidence) > 0, llrs > 0)


@pytest.mark.parametrize(
    ("seconds", "speed", "expected"), [(6, 1.05, 1.05 / SPEED_RATIO), (2, 1.05, 1.05), (6, 1.0, 1.0)]
)
def test_seconds_tell_what_the_speed_leaves_over(network: Network, seconds: int, speed: float, expected: float) -> None:
    stretch = _stretch(network, _llrs(network, "hey", seconds))
    longer = replace(stretch, starts=stretch.starts + np.arange(seconds), last=stretch.last + seconds)
    assert _answer(network, longer, seconds=9.0, speed=speed).speed == pytest.approx(expected)


def test_segments_are_in_the_time_of_the_audio_as_it_was_given(network: Network) -> None:
    answer = _answer(network, _stretch(network, _llrs(network, "hey", 5), 80), seconds=9.0, speed=1.25)
    assert answer.speed == pytest.approx(1.25)
    assert (answer.segments[0].start, answer.segments[0].end) == (1, 5)
    # Hops are rounded up, and no mark goes on after the end.
    answer = _answer(network, _stretch(network, _llrs(network, "hey", 5)), seconds=4.99)
    assert answer.segments[0].end == 4.99


def test_a_code_whose_message_cannot_be_read_is_unreadable(network: Network) -> None:
    noise = _noise(network, 4)
    answer = _answer(network, _stretch(network, noise), seconds=10.0)
    assert (answer.status, answer.found, answer.message, answer.key) == ("unreadable", False, None, None)
    assert answer.p_value == max(2 * math.exp(CERTAIN), 2.0 ** (-8 * len(PUBLIC)))
    (segment,) = answer.segments
    assert (segment.message_ok, segment.message, segment.key) == (False, None, PUBLIC.fingerprint)
    assert len(answer.bit_confidence) == 48
    assert str(answer).startswith("unreadable")
    # Nor is a code told that may be an accident.
    answer = _answer(network, _stretch(network, noise, log_p=math.log(1e-5)), seconds=10.0)
    assert (answer.status, answer.segments, answer.p_value) == ("none", [], pytest.approx(2e-5))


def test_a_long_message_is_read_from_pieces_that_are_too_short_alone(network: Network) -> None:
    text = "a text that takes some seconds"
    llrs = _llrs(network, text, 30, noise=0.2)
    first, second = llrs[:2], llrs[8:10]
    pieces = _stretch(network, first), _stretch(network, second, 1_000)
    assert _answer(network, *pieces).message == text
    alone = _answer(network, pieces[0])
    assert (alone.status, len(alone.segments)) == ("unreadable", 1)


def test_marks_of_two_keys_and_two_messages_are_all_told(network: Network) -> None:
    stretches = [
        _stretch(network, _llrs(network, "hey", 4)),
        _stretch(network, _llrs(network, "you", 3, key=OTHER), 300, 1),
        _stretch(network, _llrs(network, "him", 3), 600),
    ]
    answer = _answer(network, *stretches)
    fingerprints = [key.fingerprint for key in (PUBLIC, OTHER, PUBLIC)]
    assert [(segment.message, segment.key) for segment in answer.segments] == list(
        zip(("hey", "you", "him"), fingerprints, strict=True)
    )
    assert set(answer.messages) == {"hey", "you", "him"}
    assert answer.messages[0] == answer.message


def test_every_stretch_that_is_told_must_be_as_sure(network: Network) -> None:
    sure = _stretch(network, _llrs(network, "hey", 4))
    for log_p, told in ((math.log(FILE_P / 400), 2), (math.log(FILE_P * 4), 1)):
        other = _stretch(network, _noise(network, 2), 600, log_p=log_p)
        assert len(_answer(network, sure, other).segments) == told
        assert len(_answer(network, sure, replace(other, key_index=1)).segments) == told


@pytest.mark.slow
def test_an_average_of_two_copies_gives_no_third_message(marker: ideaw.Marker, strings: NDArray[np.float32]) -> None:
    rng, audio = np.random.default_rng(0), strings[: 3 * SAMPLE_RATE]
    for _ in range(8):
        texts = ["".join(map(chr, rng.integers(97, 123, 4))) for _ in range(2)]
        one, other = (marker.embed(audio, SAMPLE_RATE, text) for text in texts)
        assert set(marker.detect((one + other) / 2, SAMPLE_RATE, speeds="none").messages) <= set(texts)


# How sure


def test_two_p_values_are_worth_their_product_and_not_more() -> None:
    rng = np.random.default_rng(0)
    values = np.array([fisher_product_p(*pair) for pair in rng.uniform(0, 1, (20_000, 2))])
    for bound in (0.5, 0.1, 0.01):
        assert (values <= bound).mean() == pytest.approx(bound, abs=4 * np.sqrt(bound / len(values)))
    assert fisher_product_p(1, 1) == 1
    assert fisher_product_p(0, 0.5) == 0
    assert fisher_product_p(1e-200, 1e-200) == 0  # that no float holds


def test_as_many_accidents_as_there_may_be_are_tried_with_a_second_p_value() -> None:
    # On average seven codes by accident, each of which is as good as a number from 0 to 7 says.
    rng, most = np.random.default_rng(0), 7
    least = [
        min((fisher_product_p(one, rng.uniform(), most) for one in rng.uniform(0, most, rng.poisson(most))), default=1)
        for _ in range(10_000)
    ]
    for bound in (0.5, 0.1, 0.01):
        assert (np.array(least) <= bound).mean() <= bound + 4 * np.sqrt(bound / len(least))


def test_every_hypothesis_key_and_chunk_counts(network: Network) -> None:
    log_p = math.log(1e-5)
    assert _answer(network, log_p=log_p, keys=[PUBLIC]).p_value == pytest.approx(1e-5)
    trials = 2 * 5 * count_hypotheses(2, "none")
    assert _answer(network, log_p=log_p, chunks=5, channels=2).p_value == pytest.approx(trials * 1e-5)
    assert _answer(network, log_p=math.log(0.1), chunks=5, channels=2).p_value == 1
    assert TrialCounter(3, KEYS, 5).searches == 30


def test_every_decoding_of_a_stretch_counts(network: Network) -> None:
    stretch = _stretch(network, _llrs(network, "hey", 1, noise=2.0), log_p=math.log(1e-7))
    trials = TrialCounter(1, [PUBLIC])
    assert stretch.decoded.message is not None
    for decodings in (1, 9):
        expected = fisher_product_p(1e-7, decodings * stretch.decoded.p_value)
        counted = trials.joint_p(replace(stretch, decodings=decodings))
        assert counted == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize("size", [16, 32, 64])
def test_no_p_value_is_below_the_chance_of_guessing_the_key(network: Network, size: int) -> None:
    key = Key(bytes(range(size)))
    trials = TrialCounter(1, [PUBLIC, key])
    least = 2.0 ** -min(8 * size, 256)  # what is drawn from a key passes through a hash of 256 bits
    assert trials.reported_p(0.0, 1) == least
    assert trials.reported_p(2 * least, 1) == 2 * least
    assert trials.reported_p(2.0, 1) == 1


def test_short_files_must_be_surer(network: Network) -> None:
    # One wrong answer in a million files, and in ten thousand hours.
    stretch = _stretch(network, _noise(network, 2), log_p=math.log(3e-7 / 2))
    seconds = (0.003 * FALSE_ALARM_HOURS, 2.0)
    assert [_answer(network, stretch, seconds=length).status for length in seconds] == ["unreadable", "none"]
