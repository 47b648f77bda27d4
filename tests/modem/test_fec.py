"""Error-correcting codes: they are fixed and linear, correct what they promise, and gain from soft values."""

import hashlib
from math import erfc, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ideaw.modem.fec import FecCode, all_words, fec_code, fec_exists, usual_slots
from ideaw.modem.soft_decision import MEMORY_BITS

USED = [(46, 552), (22, 528), (10, 540), (56, 448)]
"""(bits, slots) of the models."""

OTHERS = [(1, 1), (1, 98), (3, 5), (12, 40), (13, 26), (16, 32), (64, 128), (127, 508), (98, 98)]

SIZES = st.one_of(
    st.integers(1, 12).flatmap(lambda bits: st.tuples(st.just(bits), st.integers(bits, 128))),
    st.integers(13, 80).flatmap(
        lambda bits: st.tuples(st.just(bits), st.integers(1, 24).map(lambda rate: rate * bits))
    ),
)


def random_bits(code: FecCode, blocks: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 2, (blocks, len(code.generator)))


def noisy(words: NDArray[np.uint8], variance: float, seed: int = 1) -> NDArray[np.float64]:
    """Log-odds of ±1 in white noise."""
    noise = np.random.default_rng(seed).normal(0, sqrt(variance), words.shape)
    return 2 * (2.0 * words - 1 + noise) / variance


def odds_of_all(
    logits: NDArray[np.float64], messages: NDArray[np.integer], words: NDArray[np.integer]
) -> NDArray[np.float64]:
    """(…, slots) → (…, bits): each message weighed by the probability of its word."""
    sums = logits @ (2.0 * words - 1).T / 2
    weights = np.exp(sums - sums.max(-1, keepdims=True))
    return np.log(weights @ messages) - np.log(weights @ (1 - messages))


def variance_at(decibels: float, code: FecCode) -> float:
    """Of the noise in a slot, at an Eb/N0."""
    bits, slots = code.generator.shape
    return float(slots / bits / 2 / 10 ** (decibels / 10))


@pytest.mark.parametrize(
    ("size", "digest"),
    [
        ((46, 552), "74f579f5976401f0"),
        ((22, 528), "5ae18206b24862f8"),
        ((10, 540), "8752e0aecbf7dae0"),
        ((56, 448), "59fe14c95a6e049a"),
        ((16, 32), "7b5c6b888a67178c"),
    ],
)
def test_the_codes_never_change(size: tuple[int, int], digest: str) -> None:
    # Marks in the world are read by them.
    assert hashlib.sha256(np.packbits(fec_code(*size).generator).tobytes()).hexdigest()[:16] == digest


def test_the_usual_codes_are_those_of_the_models() -> None:
    assert [(bits, usual_slots(bits)) for bits, _ in USED] == USED
    assert all(fec_exists(bits, usual_slots(bits)) for bits in range(200))


@pytest.mark.parametrize("size", [(0, 1), (1, 0), (10, 641), (13, 14), (46, 98), (46, 46 * 25), (22, 529), (46, 0)])
def test_other_sizes_do_not_exist(size: tuple[int, int]) -> None:
    assert not fec_exists(*size)


@given(SIZES)
@settings(deadline=None, max_examples=30)
def test_every_size_comes_back(size: tuple[int, int]) -> None:
    assert fec_exists(*size)
    code = fec_code(*size)
    bits = random_bits(code, 3)
    words = code.encode(bits)
    assert words.shape == (3, size[1])
    assert np.array_equal(code.decode_word(2.0 * words - 1) > 0, bits)


