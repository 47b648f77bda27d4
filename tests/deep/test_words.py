"""Messages and their words: short ones are carried themselves, all others as a tag."""

import numpy as np
import pytest

from ideaw.deep.decode import decode
from ideaw.deep.signs import NUM_CHECK_TILES, NUM_TILES, SYMBOLS_PER_BLOCK, TILE_CELLS, KeyPattern
from ideaw.deep.words import KINDS_OF_BYTES, MIN_SECONDS_OF_BYTES, Word, reed_muller
from ideaw.modem.keyed import encipher
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
    assert word.message(KEY) == Message(content)


@pytest.mark.parametrize("content", ["abcde", b"12345", (1,) * 33, "a text of any length " * 100])
def test_a_long_message_has_a_tag_that_no_message_is_read_from(content: Content) -> None:
    word = Word.of(Message(content), KEY)
    assert (word.kind, len(word.data)) == (LONG_KIND, 2)
    assert word.message(KEY) is None
    assert word != Word.of(Message(content), bytes(16))


def test_text_and_bytes_and_bits_of_the_same_octets_have_different_words_and_tags() -> None:
    contents: list[Content] = ["abcde", b"abcde", tuple(map(int, np.unpackbits(np.frombuffer(b"abcde", np.uint8))))]
    assert len({Word.of(Message(content), KEY).data for content in contents}) == 3


def test_short_audio_gets_the_tag_of_what_needs_longer_audio() -> None:
    message = Message("abcd")
    assert Word.of(message, KEY, MIN_SECONDS_OF_BYTES[4]).message(KEY) == message
    assert Word.of(message, KEY, MIN_SECONDS_OF_BYTES[4] - 0.1) == Word.tag(message, KEY)
    assert Word.of(Message("ab"), KEY, 1.0).message(KEY) == Message("ab")


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (0, b"\xc3\x28"),  # no UTF-8
        (5, b"\x00\x00"),  # bits without the one that ends them
        (0, b"ab\xff"),  # a text that fits into two bytes is never written in three
    ],
)
def test_a_word_that_no_message_has_is_no_message(kind: int, content: bytes) -> None:
    bits = encipher(np.unpackbits(np.frombuffer(content, np.uint8)), KEY)
    assert Word(kind, np.packbits(bits).tobytes()).message(KEY) is None


def test_three_known_patterns_make_no_message_that_passes_for_a_fourth() -> None:
    pattern, rng = KeyPattern(KEY), np.random.default_rng(3)
    proofs: dict[str, list[float]] = {"made": [], "combined": []}
    for _ in range(12):
        words = [Word.of(Message(rng.bytes(2)), KEY) for _ in range(3)]
        combined = np.prod([word.symbols(pattern) for word in words], 0)
        data = bytes(one ^ two ^ three for one, two, three in zip(*(word.data for word in words), strict=True))
        for name, symbols in (("made", words[0].symbols(pattern)), ("combined", combined)):
            folded = np.repeat(pattern.modulate(symbols), TILE_CELLS, 0)
            found, _ = decode(folded + rng.standard_normal(folded.shape).astype(np.float32), pattern)
            assert found.word == (words[0] if name == "made" else Word(words[0].kind, data))
            proofs[name].append(-found.log_check_p / np.log(2))
        content = [np.frombuffer(word.message(KEY).data, np.uint8) for word in words]  # type: ignore[union-attr]
        assert Word(2, data).message(KEY) != Message(bytes(np.bitwise_xor.reduce(content)))
    assert min(proofs["made"]) > 30
    assert max(proofs["combined"]) < 12


def test_what_checks_a_word_is_of_all_of_it_and_of_its_key() -> None:
    signs = [Word(kind, data).check(key) for kind, data, key in
             ((0, b"ab", KEY), (0, b"ac", KEY), (1, b"ab", KEY), (0, b"ab", bytes(16)))]  # fmt: skip
    for number, one in enumerate(signs):
        for other in signs[:number]:
            assert abs(one @ other) < 5 * np.sqrt(NUM_CHECK_TILES)


def test_words_of_a_byte_are_orthogonal_or_opposite() -> None:
    products = reed_muller() @ reed_muller().T
    assert set(np.unique(products)) == {-SYMBOLS_PER_BLOCK, 0.0, SYMBOLS_PER_BLOCK}


def test_patterns_are_of_their_key_and_balanced() -> None:
    one, other = KeyPattern(KEY), KeyPattern(bytes(16))
    assert sorted(one.order) == list(range(NUM_TILES))
    assert abs(one.signs.mean()) < 4 / np.sqrt(NUM_TILES)
    assert abs((one.signs * other.signs).mean()) < 4 / np.sqrt(NUM_TILES)
    assert not np.array_equal(one.order, other.order)


def test_what_is_modulated_is_demodulated_at_its_place() -> None:
    pattern, word = KeyPattern(KEY), Word.of(Message("ab"), KEY)
    symbols = word.symbols(pattern)
    tiles = np.roll(pattern.modulate(symbols), 17, 0)
    agreement = pattern.demodulate(tiles) @ symbols
    assert agreement.argmax() == 17
    assert agreement.max() == NUM_TILES
