"""Messages and their words: short ones are carried themselves, all others as a tag."""

import numpy as np
import pytest

from ideaw.deep.signs import NUM_TILES, SYMBOLS_PER_BLOCK, KeyPattern, keyed_stream
from ideaw.deep.words import KINDS_OF_BYTES, MIN_SECONDS_OF_BYTES, Word, reed_muller
from ideaw.payload.message import LONG_KIND, Content, Message

KEY = bytes(range(16))

CARRIED: list[tuple[Content, int]] = [
    ("a", 2),
    ("ab", 2),
    ("é", 2),
    ("abc", 3),
    ("abcd", 4),
    (b"\x00", 2),
    (b"\xff\xff", 2),
    (b"abc", 3),
    (b"\x00\x00\x00\x00", 4),
    ((1,), 2),
    ((0,) * 16, 2),
    ((1, 0) * 8 + (1,), 3),
    ((1,) * 24, 3),
    ((0,) * 25, 4),
    ((0, 1) * 16, 4),
]


@pytest.mark.parametrize(("content", "num_bytes"), CARRIED)
def test_a_short_message_is_its_word(content: Content, num_bytes: int) -> None:
    word = Word.of(Message(content), KEY)
    assert len(word.data) == num_bytes
    assert word.kind in KINDS_OF_BYTES[num_bytes]
    assert word.message == Message(content)


@pytest.mark.parametrize("content", ["abcde", b"12345", (1,) * 33, "a text of any length " * 100])
def test_a_long_message_has_a_tag_that_no_message_is_read_from(content: Content) -> None:
    word = Word.of(Message(content), KEY)
    assert (word.kind, len(word.data)) == (LONG_KIND, 2)
    assert word.message is None
    assert word != Word.of(Message(content), bytes(16))


def test_text_and_bytes_and_bits_of_the_same_octets_have_different_words_and_tags() -> None:
    contents: list[Content] = ["abcde", b"abcde", tuple(map(int, np.unpackbits(np.frombuffer(b"abcde", np.uint8))))]
    assert len({Word.of(Message(content), KEY).data for content in contents}) == 3


def test_short_audio_gets_the_tag_of_what_needs_longer_audio() -> None:
    message = Message("abcd")
    assert Word.of(message, KEY, MIN_SECONDS_OF_BYTES[4]).message == message
    assert Word.of(message, KEY, MIN_SECONDS_OF_BYTES[4] - 0.1) == Word.tag(message, KEY)
    assert Word.of(Message("ab"), KEY, 1.0).message == Message("ab")


def test_a_word_that_no_message_has_is_no_message() -> None:
    assert Word(0, b"\xc3\x28").message is None  # no UTF-8
    assert Word(5, b"\x00\x00").message is None  # bits without the one that ends them
    assert Word(0, b"ab\xff").message is None  # a text that fits into two bytes is never written in three


def test_words_of_a_byte_are_orthogonal_or_opposite() -> None:
    products = reed_muller() @ reed_muller().T
    assert set(np.unique(products)) == {-SYMBOLS_PER_BLOCK, 0.0, SYMBOLS_PER_BLOCK}


def test_patterns_are_of_their_key_and_balanced() -> None:
    one, other = KeyPattern(KEY), KeyPattern(bytes(16))
    assert sorted(one.order) == list(range(NUM_TILES))
    assert abs(one.signs.mean()) < 4 / np.sqrt(NUM_TILES)
    assert abs((one.signs * other.signs).mean()) < 4 / np.sqrt(NUM_TILES)
    assert not np.array_equal(one.order, other.order)


def test_a_keyed_stream_goes_on_as_it_began() -> None:
    assert keyed_stream(KEY, b"deep signs", 100)[:40] == keyed_stream(KEY, b"deep signs", 40)
    assert keyed_stream(KEY, b"deep signs", 40) != keyed_stream(KEY, b"deep places", 40)


def test_what_is_modulated_is_demodulated_at_its_place() -> None:
    pattern, word = KeyPattern(KEY), Word.of(Message("ab"), KEY)
    symbols = word.symbols(pattern)
    tiles = np.roll(pattern.modulate(symbols), 17, 0)
    agreement = pattern.demodulate(tiles) @ np.resize(symbols, NUM_TILES)
    assert agreement.argmax() == 17
    assert agreement.max() == NUM_TILES
