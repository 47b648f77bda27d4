"""Messages as the bits of one second: what goes in comes back with its type and length, and damage is seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ideaw.errors import MessageError
from ideaw.payload.message import KIND_BITS, LONG_KIND, Content, Message, layout, short_word_bits

SIZES = st.sampled_from([10, 22, 46])
"""Message bits of the models that are shipped."""

LETTERS = "aZ09 \0\n\x7fäß€\uffff😀"
"""Characters of one to four bytes of UTF-8, its ends included."""


@st.composite
def fitting(draw: st.DrawFn) -> tuple[Message, int]:
    """A message that fits into a model of so many bits."""
    size = draw(SIZES)
    room = layout(size)
    kinds = [st.lists(st.integers(0, 1), min_size=1, max_size=room.content_bits).map(tuple)]
    if room.content_bytes:
        kinds.append(st.binary(min_size=1, max_size=room.content_bytes))
        kinds.append(
            st.text(LETTERS, min_size=1, max_size=room.content_bytes).filter(
                lambda text: len(text.encode()) <= room.content_bytes
            )
        )
    return Message(draw(st.one_of(kinds))), size


@pytest.mark.slow
@given(fitting())
def test_a_message_comes_back_as_it_was(given: tuple[Message, int]) -> None:
    message, size = given
    payload = message.encode(size)
    assert payload.shape == (short_word_bits(size),)
    assert set(np.unique(payload)) <= {0, 1}
    assert Message.decode(payload) == message
    assert Message.decode(payload > 0) == message


def test_other_bits_for_the_same_message_are_refused() -> None:
    for bits in (
        "000" + "01100001" * 3 + "11111110",  # text that is filled up with something else
        "001" + "01100001" * 4,  # a byte, and more
        "000" + "11111111" * 4,  # no text
        "101" + "0" * 32,  # bits without their end
        "111" + "0" * 32,  # no kind
    ):
        assert Message.decode(np.array([int(digit) for digit in bits])) is None


@given(SIZES)
def test_ones_are_no_message(size: int) -> None:
    assert Message.decode(np.ones(short_word_bits(size), np.uint8)) is None


def test_a_message_of_one_payload_is_not_taken_for_a_part_of_a_long_one() -> None:
    payloads = (Message((0, 1) * 16).encode(46), Message("abcd").encode(46))
    for payload in payloads:
        assert int(payload[:KIND_BITS] @ (4, 2, 1)) != LONG_KIND


@pytest.mark.parametrize(
    ("content", "size", "payload"),
    [
        ("abcd", 46, "00001100001011000100110001101100100"),
        ("hey", 46, "00001101000011001010111100111111111"),
        (b"\x00\xff", 46, "01000000000111111111111111111111111"),
        ((0, 1, 1, 0), 46, "10101101000000000000000000000000000"),
        ((0, 1) * 16, 46, "11001010101010101010101010101010101"),
        ("a", 22, "0000110000111"),
        ((1, 0, 1), 22, "1011011000000"),
        ((1, 0, 1, 1), 10, "1101011"),
        ((0, 1), 10, "1010110"),
    ],
)
def test_the_bits_of_messages_never_change(content: Content, size: int, payload: str) -> None:
    # Marks in the world are read by them.
    assert "".join(map(str, Message(content).encode(size))) == payload
    assert Message.decode(np.array([int(digit) for digit in payload])) == Message(content)


@given(fitting())
def test_what_can_be_encoded_fits(given: tuple[Message, int]) -> None:
    message, size = given
    assert message.fits(size)
    assert not Message(bytes(5)).fits(46)
    assert not Message((0,) * (layout(size).content_bits + 1)).fits(size)


def test_users_give_text_bytes_or_bits() -> None:
    assert Message.of("0101").content == "0101"
    assert Message.of(b"\x00\xff").content == b"\x00\xff"
    assert Message.of(bytearray(b"ab")).content == b"ab"
    expected = (0, 1, 1, 0)
    for bits in ([0, 1, 1, 0], (False, True, True, False), np.array([0, 1, 1, 0]), np.array([0.0, 1.0, 1.0, 0.0])):
        assert Message.of(bits).content == expected
    assert Message.of_digits("0110").content == expected


def test_types_are_told_apart() -> None:
    assert len({bytes(Message(content).encode(46)) for content in ("a", b"a", (0, 1, 1, 0, 0, 0, 0, 1))}) == 3


@pytest.mark.parametrize("nonsense", [7, None, 1.5, [0, 2], ["0", "1"], [[0, 1]], np.zeros((2, 3)), object()])
def test_what_is_no_message_gets_one_line(nonsense: object) -> None:
    with pytest.raises(MessageError) as caught:
        Message.of(nonsense)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("message", "size", "says"),
    [
        ("track-0042", 46, "10 bytes long, which is too long: this model holds 4 bytes, or 32 bits"),
        ("größe", 46, "7 bytes"),
        (b"12345", 46, "holds 4 bytes"),
        ((0,) * 33, 46, "33 bits are too many: this model holds 32 bits"),
        ("ab", 22, "this model holds 1 byte, or 10 bits"),
        ("a", 10, "this model holds 4 bits and no text"),
        ("", 46, "empty"),
        (b"", 46, "empty"),
        ((), 46, "empty"),
        ("\ud800", 46, "half of a character"),
        ("a", 6, "too small"),
    ],
)
def test_what_does_not_fit_is_told_how_much_would(message: str | bytes | tuple[int, ...], size: int, says: str) -> None:
    with pytest.raises(MessageError, match=says) as caught:
        Message(message).encode(size)
    assert "\n" not in str(caught.value)
