"""Block codes: they are fixed and linear, correct what their distance promises, and gain from soft values."""

import hashlib
from math import erfc, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ideaw.payload.correction import BlockCode, block_code

USED = [(46, 98), (22, 98), (10, 98), (10, 32), (56, 120)]
"""(bits, slots) of the models."""

OTHERS = [(1, 1), (1, 98), (3, 5), (12, 40), (13, 14), (16, 32), (46, 97), (64, 128), (127, 128), (98, 98)]

SIZES = st.integers(1, 128).flatmap(lambda slots: st.tuples(st.integers(1, slots), st.just(slots)))


def random_bits(code: BlockCode, blocks: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 2, (blocks, len(code.generator)))


def noisy(words: NDArray[np.uint8], variance: float, seed: int = 1) -> NDArray[np.float64]:
    """Log-odds of ±1 in white noise."""
    noise = np.random.default_rng(seed).normal(0, sqrt(variance), words.shape)
    return 2 * (2.0 * words - 1 + noise) / variance


def variance_at(decibels: float, code: BlockCode) -> float:
    """Of the noise in a slot, at an Eb/N0."""
    bits, slots = code.generator.shape
    return float(slots / bits / 2 / 10 ** (decibels / 10))


def weights(generator: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(slots + 1,): how many words there are of each weight, counted by correlating the sums of two halves."""
    bits, slots = generator.shape
    halves = []
    for rows in (generator[: bits // 2], generator[bits // 2 :]):
        sums = np.zeros((1, slots), np.uint8)
        for row in rows:
            sums = np.concatenate([sums, sums ^ row])
        halves.append(1 - 2 * sums.astype(np.float32))
    return np.bincount(((slots - halves[0] @ halves[1].T) / 2).astype(np.int64).ravel(), minlength=slots + 1)


@pytest.mark.parametrize(
    ("size", "digest"),
    [
        ((46, 98), "f87bec2ede35a7e1"),
        ((22, 98), "f2a2de2d20f39b2c"),
        ((10, 98), "7d40f6e194039235"),
        ((10, 32), "6e31f09e0f3732b4"),
        ((16, 32), "5aba7d5e96d61fb8"),
        ((64, 128), "dd259c88ee589b84"),
    ],
)
def test_the_codes_never_change(size: tuple[int, int], digest: str) -> None:
    # Marks in the world are read by them.
    assert hashlib.sha256(np.packbits(block_code(*size).generator).tobytes()).hexdigest()[:16] == digest


@given(SIZES)
@settings(deadline=None, max_examples=30)
def test_every_size_comes_back(size: tuple[int, int]) -> None:
    code = block_code(*size)
    bits = random_bits(code, 3)
    words = code.encode(bits)
    assert words.shape == (3, size[1])
    assert np.array_equal(words[:, : size[0]], bits)
    assert np.array_equal(code.decode(2.0 * words - 1) > 0, bits)


@pytest.mark.parametrize("size", USED + OTHERS)
def test_codes_are_linear(size: tuple[int, int]) -> None:
    code = block_code(*size)
    one, two = random_bits(code, 20), random_bits(code, 20, 1)
    assert not code.encode(np.zeros(size[0], int)).any()
    assert np.array_equal(code.encode(one ^ two), code.encode(one) ^ code.encode(two))
    assert np.array_equal(code.encode(one.astype(bool)), code.encode(one))


@pytest.mark.parametrize("size", [(22, 98), (10, 98), (10, 32)])
def test_no_two_words_are_closer_than_the_distance(size: tuple[int, int]) -> None:
    code = block_code(*size)
    counts = weights(code.generator)
    assert counts.sum() == 1 << size[0]
    assert counts[0] == 1
    assert np.flatnonzero(counts)[1] == code.distance


@pytest.mark.parametrize("size", [(46, 98), (56, 120)])
def test_the_residue_codes_are_doubly_even(size: tuple[int, int]) -> None:
    # All their words are too many to count here: sums of up to three rows stand for them.
    slots = size[1]
    rows = block_code(*size).generator.astype(np.int64)
    assert not (rows @ rows.T % 2).any()
    assert not (rows.sum(-1) % 4).any()
    signs = 1 - 2 * rows
    pairs = (signs[:, None] * signs).reshape(-1, slots)
    assert set(np.unique((slots - pairs @ signs.T) // 2)) <= {*range(20, slots, 4)}


@pytest.mark.parametrize("size", USED)
def test_wrong_slots_are_corrected_up_to_half_the_distance(size: tuple[int, int]) -> None:
    code = block_code(*size)
    bits = random_bits(code, 100)
    words = code.encode(bits)
    most = (code.distance - 1) // 2
    generator = np.random.default_rng(2)
    for row in words:
        row[generator.permutation(size[1])[:most]] ^= 1
    assert np.array_equal(code.decode(2.0 * words - 1) > 0, bits)


@pytest.mark.parametrize("size", USED)
def test_erased_slots_are_filled_in_below_the_distance(size: tuple[int, int]) -> None:
    code = block_code(*size)
    bits = random_bits(code, 50)
    logits = 2.0 * code.encode(bits) - 1
    for start, row in enumerate(logits):
        row[np.arange(start, start + code.distance - 1) % size[1]] = 0
    assert np.array_equal(code.decode(logits) > 0, bits)


@pytest.mark.parametrize(
    ("size", "decibels", "most"),
    [((56, 120), 3, 0.01), ((46, 98), 3, 0.01), ((22, 98), 3, 0.01), ((10, 98), 3, 0.03), ((10, 32), 3, 0.05)],
)
def test_soft_values_beat_hard_ones_and_no_code(size: tuple[int, int], decibels: float, most: float) -> None:
    # Uncoded, at the same energy per bit, 20 to 65 of 100 messages are wrong.
    code = block_code(*size)
    bits = random_bits(code, 400)
    logits = noisy(code.encode(bits), variance_at(decibels, code))
    soft = ((code.decode(logits) > 0) != bits).any(-1).mean()
    hard = ((code.decode(np.sign(logits)) > 0) != bits).any(-1).mean()
    uncoded = 1 - (1 - erfc(sqrt(10 ** (decibels / 10))) / 2) ** size[0]
    assert soft <= most
    assert soft < hard / 2
    assert soft < uncoded / 5


def test_the_search_finds_what_listing_finds() -> None:
    code = block_code(12, 40)
    bits = random_bits(code, 300)
    shares = noisy(code.encode(bits), variance_at(1, code)).astype(np.float32)
    shares /= np.abs(shares).max(-1, keepdims=True)
    listed, searched = code._listed(shares), code._searched(shares)
    same = (listed > 0) == (searched > 0)
    assert same.mean() > 0.995
    # Rivals that the search did not meet make it surer than it should be, never less.
    assert (np.abs(searched[same]) > np.abs(listed[same]) - 1e-3).all()
    assert np.median(np.abs(searched[same]) / np.abs(listed[same])) < 1.01


@pytest.mark.parametrize("size", [(46, 98), (10, 32)])
def test_magnitudes_tell_how_sure_a_bit_is(size: tuple[int, int]) -> None:
    code = block_code(*size)
    bits = random_bits(code, 400)
    decoded = code.decode(noisy(code.encode(bits), variance_at(0, code)))
    wrong = (decoded > 0) != bits
    assert wrong.any()
    assert np.abs(decoded[wrong]).mean() < np.abs(decoded[~wrong]).mean() / 2


def test_without_a_code_values_stay_as_they_are() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 98)).astype(np.float32)
    assert np.array_equal(block_code(98, 98).decode(logits), logits)


def test_no_bits_need_no_slots() -> None:
    code = block_code(0, 0)
    assert code.encode(np.zeros((3, 0), int)).shape == code.decode(np.zeros((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("size", [(46, 98), (10, 32), (98, 98)])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,), (2, 1, 2)])
def test_batches_have_any_shape(size: tuple[int, int], shape: tuple[int, ...]) -> None:
    code = block_code(*size)
    logits = np.random.default_rng(0).normal(size=(*shape, size[1]))
    decoded = code.decode(logits)
    assert decoded.shape == (*shape, size[0])
    assert decoded.dtype == np.float32
    assert code.encode(decoded > 0).shape == logits.shape
    alone = [code.decode(row) for row in logits.reshape(-1, size[1])]
    np.testing.assert_allclose(decoded.reshape(-1, size[0]), np.reshape(alone, (-1, size[0])), rtol=1e-3)


@pytest.mark.parametrize("size", USED + OTHERS)
def test_finite_values_stay_finite(size: tuple[int, int]) -> None:
    code = block_code(*size)
    signs = 2.0 * code.encode(random_bits(code, 1)) - 1
    assert np.abs(code.decode(np.zeros((1, size[1])))).max() <= 1e-3
    for scale in (1e-300, 1e-30, 1.0, 1e30, 1e300):
        assert np.isfinite(code.decode(scale * signs)).all()
        assert np.isfinite(code.decode(scale * np.random.default_rng(0).normal(size=(3, size[1])))).all()


@pytest.mark.parametrize("size", [(46, 98), (10, 32)])
def test_decisions_do_not_depend_on_the_scale(size: tuple[int, int]) -> None:
    code = block_code(*size)
    logits = noisy(code.encode(random_bits(code, 20)), variance_at(2, code))
    np.testing.assert_allclose(code.decode(1e6 * logits), 1e6 * code.decode(logits), rtol=1e-2)


def test_undecided_bits_still_make_up_a_word_that_fits() -> None:
    # Where evidence ends in a tie, one of the words that fit is right now and then; a mixture of them never is.
    code = block_code(46, 98)
    words = code.encode(random_bits(code, 20))
    logits = 2.0 * words - 1
    logits[:, :58] = 0
    decoded = code.decode(logits)
    assert np.abs(decoded).min() > 0
    assert np.array_equal(code.encode(decoded > 0)[:, 58:], words[:, 58:])
