"""What seconds carry: enciphered words and their checks, which nobody makes without the key."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ideaw.keys import PUBLIC, Key
from ideaw.modem.keyed import decipher, encipher, keyed_signs
from ideaw.modem.long_frames import CHECK_ZEROS, LENGTH_SLOTS, SEQUENCE_PHASES, LongFrames
from ideaw.modem.ring_code import RingCode
from ideaw.modem.short_frames import ZERO_BITS, CodebookFrames, RingFrames, short_frames

KEY = Key(bytes(range(16)))


@given(st.lists(st.integers(0, 1), min_size=2, max_size=90), st.sampled_from([PUBLIC, KEY]))
def test_what_is_enciphered_is_deciphered(bits: list[int], key: Key) -> None:
    word = encipher(np.array(bits, np.uint8), key)
    assert set(word) <= {0, 1}
    assert decipher(word, key).tolist() == bits


def test_the_cipher_permutes_all_words() -> None:
    for bits in (6, 7):
        words = np.arange(1 << bits)[:, None] >> np.arange(bits) & 1
        enciphered = {tuple(encipher(word.astype(np.uint8), KEY)) for word in words}
        assert len(enciphered) == 1 << bits


@pytest.mark.parametrize("bits", [48, 216])
def test_a_bit_more_or_less_changes_half_of_the_word(bits: int) -> None:
    rng = np.random.default_rng(0)
    for change in (lambda word: encipher(word, KEY), lambda word: decipher(word, KEY)):
        differ = []
        for _ in range(60):
            word = rng.integers(0, 2, bits).astype(np.uint8)
            other = word.copy()
            other[rng.integers(bits)] ^= 1
            differ.append((change(word) != change(other)).mean())
        assert np.mean(differ) == pytest.approx(0.5, abs=0.04)
        assert min(differ) > 0.2


def test_signs_of_another_key_purpose_or_word_have_nothing_in_common() -> None:
    signs = keyed_signs(KEY, b"one", (4_000,), b"data")
    for other in (
        keyed_signs(PUBLIC, b"one", (4_000,), b"data"),
        keyed_signs(KEY, b"two", (4_000,), b"data"),
        keyed_signs(KEY, b"one", (4_000,), b"date"),
    ):
        assert abs(signs @ other) < 5 * np.sqrt(4_000)


@pytest.mark.parametrize(
    ("bits", "slots", "kind"), [(35, 552, RingFrames), (13, 528, CodebookFrames), (7, 540, CodebookFrames)]
)
def test_a_word_comes_back_and_no_other_key_reads_it(bits: int, slots: int, kind: type) -> None:
    rng, frames = np.random.default_rng(1), short_frames(KEY, bits, slots)
    assert isinstance(frames, kind)
    for _ in range(5):
        word = rng.integers(0, 2, bits).astype(np.uint8)
        sent = frames.symbols(word)
        read, _ = frames.decode(sent + 0.8 * rng.normal(size=slots))
        assert np.array_equal(read[0].bits, word)
        assert np.array_equal(read[0].symbols, sent)
        others, _ = short_frames(PUBLIC, bits, slots).decode(sent)
        assert all(other.check_bits < 12 for other in others)


@pytest.mark.slow
def test_the_sum_of_known_words_is_no_word() -> None:
    # The code is linear, so products of three patterns are the pattern of a word, but of none that passes its check.
    rng, frames = np.random.default_rng(2), RingFrames(KEY, 35, 552)
    known = np.stack([frames.symbols(rng.integers(0, 2, 35).astype(np.uint8)) for _ in range(24)])
    passed = 0
    for _ in range(300):
        one, two, three = known[rng.choice(24, 3, replace=False)]
        read, margins = frames.decode(one * two * three)
        content = frames.slots - frames.tag_slots
        sent = frames.code.encode(margins > 0)[frames.code.places(np.arange(content))]
        assert np.array_equal(sent, (one * two * three)[:content])
        passed += len(read)
    assert passed <= 1  # 2 words of each of 300, of which one in 2^13 passes, and half of these by their tag


def test_a_changed_word_of_a_long_message_does_not_open() -> None:
    rng, frames = np.random.default_rng(3), LongFrames(KEY, 552)
    bits = rng.integers(0, 2, 165).astype(np.uint8)
    word = encipher(np.append(bits, np.zeros(CHECK_ZEROS, np.uint8)), KEY)
    assert np.array_equal(frames.open(word), bits)
    assert LongFrames(PUBLIC, 552).open(word) is None
    for place in range(len(word)):
        word[place] ^= 1
        assert frames.open(word) is None
        word[place] ^= 1


def test_seconds_of_a_long_message_share_nothing_but_its_length() -> None:
    frames = LongFrames(KEY, 552)
    one, two = (np.random.default_rng(seed).integers(0, 2, 165).astype(np.uint8) for seed in (4, 5))
    symbols, other = frames.symbols(one), frames.symbols(two)
    assert symbols.shape == (SEQUENCE_PHASES, 552)
    assert set(np.unique(symbols)) == {-1, 1}
    assert np.array_equal(symbols[:, :LENGTH_SLOTS], other[:, :LENGTH_SLOTS])
    apart = symbols @ symbols.T - np.eye(SEQUENCE_PHASES) * frames.slots
    assert np.abs(apart).max() < 6 * np.sqrt(frames.slots)
    assert np.abs((symbols * other)[:, LENGTH_SLOTS:].sum(1)).max() < 6 * np.sqrt(frames.content_slots)
    assert frames.content_slots == 504
    assert frames.code(20).bits == 165 + CHECK_ZEROS == RingCode(216).bits
    assert ZERO_BITS == 13
