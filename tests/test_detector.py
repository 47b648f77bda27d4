"""From traces to an answer: which messages are said, where, and how sure that is; on soft values as a search gives."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.detector import HOURS, SURE, combined, decide
from ideaw.engine.network import Network
from ideaw.engine.search import Search, Trace
from ideaw.keys import PUBLIC, Key
from ideaw.modem.locating_code import locating_code
from ideaw.payload.framing import Plan
from ideaw.payload.message import Message

OTHER = Key(b"another key, not ours")
CERTAIN = -200.0
"""Logarithm of the chance of a code that is there."""


@pytest.fixture(scope="module")
def network() -> Network:
    return ideaw.load()._network


def _values(network: Network, text: str, seconds: int, noise: float = 0.5, seed: int = 0) -> NDArray[np.float32]:
    """(seconds, slots) that say a text, as long as it may be, in noise."""
    rounds = Plan.of(Message(text), network.card.message_bits, network.key).period_payloads
    sent = network.message.values(rounds[np.arange(seconds) % len(rounds)])
    return (sent + noise * np.random.default_rng(seed).standard_normal(sent.shape)).astype(np.float32)


def _trace(values: NDArray[np.float32], begin: int = 0, owner: int = 0, log_p: float = CERTAIN) -> Trace:
    seconds = len(values)
    starts = begin + FRAMES_PER_SECOND * np.arange(seconds)
    return Trace(owner, starts, np.full(seconds, 10.0), log_p, values, begin, begin + FRAMES_PER_SECOND * seconds)


def _search(network: Network, *traces: Trace, log_p: float = 0.0, chunks: int = 1) -> Search:
    owners = [network.with_key(key) for key in (PUBLIC, OTHER)]
    codes = [locating_code(network.card.code_bits, owner.key) for owner in owners]
    least = min([log_p, *(trace.log_p for trace in traces)])
    return Search(owners, codes, log_p=least, chunks=chunks, traces=list(traces))


def _said(network: Network, *traces: Trace, seconds: float = 60.0) -> list[tuple[object, float, float]]:
    found = decide(_search(network, *traces), [PUBLIC, OTHER], seconds)
    return [(segment.message, segment.start, segment.end) for segment in found.segments]


# What is said


def test_nothing_is_no_mark(network: Network) -> None:
    found = decide(_search(network), [PUBLIC, OTHER], 10.0)
    assert (found.found, found.message, found.key, found.segments, found.bit_confidence) == (False, None, None, [], ())
    assert found.p_value == 1


def test_a_trace_says_what_and_where_and_whose(network: Network) -> None:
    other = network.with_key(OTHER)
    for owner, key, number in ((network, PUBLIC, 0), (other, OTHER, 1)):
        found = decide(_search(network, _trace(_values(owner, "hey", 4), 32, number)), [PUBLIC, OTHER], 10.0)
        assert (found.found, found.message, found.key) == (True, "hey", key)
        assert found.p_value < SURE
        (segment,) = found.segments
        assert (segment.start, segment.end, segment.message_ok) == (0.5, 4.5, True)
        assert (segment.message, segment.key) == ("hey", key)
        bits = Message("hey").encode(network.card.message_bits, key)
        assert np.array_equal(np.array(found.bit_confidence) > 0, bits > 0)


@pytest.mark.parametrize(("seconds", "pace", "expected"), [(6, 1.05, 1.05 * 64 / 65), (2, 1.05, 1.05), (6, 1.0, 1.0)])
def test_seconds_tell_what_the_pace_leaves_over(network: Network, seconds: int, pace: float, expected: float) -> None:
    trace = _trace(_values(network, "hey", seconds))
    longer = replace(trace, starts=trace.starts + np.arange(seconds), last=trace.last + seconds)
    assert decide(_search(network, longer), [PUBLIC], 9.0, pace=pace).speed == pytest.approx(expected)


def test_segments_are_in_the_time_of_the_audio_as_it_was_given(network: Network) -> None:
    found = decide(_search(network, _trace(_values(network, "hey", 5), 80)), [PUBLIC], 9.0, pace=1.25)
    assert found.speed == pytest.approx(1.25)
    assert (found.segments[0].start, found.segments[0].end) == (1, 5)
    # Hops are rounded up, and no mark goes on after the end.
    found = decide(_search(network, _trace(_values(network, "hey", 5))), [PUBLIC], 4.99)
    assert found.segments[0].end == 4.99


def test_a_code_whose_message_cannot_be_read_is_told_but_not_found(network: Network) -> None:
    noise = np.random.default_rng(0).standard_normal((4, network.card.message_slots)).astype(np.float32)
    found = decide(_search(network, _trace(noise)), [PUBLIC, OTHER], 10.0)
    assert (found.found, found.message) == (False, None)
    assert found.p_value < 1e-80
    assert [(segment.message_ok, segment.message, segment.key) for segment in found.segments] == [(False, None, PUBLIC)]
    assert len(found.bit_confidence) == network.card.message_bits
    assert "not readable" in str(found)
    # Nor is a code told that may be an accident.
    found = decide(_search(network, _trace(noise, log_p=np.log(1e-5))), [PUBLIC, OTHER], 10.0)
    assert (found.segments, found.p_value) == ([], pytest.approx(2e-5))


def test_a_long_message_is_read_from_pieces_that_are_too_short_alone(network: Network) -> None:
    text = "a text that takes some seconds"
    values = _values(network, text, 30, noise=0.2)
    needed = Plan.of(Message(text), network.card.message_bits).needed
    pieces = [_trace(values[:part], begin) for part, begin in ((needed - 2, 0),)]
    pieces.append(_trace(values[needed : 2 * needed - 3], 1_000))
    assert decide(_search(network, *pieces), [PUBLIC, OTHER], 60.0).message == text
    alone = decide(_search(network, pieces[0]), [PUBLIC, OTHER], 60.0)
    assert (alone.found, len(alone.segments)) == (False, 1)


def test_marks_of_two_keys_are_both_told(network: Network) -> None:
    other = network.with_key(OTHER)
    traces = _trace(_values(network, "hey", 4)), _trace(_values(other, "you", 3), 300, 1)
    assert [said for said, _, _ in _said(network, *traces)] == ["hey", "you"]


# Pieces that were put together


PAIRS = [("hey", "you"), ("IDEA", "IDEB"), ("a", "b"), ("0001", "0002"), ("€", "$")]


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize(("first", "second"), [(5, 5), (3, 7), (9, 3), (2, 2), (30, 90)])
def test_a_splice_on_the_second_gives_both_messages_with_their_places(
    network: Network, one: str, other: str, first: int, second: int
) -> None:
    for noise in (0.3, 0.8):
        values = np.concatenate([_values(network, one, first, noise, 1), _values(network, other, second, noise, 2)])
        (said, begin, cut), (then, again, end) = _said(network, _trace(values), seconds=200.0)
        assert (said, begin, then, end) == (one, 0, other, first + second)
        assert cut == again == pytest.approx(first, abs=1)


@pytest.mark.parametrize(("first", "second"), [(9, 9), (6, 12), (30, 90)])
def test_a_splice_of_which_some_seconds_were_read_gives_both_messages(
    network: Network, first: int, second: int
) -> None:
    values = np.concatenate([_values(network, "hey", first, seed=1), _values(network, "you", second, seed=2)])
    values[np.arange(first + second) % 3 > 0] = 0
    (said, begin, cut), (then, again, end) = _said(network, _trace(values), seconds=200.0)
    assert (said, begin, then, end) == ("hey", 0, "you", first + second)
    assert cut == again == pytest.approx(first, abs=2)


def test_what_was_put_in_between_is_told_too(network: Network) -> None:
    values = np.concatenate([_values(network, text, 4, seed=seed) for seed, text in enumerate(("hey", "you", "hey"))])
    assert _said(network, _trace(values)) == [("hey", 0, 4), ("you", 4, 8), ("hey", 8, 12)]


@pytest.mark.parametrize("text", ["hey", "a text that takes some seconds"])
def test_seconds_that_are_hard_to_read_split_nothing(network: Network, text: str) -> None:
    rng = np.random.default_rng(0)
    for noise in (0.3, 1.0):
        values = _values(network, text, 40, noise)
        for begin, length in ((5, 1), (12, 3), (25, 6)):
            values[begin : begin + length] = 0.2 * rng.standard_normal((length, values.shape[1]))
        assert _said(network, _trace(values)) == [(text, 0, 40)]


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.7, 1.5])
def test_an_average_of_two_copies_gives_no_third_message(network: Network, noise: float) -> None:
    rng = np.random.default_rng(int(10 * noise))
    for trial in range(40):
        one, other = ("".join(map(chr, rng.integers(97, 123, 4))) for _ in range(2))
        both = _values(network, one, 4, noise, trial) + _values(network, other, 4, 0.0)
        found = decide(_search(network, _trace(both)), [PUBLIC, OTHER], 4.0)
        assert {found.message, *(segment.message for segment in found.segments)} <= {one, other, None}


# How sure


def test_two_chances_are_worth_their_product_and_not_more() -> None:
    rng = np.random.default_rng(0)
    values = np.array([combined(*pair) for pair in rng.uniform(0, 1, (20_000, 2))])
    for bound in (0.5, 0.1, 0.01):
        assert (values <= bound).mean() == pytest.approx(bound, abs=4 * np.sqrt(bound / len(values)))
    assert combined(1, 1) == 1
    assert combined(0, 0.5) == 0


def test_as_many_accidents_as_there_may_be_are_tried_with_a_second_chance() -> None:
    # On average seven codes by accident, each of which is as good as a number from 0 to 7 says.
    rng, most = np.random.default_rng(0), 7
    least = [
        min((combined(one, rng.uniform(), most) for one in rng.uniform(0, most, rng.poisson(most))), default=1.0)
        for _ in range(10_000)
    ]
    for bound in (0.5, 0.1, 0.01):
        assert (np.array(least) <= bound).mean() <= bound + 4 * np.sqrt(bound / len(least))


def test_chances_that_no_float_holds_are_none() -> None:
    assert combined(1e-200, 1e-200) == 0


def _p_value(network: Network, log_p: float, keys: Sequence[Key], looks: int, chunks: int) -> float:
    return decide(_search(network, log_p=log_p, chunks=chunks), keys, 100.0, looks).p_value


def test_every_key_look_and_chunk_counts(network: Network) -> None:
    once = _p_value(network, np.log(1e-5), [PUBLIC], 1, 1)
    assert once == pytest.approx(1e-5)
    assert _p_value(network, np.log(1e-5), [PUBLIC, OTHER], 3, 5) == pytest.approx(30 * once)
    assert _p_value(network, np.log(0.1), [PUBLIC, OTHER], 3, 5) == 1


def test_short_files_must_be_surer(network: Network) -> None:
    # One wrong answer in a million files, and in ten thousand hours.
    noise = np.random.default_rng(1).standard_normal((2, network.card.message_slots)).astype(np.float32)
    trace = _trace(noise, log_p=np.log(3e-7 / 2))
    assert [len(_said(network, trace, seconds=seconds)) for seconds in (0.003 * HOURS, 2.0)] == [1, 0]
