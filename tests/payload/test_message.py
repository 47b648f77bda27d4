"""Messages as the bits of one second: what goes in comes back with its type and length, and damage is seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ideaw.errors import MessageError
from ideaw.keys import PUBLIC, Key
from ideaw.payload.message import KIND_BITS, LONG_KIND, Content, Message, layout

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
    assert payload.shape == (size,)
    assert set(np.unique(payload)) <= {0, 1}
    assert Message.decode(payload) == message
    assert Message.decode(payload > 0) == message


@pytest.mark.slow
@given(fitting(), st.data())
def test_a_flipped_bit_is_detected(given: tuple[Message, int], data: st.DataObject) -> None:
    message, size = given
    payload = message.encode(size)
    payload[data.draw(st.integers(0, size - 1))] ^= 1
    assert Message.decode(payload) is None


def test_a_burst_as_long_as_the_check_is_detected() -> None:
    payload = Message("ab").encode(46)
    for start in range(46 - 10):
        for pattern in range(1, 1 << 11, 7):
            damaged = payload.copy()
            burst = [pattern >> place & 1 for place in range(11)][: 46 - start]
            damaged[start : start + len(burst)] ^= np.array(burst, np.uint8)
            assert Message.decode(damaged) is None


@pytest.mark.slow
def test_random_bits_pass_as_rarely_as_the_check_is_long() -> None:
    rng = np.random.default_rng(1)
    passed = sum(Message.decode(payload) is not None for payload in rng.integers(0, 2, (20_000, 46)))
    assert passed < 25  # 20,000 / 2^11 ≈ 10 pass the check; some of them are no message


@given(SIZES)
def test_constant_payloads_are_no_message(size: int) -> None:
    assert Message.decode(np.zeros(size, np.uint8)) is None
    assert Message.decode(np.ones(size, np.uint8)) is None


def test_a_message_of_one_payload_is_not_taken_for_a_part_of_a_long_one() -> None:
    payloads = (Message((0, 1) * 16).encode(46), Message("abcd").encode(46))
    for payload in payloads:
        assert int(payload[:KIND_BITS] @ (4, 2, 1)) != LONG_KIND


@pytest.mark.parametrize(
    ("content", "payload"),
    [
        ("abcd", "0000110000101100010011000110110010010001101000"),
        ("hey", "0000110100001100101011110011111111111111010100"),
        (b"\x00\xff", "0100000000011111111111111111111111101010101011"),
        ((0, 1, 1, 0), "1010110100000000000000000000000000011101100100"),
        ((0, 1) * 16, "1100101010101010101010101010101010111011111110"),
        ("a", "0000110000111001001100"),
        ((1, 0, 1), "1011011000000010001111"),
        ((1, 0, 1, 1), "1101011001"),
        ((0, 1), "1010110011"),
    ],
)
def test_public_payloads_never_change(content: Content, payload: str) -> None:
    # Marks in the world are read by them.
    assert "".join(map(str, Message(content).encode(len(payload)))) == payload
    assert Message.decode(np.array([int(digit) for digit in payload])) == Message(content)


@given(fitting(), st.binary(min_size=16, max_size=64))
def test_under_a_key_only_the_check_differs(given: tuple[Message, int], secret: bytes) -> None:
    message, size = given
    key = Key(secret)
    payload = message.encode(size, key)
    assert Message.decode(payload, key) == message
    says = size - layout(size).check_bits
    assert np.array_equal(payload[:says], message.encode(size, PUBLIC)[:says])


def test_another_key_finds_no_message() -> None:
    payloads = [Message(bytes([number])).encode(46, Key.fresh()) for number in range(256)]
    for reader in (PUBLIC, Key.fresh()):
        assert sum(Message.decode(payload, reader) is not None for payload in payloads) < 5  # 256 / 2^11 ≈ 0.1


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
