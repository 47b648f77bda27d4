"""The rateless code: any stretch of its slots is a good code, and it is decoded as the circle that it is."""

import numpy as np
import pytest

from ideaw.modem.ring_code import NUM_POLYNOMIALS, RingCode


def _sums(code: RingCode, values: np.ndarray, slots: np.ndarray) -> np.ndarray:
    return code.collect(values, code.places(slots))


@pytest.mark.parametrize("bits", [21, 48, 101, 216, 6160])
def test_slots_visit_all_steps_once_for_each_polynomial(bits: int) -> None:
    code = RingCode(bits)
    places = code.places(np.arange(code.num_places))
    assert np.array_equal(np.sort(places), np.arange(code.num_places))
    assert np.array_equal(code.places(np.arange(code.num_places) + code.num_places), places)
    for stretch in places[: 10 * bits].reshape(10, bits):
        assert len(np.unique(stretch // NUM_POLYNOMIALS)) == bits
    # A stretch shorter than the circle leaves no wide gap in it.
    steps = np.sort(places[:504] // NUM_POLYNOMIALS)
    assert np.diff(steps).max(initial=0) <= max(1, 4 * bits / 504)


@pytest.mark.parametrize("bits", [21, 48, 216])
def test_the_code_is_linear_and_a_rotated_word_has_rotated_slots(bits: int) -> None:
    code, rng = RingCode(bits), np.random.default_rng(0)
    one, other = rng.integers(0, 2, (2, bits))
    first, second, both = code.encode(np.stack([one, other, one ^ other]))
    assert np.array_equal(-first * second, both)
    assert np.array_equal(code.encode(np.roll(one, 5)), np.roll(first, 5 * NUM_POLYNOMIALS))


@pytest.mark.parametrize(("bits", "count"), [(48, 504), (101, 1000), (216, 2000)])
@pytest.mark.parametrize("first", [0, 777])
def test_any_stretch_of_slots_gives_the_word(bits: int, count: int, first: int) -> None:
    code, rng, slots = RingCode(bits), np.random.default_rng(bits), np.arange(first, first + count)
    for _ in range(5):
        word = rng.integers(0, 2, bits)
        values = 0.65 * code.encode(word)[code.places(slots)] + rng.normal(size=count)
        words, margins = code.decode(_sums(code, values, slots), 3)
        assert np.array_equal(words[0], word)
        assert np.array_equal(margins > 0, word > 0)


def test_rivals_are_other_words_that_fit_next_best() -> None:
    code, rng, slots = RingCode(48), np.random.default_rng(1), np.arange(504)
    word = rng.integers(0, 2, 48)
    values = 0.4 * code.encode(word)[code.places(slots)] + rng.normal(size=504)
    words, margins = code.decode(_sums(code, values, slots), 8)
    scores = code.encode(words)[:, code.places(slots)] @ values
    assert len(np.unique(words, axis=0)) == len(words) > 4
    assert (np.diff(scores) <= 1e-6).all()
    # A margin is half the distance to the best word in which the bit differs: the least is that to the second word.
    assert np.abs(margins).min() == pytest.approx((scores[0] - scores[1]) / 2, rel=1e-3)
    for _ in range(300):
        other = words[0] ^ (rng.random(48) < rng.uniform(0, 0.3))
        if not (words[:2] == other).all(1).any():
            assert code.encode(other)[code.places(slots)] @ values <= scores[1] + 1e-6


def test_all_words_are_compared_alike_where_nothing_is_known() -> None:
    code = RingCode(48)
    words, margins = code.decode(np.zeros(code.num_places), 3)
    assert words.shape[1] == 48
    assert not margins.any()


def test_long_words_are_decoded_in_full() -> None:
    code, rng = RingCode(6160), np.random.default_rng(2)
    slots = np.arange(154 * 504)
    word = rng.integers(0, 2, code.bits)
    values = 0.65 * code.encode(word)[code.places(slots)] + rng.normal(size=len(slots))
    assert np.array_equal(code.decode(_sums(code, values, slots), 1)[0][0], word)