@pytest.mark.parametrize("size", USED + OTHERS)
def test_codes_are_linear(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    one, two = random_bits(code, 20), random_bits(code, 20, 1)
    assert not code.encode(np.zeros(size[0], int)).any()
    assert np.array_equal(code.encode(one ^ two), code.encode(one) ^ code.encode(two))
    assert np.array_equal(code.encode(one.astype(bool)), code.encode(one))


@pytest.mark.parametrize("size", [(46, 552), (22, 528)])
def test_a_convolutional_code_is_the_same_from_every_bit_on(size: tuple[int, int]) -> None:
    code, rate = fec_code(*size), size[1] // size[0]
    bits = random_bits(code, 5)
    assert np.array_equal(code.encode(np.roll(bits, 7, -1)), np.roll(code.encode(bits), 7 * rate, -1))


@pytest.mark.parametrize(("size", "least"), [((46, 552), 69), ((22, 528), 127), ((10, 540), 174)])
def test_words_of_few_ones_are_far_from_nothing(size: tuple[int, int], least: int) -> None:
    # Of a convolutional code the nearest words have all their ones in a row of few bits, here of up to 12.
    code = fec_code(*size)
    short = all_words(min(12, size[0]))[1:]
    bits = np.pad(short, ((0, 0), (0, size[0] - short.shape[1])))
    assert code.encode(bits).sum(-1).min() >= least


@pytest.mark.parametrize(("size", "wrong"), [((46, 552), 80), ((22, 528), 120), ((10, 100), 15), ((56, 448), 60)])
def test_wrong_slots_are_corrected(size: tuple[int, int], wrong: int) -> None:
    code = fec_code(*size)
    bits = random_bits(code, 50)
    words = code.encode(bits)
    generator = np.random.default_rng(2)
    for row in words:
        row[generator.permutation(size[1])[:wrong]] ^= 1
    assert np.array_equal(code.decode_word(2.0 * words - 1) > 0, bits)


@pytest.mark.parametrize("size", USED)
def test_erased_slots_are_filled_in(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    bits = random_bits(code, 50)
    logits = 2.0 * code.encode(bits) - 1
    logits[np.random.default_rng(3).random(logits.shape) < 0.6] = 0
    assert np.array_equal(code.decode_word(logits) > 0, bits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "decibels", "most"),
    [((56, 448), 2, 0.02), ((46, 552), 2, 0.02), ((22, 528), 2, 0.02), ((10, 100), 3, 0.03)],
)
def test_soft_values_beat_hard_ones_and_no_code(size: tuple[int, int], decibels: float, most: float) -> None:
    # Uncoded, at the same energy per bit, 20 to 90 of 100 messages are wrong.
    code = fec_code(*size)
    bits = random_bits(code, 400)
    logits = noisy(code.encode(bits), variance_at(decibels, code))
    soft = ((code.decode_word(logits) > 0) != bits).any(-1).mean()
    hard = ((code.decode_word(np.sign(logits)) > 0) != bits).any(-1).mean()
    uncoded = 1 - (1 - erfc(sqrt(10 ** (decibels / 10))) / 2) ** size[0]
    assert soft <= most
    assert soft < hard / 2
    assert soft < uncoded / 5


@pytest.mark.slow
def test_the_way_around_the_ring_is_the_likeliest_word() -> None:
    # Of 16 bits all words can still be listed.
    code = fec_code(16, 64)
    messages = all_words(16)
    words = 2 * code.encode(messages).astype(np.float32) - 1
    logits = noisy(code.encode(random_bits(code, 100)), variance_at(2, code)).astype(np.float32)
    fits = logits @ words.T
    decoded = code.decode_word(logits)
    same = ((decoded > 0) == messages[fits.argmax(-1)]).all(-1)
    assert same.mean() > 0.97
    for bit in range(16):
        halves = [fits[:, messages[:, bit] == value].max(-1) for value in (0, 1)]
        margin = np.abs(halves[1] - halves[0]) / 2
        # Rivals that go around a short ring as a whole are not met, which makes it surer than it should be.
        assert (np.abs(decoded[same, bit]) > margin[same] - 1e-2).mean() > 0.9


@pytest.mark.parametrize("size", USED)
def test_what_is_known_of_the_opening_helps_with_the_rest(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    known = min(MEMORY_BITS, size[0] - 1)
    bits = random_bits(code, 200)
    logits = noisy(code.encode(bits), variance_at(-1, code))
    unaided, aided = code.decode_word(logits), code.decode_word(logits, bits[:, :known])
    assert np.array_equal(aided[:, :known] > 0, bits[:, :known])
    wrong = [((found > 0) != bits)[:, known:].any(-1).mean() for found in (unaided, aided)]
    assert wrong[1] < 0.9 * wrong[0]
    assert np.isfinite(aided).all()


@pytest.mark.parametrize("size", [(46, 552), (10, 100)])
def test_magnitudes_tell_how_sure_a_bit_is(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    bits = random_bits(code, 400)
    decoded = code.decode_word(noisy(code.encode(bits), variance_at(0, code)))
    wrong = (decoded > 0) != bits
    assert wrong.any()
    assert np.abs(decoded[wrong]).mean() < np.abs(decoded[~wrong]).mean() / 2


def test_without_a_code_values_stay_as_they_are() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 98)).astype(np.float32)
    assert np.array_equal(fec_code(98, 98).decode_word(logits), logits)


def test_no_bits_need_no_slots() -> None:
    code = fec_code(0, 0)
    assert code.encode(np.zeros((3, 0), int)).shape == code.decode_word(np.zeros((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("size", [(46, 552), (10, 100), (98, 98)])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,), (2, 1, 2)])
def test_batches_have_any_shape(size: tuple[int, int], shape: tuple[int, ...]) -> None:
    code = fec_code(*size)
    logits = np.random.default_rng(0).normal(size=(*shape, size[1]))
    decoded = code.decode_word(logits)
    assert code.encode(decoded > 0).shape == logits.shape
    assert code.log_evidence(logits).shape == shape
    for read in (code.decode_word, code.bit_llrs):
        found = read(logits)
        assert found.shape == (*shape, size[0])
        assert found.dtype == np.float32
        alone = [read(row) for row in logits.reshape(-1, size[1])]
        np.testing.assert_allclose(found.reshape(-1, size[0]), np.reshape(alone, (-1, size[0])), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("size", USED + OTHERS)
def test_finite_values_stay_finite(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    signs = 2.0 * code.encode(random_bits(code, 1)) - 1
    for read in (code.decode_word, code.bit_llrs):
        assert np.abs(read(np.zeros((1, size[1])))).max() <= 1e-3
        for scale in (1e-300, 1e-30, 1.0, 1e30, 1e300):
            assert np.isfinite(read(scale * signs)).all()
            assert np.isfinite(read(scale * np.random.default_rng(0).normal(size=(3, size[1])))).all()


@pytest.mark.parametrize("size", [(46, 552), (10, 100)])
def test_decisions_do_not_depend_on_the_scale(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    logits = noisy(code.encode(random_bits(code, 20)), variance_at(2, code))
    np.testing.assert_allclose(code.decode_word(1e6 * logits), 1e6 * code.decode_word(logits), rtol=1e-2)


def test_undecided_bits_still_make_up_a_word_that_fits() -> None:
    # Where evidence ends in a tie, one of the words that fit is right now and then; a mixture of them never is.
    code = fec_code(10, 100)
    words = 2.0 * code.encode(all_words(10)) - 1
    flipped = words[random_bits(code, 500) @ (1 << np.arange(10))]
    flipped[np.random.default_rng(4).random(flipped.shape) < 0.25] *= -1
    fits = flipped @ words.T
    decoded = 2.0 * code.encode(code.decode_word(flipped) > 0) - 1
    assert np.array_equal((flipped * decoded).sum(-1), fits.max(-1))


# All words together


@pytest.mark.parametrize("size", [(1, 7), (4, 20), (10, 100), (12, 40)])
@pytest.mark.parametrize("decibels", [-3, 2])
def test_every_listed_word_has_its_say(size: tuple[int, int], decibels: float) -> None:
    code, messages = fec_code(*size), all_words(size[0])
    words = code.encode(messages)
    logits = noisy(code.encode(random_bits(code, 50)), variance_at(decibels, code))
    np.testing.assert_allclose(code.bit_llrs(logits), odds_of_all(logits, messages, words), atol=1e-3)
    sums = logits @ (2.0 * words - 1).T
    np.testing.assert_allclose(code.log_evidence(logits), 2 * np.log(np.exp(sums / 2).sum(-1)), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(22, 528), (46, 552), (56, 448), (13, 52)])
def test_every_way_around_a_ring_has_its_say_where_it_is_cut(size: tuple[int, int]) -> None:
    # Where as many bits in a row are sure as a slot can depend on, every way around the ring ends where it began.
    code, rate = fec_code(*size), size[1] // size[0]
    sure = max(MEMORY_BITS, size[0] - 12)
    bits = random_bits(code, 20)
    logits = noisy(code.encode(bits), variance_at(-3, code))
    logits[:, : sure * rate : rate] = 40 * (2.0 * bits[:, :sure] - 1)
    rest = all_words(size[0] - sure)
    for found, row, sent in zip(code.bit_llrs(logits), logits, bits, strict=True):
        words = code.encode(np.hstack([np.tile(sent[:sure], (len(rest), 1)), rest]))
        # Hundreds of numbers of 24 bits are added up.
        np.testing.assert_allclose(found[sure:], odds_of_all(row, rest, words), atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(13, 312), (14, 168)])
def test_odds_of_a_short_ring_come_close_to_those_of_all_words(size: tuple[int, int]) -> None:
    # Ways that begin elsewhere than they end are no words, but count; the shorter the ring, the more of them there are.
    code, messages = fec_code(*size), all_words(size[0])
    logits = noisy(code.encode(random_bits(code, 200)), variance_at(-3, code))
    exact, found = odds_of_all(logits, messages, code.encode(messages)), code.bit_llrs(logits)
    likely = [np.tanh(odds.ravel() / 2) for odds in (exact, found)]
    assert np.corrcoef(likely[0], likely[1])[0, 1] > 0.9
    same = [((odds > 0) == (exact > 0)).mean() for odds in (found, code.decode_word(logits))]
    assert same[0] > max(0.85, same[1])


@pytest.mark.slow
@pytest.mark.parametrize("size", USED)
def test_in_heavy_noise_more_bits_are_right_than_in_the_likeliest_word(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    bits = random_bits(code, 1000)
    logits = noisy(code.encode(bits), variance_at(-3, code))
    likeliest, each = (((found > 0) != bits).sum() for found in (code.decode_word(logits), code.bit_llrs(logits)))
    assert each < 0.95 * likeliest


@pytest.mark.slow
@pytest.mark.parametrize("size", USED + OTHERS)
def test_in_little_noise_they_are_the_bits_of_the_likeliest_word(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    bits = random_bits(code, 50)
    logits = noisy(code.encode(bits), variance_at(12, code))
    assert np.array_equal(code.bit_llrs(logits) > 0, bits)
    assert np.array_equal(code.decode_word(logits) > 0, bits)


@pytest.mark.parametrize("size", [(46, 552), (10, 100)])
def test_of_sure_slots_only_the_likeliest_word_has_a_say(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    logits = 1e6 * noisy(code.encode(random_bits(code, 20)), variance_at(0, code))
    np.testing.assert_allclose(code.bit_llrs(logits), code.decode_word(logits), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(46, 552), (10, 100)])
def test_odds_tell_how_often_a_bit_is_right(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    bits = random_bits(code, 1000)
    odds = code.bit_llrs(noisy(code.encode(bits), variance_at(-2, code)))
    right = (odds > 0) == bits
    unsure = np.abs(odds) < 2
    expected = 1 / (1 + np.exp(-np.abs(odds[unsure])))
    assert unsure.sum() > 1000
    assert abs(right[unsure].mean() - expected.mean()) < 0.03


@pytest.mark.parametrize("size", [(46, 552), (10, 100)])
def test_without_evidence_a_bit_still_has_a_sign(size: tuple[int, int]) -> None:
    code = fec_code(*size)
    assert (code.bit_llrs(np.zeros((2, size[1]))) != 0).all()
    with np.errstate(all="raise"):
        assert (code.bit_llrs(np.tile([1e30, -1e30], (2, size[1] // 2))) != 0).all()
