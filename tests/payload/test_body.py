"""Long messages as bits: what goes in comes back, nothing else does, and how much fits is told exactly."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import plan_of, symbols_for

from ideaw.errors import MessageError
from ideaw.modem.long_frames import NUM_LENGTHS, ODD_BITS
from ideaw.payload.body import FILLING_BITS, MAX_LONG_BYTES, TYPE_BITS, body_bits, capacity, parse_body
from ideaw.payload.message import Content, Message, to_bits

CONTENTS = st.one_of(
    st.text(min_size=5, max_size=40),
    st.binary(min_size=5, max_size=80),
    st.lists(st.integers(0, 1), min_size=33, max_size=90).map(tuple),
)


@given(CONTENTS)
def test_a_long_message_comes_back_as_it_was(content: Content) -> None:
    bits = body_bits(Message(content), 46)
    assert len(bits) == 8 * len(Message(content).data) + ODD_BITS
    assert parse_body(bits, 46) == Message(content)


def test_the_frames_tell_every_length_that_there_is() -> None:
    assert TYPE_BITS + FILLING_BITS == ODD_BITS
    assert MAX_LONG_BYTES == NUM_LENGTHS == capacity(3600, 46) == capacity(3600, 22)


@pytest.mark.parametrize(
    ("kind", "filling", "data"),
    [
        (0, 0, b"\xff" * 10),  # no text
        (0, 1, b"12345"),  # only bits are filled up
        (1, 3, b"12345"),
        (2, 7, b"12345"),  # what fills up is zeros
        (3, 0, b"12345"),  # no type
        (0, 0, b"1234"),  # fits into every second
        (1, 0, b"1234"),
        (2, 1, b"\0\0\0\0"),
    ],
)
def test_bits_that_no_message_has_are_refused(kind: int, filling: int, data: bytes) -> None:
    opening = to_bits(kind, TYPE_BITS), to_bits(filling, FILLING_BITS)
    assert parse_body(np.concatenate([*opening, np.unpackbits(np.frombuffer(data, np.uint8))]), 46) is None


def test_a_short_message_is_the_same_in_every_second() -> None:
    plan = plan_of(Message("abcd"), 46)
    assert plan.needed == 1
    assert plan.symbols.shape == (1, 552)
    assert symbols_for(plan, 0.3).shape == (1, 552)
    assert len(np.unique(symbols_for(plan, 7.5), axis=0)) == 1


def test_a_long_message_fills_a_file_again_and_again() -> None:
    plan = plan_of(Message("track-0042"), 46)
    assert plan.needed == 4
    symbols = symbols_for(plan, 99.2)
    assert symbols.shape == (100, 552)
    assert np.array_equal(symbols[64:], symbols[:36])
    assert len(np.unique(symbols, axis=0)) == 64


@pytest.mark.parametrize(("seconds", "has"), [(3, "3"), (3.99, "3.9"), (0.5, "0.5")])
def test_audio_that_is_too_short_is_told_how_long_it_must_be(seconds: float, has: str) -> None:
    with pytest.raises(MessageError) as caught:
        symbols_for(plan_of(Message("track-0042"), 46), seconds)
    assert str(caught.value) == f"this message needs at least 4 seconds; the audio has {has}"


@pytest.mark.slow
@given(st.floats(0, 400), st.sampled_from([10, 22, 46]))
@settings(deadline=None, max_examples=30)
def test_capacity_is_what_fits(seconds: float, size: int) -> None:
    most = capacity(seconds, size)
    if seconds < 1:
        assert most == 0
        return
    if most:
        assert len(symbols_for(plan_of(Message(b"\xff" * most), size), seconds)) == ceil(seconds)
    with pytest.raises(MessageError):
        symbols_for(plan_of(Message(b"\xff" * (most + 1)), size), seconds)


def test_capacity_in_numbers() -> None:
    assert [capacity(seconds, 46) for seconds in (0.9, 1, 2, 3, 10, 60, 154, 3600)] == [0, 4, 4, 8, 43, 293, 763, 763]
    assert [capacity(seconds, 22) for seconds in (1, 2, 3, 10, 32, 3600)] == [1, 3, 8, 43, 153, 763]
    assert [capacity(seconds, 10) for seconds in (1, 3600)] == [0, 0]


@pytest.mark.parametrize(
    ("content", "size", "says"),
    [
        ("x" * 764, 46, "764 bytes long, and this model holds at most 763"),
        ((0, 1) * 4000, 46, "1000 bytes long"),
        ("x" * 764, 22, "at most 763"),
        ("a", 10, "too long: this model holds 4 bits, and only models of 22"),
        ((0,) * 5, 10, "too long: this model holds 4 bits"),
        ("", 46, "empty"),
        ("\ud800" * 9, 46, "half of a character"),
    ],
)
def test_what_never_fits_gets_one_line(content: Content, size: int, says: str) -> None:
    with pytest.raises(MessageError, match=says) as caught:
        plan_of(Message(content), size)
    assert "\n" not in str(caught.value)
