"""What seconds carry: the same payload over and over, or blocks of which any that are enough give the message."""

import hashlib
from math import ceil
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import payloads_for, plan_of

from ideaw.errors import MessageError
from ideaw.keys import PUBLIC, Key
from ideaw.payload.erasures import values_at
from ideaw.payload.framing import MIN_LONG_PAYLOAD_BITS, Block, body_check, capacity, long_layout, parse_body
from ideaw.payload.message import Content, Message

KEY = Key(bytes(range(16)))
KEYS = st.sampled_from([PUBLIC, KEY])
SIZES = st.sampled_from([22, 30, 46, 53, 128])
LETTERS = "aZ09 \0\n\x7fäß€\uffff😀"


def contents(most: int) -> st.SearchStrategy[Content]:
    """Text, bytes or bits of up to `most` bytes."""
    bits = st.lists(st.integers(0, 1), min_size=1, max_size=8 * most).map(tuple)
    text = st.text(LETTERS, min_size=1, max_size=most).filter(lambda text: len(text.encode()) <= most)
    return st.one_of(bits, st.binary(min_size=1, max_size=most), text)


@pytest.mark.slow
@given(contents(27), SIZES, KEYS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_any_blocks_that_are_enough_give_the_message(content: Content, size: int, key: Key, random: Random) -> None:
    message = Message(content)
    plan = plan_of(message, size, key)
    if message.fits(size):
        assert plan.needed == 1
        assert np.array_equal(plan.period_payloads, message.encode(size, key)[None])
        return
    parts = long_layout(size)
    assert parts is not None
    assert plan.period_payloads.shape == (min(2 * plan.needed, parts.max_blocks), size)
    chosen = random.sample(range(len(plan.period_payloads)), plan.needed)
    blocks = [parts.decode_block(plan.period_payloads[index], key) for index in chosen]
    assert [block.index for block in blocks] == chosen
    assert {block.needed for block in blocks} == {plan.needed}
    data = np.array([list(block.data) for block in blocks], np.uint8)
    body = values_at(np.arange(plan.needed), np.array(chosen), data).tobytes()
    assert parse_body(body, size, key) == message
    assert parse_body(body, size, Key.fresh()) is None
    damaged = bytearray(body)
    damaged[random.randrange(len(body))] ^= 1 << random.randrange(8)
    assert parse_body(bytes(damaged), size, key) is None


@given(st.integers(MIN_LONG_PAYLOAD_BITS, 128), st.data(), KEYS)
def test_a_payload_says_its_block(size: int, data: st.DataObject, key: Key) -> None:
    parts = long_layout(size)
    assert parts is not None
    needed = data.draw(st.integers(1, parts.max_blocks))
    index = data.draw(st.integers(0, parts.period(needed) - 1))
    block = Block(index, needed, data.draw(st.binary(min_size=parts.data_bytes, max_size=parts.data_bytes)))
    payload = parts.encode_block(block, key)
    assert payload.shape == (size,)
    assert parts.decode_block(payload, key) == block
    assert Message.decode(payload, key) is None
    flipped = payload.copy()
    flipped[data.draw(st.integers(0, size - 1))] ^= 1
    assert parts.decode_block(flipped, key) != block
    damaged = parts.decode_block(flipped, key)
    assert damaged is None or damaged.needed != needed or key != PUBLIC


def test_payloads_are_divided_as_the_models_need_it() -> None:
    for size, division in ((46, (8, 3, 0, 11)), (22, (5, 1, 0, 6)), (30, (8, 1, 0, 11)), (128, (8, 13, 2, 11))):
        parts = long_layout(size)
        assert parts is not None
        assert (parts.index_bits, parts.data_bytes, parts.spare_bits, parts.check_bits) == division
    assert long_layout(10) is None


@pytest.mark.parametrize(
    ("content", "size", "key", "digest"),
    [
        ("track-0042", 46, PUBLIC, "e27f071975f890fa"),
        ("track-0042", 46, KEY, "bda990a73c21c979"),
        ("track-0042", 22, PUBLIC, "ecea207ce4eef148"),
        (b"\0\1\2\3\4", 46, PUBLIC, "b75fe6ac1d06cc2f"),
        ((0, 1, 1) * 11, 46, PUBLIC, "af049b02729a6c5c"),
    ],
)
def test_payloads_never_change(content: Content, size: int, key: Key, digest: str) -> None:
    # Marks in the world are read by them.
    payloads = plan_of(Message(content), size, key).period_payloads
    assert hashlib.sha256(np.packbits(payloads).tobytes()).hexdigest()[:16] == digest


def test_a_short_message_is_the_same_in_every_second() -> None:
    plan = plan_of(Message("abcd"), 46)
    assert plan.needed == 1
    assert np.array_equal(payloads_for(plan, 7.5), np.tile(Message("abcd").encode(46), (8, 1)))
    assert payloads_for(plan, 0.3).shape == (1, 46)


def test_a_long_message_fills_a_file_again_and_again() -> None:
    plan = plan_of(Message("track-0042"), 46)
    assert plan.needed == 5
    payloads = payloads_for(plan, 23.2)
    assert payloads.shape == (24, 46)
    assert np.array_equal(payloads[10:20], payloads[:10])
    assert len(np.unique(payloads, axis=0)) == 10


@pytest.mark.parametrize(("seconds", "has"), [(4, "4"), (4.99, "4.9"), (0.5, "0.5")])
def test_audio_that_is_too_short_is_told_how_long_it_must_be(seconds: float, has: str) -> None:
    with pytest.raises(MessageError) as caught:
        payloads_for(plan_of(Message("track-0042"), 46), seconds)
    assert str(caught.value) == f"this message needs at least 5 seconds; the audio has {has}"


@pytest.mark.slow
@given(st.floats(0, 400), st.sampled_from([10, 22, 46, 128]))
@settings(deadline=None, max_examples=50)
def test_capacity_is_what_fits(seconds: float, size: int) -> None:
    most = capacity(seconds, size)
    if seconds < 1:
        assert most == 0
        return
    if most:
        assert len(payloads_for(plan_of(Message(b"\xff" * most), size), seconds)) == ceil(seconds)
    with pytest.raises(MessageError):
        payloads_for(plan_of(Message(b"\xff" * (most + 1)), size), seconds)


def test_capacity_in_numbers() -> None:
    assert [capacity(seconds, 46) for seconds in (0.9, 1, 3, 4, 10, 60, 256, 3600)] == [0, 4, 4, 7, 25, 175, 763, 763]
    assert [capacity(seconds, 22) for seconds in (1, 6, 7, 10, 32, 3600)] == [1, 1, 2, 5, 27, 27]
    assert [capacity(seconds, 10) for seconds in (1, 3600)] == [0, 0]


@pytest.mark.parametrize(
    ("content", "size", "says"),
    [
        ("x" * 764, 46, "764 bytes long, and this model holds at most 763, in 256 seconds"),
        ((0, 1) * 4000, 46, "1000 bytes long"),
        ("x" * 28, 22, "at most 27, in 32 seconds"),
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


def test_a_body_that_says_the_same_in_another_way_is_refused() -> None:
    for said in (
        bytes([0x42]) + b"12345" + b"x",  # padding that is not zeros
        bytes([0x00]) + b"\xff" * 10,  # no text
        bytes([0x7F]) + b"1234567890",  # more padding than there is room
        bytes([0xFF]) + b"1234567890",
        bytes([0x46]) + b"1234" + bytes(6),  # fits into one payload
    ):
        padded = said.ljust(-(-(len(said) + 4) // 3) * 3 - 4, b"\0")
        assert parse_body(padded + body_check(padded), 46) is None
