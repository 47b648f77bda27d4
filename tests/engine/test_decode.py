"""Reading: soft values of seconds in, the message out; in any order, with gaps and errors, and never another one."""

from itertools import pairwise
from math import comb, exp, log
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from plans import channels_of, plan_of, symbols_for

from ideaw.engine.decode import Decoded, contradicts, decode_repeated, decode_seconds
from ideaw.engine.long_messages import LONG_CHECK_BITS
from ideaw.engine.significance import EARLY_STOP_P, MESSAGE_P
from ideaw.keys import PUBLIC, Key
from ideaw.modem.fec import chernoff_log_p, usual_slots
from ideaw.payload.message import Content, Message

SLOTS = 98
"""Of values that no code is asked about."""

KEY = Key(bytes(range(16)))
LONG_ONES = ("track-0042", "Größe, 20 Zeichen €", b"\x00\xff\x00\xff\x00", (0, 1, 1) * 20)


def received(symbols: NDArray[np.floating], snr: float, seed: int = 0) -> NDArray[np.float64]:
    """Slots in white noise of variance 1; a second has the energy of 100 slots with the power `snr`."""
    amplitude = np.sqrt(100 * snr / symbols.shape[1])
    return np.asarray(amplitude * symbols + np.random.default_rng(seed).normal(size=symbols.shape))


def sent(content: Content, bits: int, seconds: float, key: Key = PUBLIC) -> NDArray[np.float32]:
    return symbols_for(plan_of(Message(content), bits, key), seconds)


def said(values: NDArray[np.floating], bits: int, key: Key = PUBLIC) -> Content | None:
    found = decode_seconds(values, channels_of(bits, key))
    return None if found.message is None else found.message.content


# Messages that every second repeats


@pytest.mark.parametrize(
    ("content", "bits"), [("abcd", 46), (b"\x00\xff", 46), ((0, 1, 1), 46), ("a", 22), ((1, 0), 10)]
)
@pytest.mark.parametrize("key", [PUBLIC, KEY])
def test_a_short_message_is_read_from_a_second_and_from_the_sum_of_many(content: Content, bits: int, key: Key) -> None:
    # A single second is clear at 4; at 0.3 none of twelve is readable alone with 46 bits, and all together are.
    for seconds, snr in ((1, 4.0), (12, 0.3)):
        symbols = sent(content, bits, seconds, key)
        found = decode_seconds(received(symbols, snr), channels_of(bits, key))
        assert found.message == Message(content)
        assert found.p_value <= MESSAGE_P
        assert found.missing_seconds == 0
        assert np.array_equal(found.symbols, symbols)
        assert np.array_equal(found.llrs > 0, decode_repeated(symbols, channels_of(bits, key)).llrs > 0)


@pytest.mark.parametrize(("content", "bits"), [("abcd", 46), ("a", 22), ((1, 0), 10)])
def test_the_proof_grows_with_the_audio(content: Content, bits: int) -> None:
    values = received(sent(content, bits, 32), 1.2, 3)
    proofs = [decode_seconds(values[:seconds], channels_of(bits)).check_bits for seconds in (1, 4, 32)]
    assert all(more > less + 3 for less, more in pairwise(proofs))
    assert proofs[0] >= 12
    assert proofs[-1] > 48


# Long messages


@pytest.mark.parametrize("content", LONG_ONES)
@pytest.mark.parametrize("bits", [46, 22])
@pytest.mark.parametrize("key", [PUBLIC, KEY])
def test_a_long_message_comes_back_with_its_type(content: Content, bits: int, key: Key) -> None:
    plan = plan_of(Message(content), bits, key)
    found = decode_seconds(received(symbols_for(plan, plan.needed), 30), channels_of(bits, key))
    assert found.message == Message(content)
    assert found.p_value < 1e-6
    assert found.check_bits == LONG_CHECK_BITS == 49
    assert np.array_equal(found.symbols, symbols_for(plan, plan.needed))


@pytest.mark.slow
@given(st.binary(min_size=5, max_size=20), st.integers(0, 1000), st.integers(0, 20), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_any_cut_that_is_long_enough_gives_the_message(content: bytes, start: int, more: int, seed: int) -> None:
    plan = plan_of(Message(content), 46)
    symbols = symbols_for(plan, start + plan.needed + more)[start:]
    found = decode_seconds(received(symbols, 20, seed), channels_of(46))
    assert found.message == Message(content)
    assert np.array_equal(found.symbols, symbols)


@given(st.randoms(use_true_random=False), st.integers(5, 10))
@settings(deadline=None, max_examples=25)
def test_seconds_may_come_in_any_order_and_with_gaps(random: Random, count: int) -> None:
    symbols = sent("track-0042", 46, 10)
    chosen = random.sample(range(10), count)
    assert said(received(symbols[chosen], 20, count), 46) == "track-0042"


def test_seconds_that_cannot_be_read_are_gaps() -> None:
    values = received(sent("track-0042", 46, 10), 8)
    rng = np.random.default_rng(1)
    for lost in ([0, 3, 4, 8, 9], [1, 2, 5], [9]):
        noise, silence = values.copy(), values.copy()
        noise[lost] = rng.normal(size=(len(lost), values.shape[1]))
        silence[lost] = 0
        assert said(noise, 46) == "track-0042"
        assert said(silence, 46) == "track-0042"
        assert said(np.delete(values, lost, 0), 46) == "track-0042"


def test_wrong_slots_are_corrected() -> None:
    values = received(sent("track-0042", 46, 6), 1e6)
    rng = np.random.default_rng(2)
    for row in values:
        row[rng.permutation(len(row))[:110]] *= -1
    assert said(values, 46) == "track-0042"


def test_all_seconds_are_one_code() -> None:
    # At this noise the seconds that the message needs least are not enough, nor is any one of them; all together are.
    symbols = sent("track-0042", 46, 12)
    values = received(symbols, 0.5)
    assert said(values[:4], 46) is None
    assert said(values, 46) == "track-0042"


def test_seconds_of_another_message_do_not_spoil_it() -> None:
    right, other = sent("track-0042", 46, 10), sent("track-9917", 46, 10)
    mixed = right.copy()
    mixed[5] = other[5]
    for seed in range(10):
        assert said(received(mixed, 10, seed), 46) == "track-0042"


@pytest.mark.parametrize("bits", [46, 22])
def test_seconds_that_repeat_each_other_add_up(bits: int) -> None:
    # At this noise a period is not readable alone.
    symbols = sent("track-0042", bits, 300)[7:]
    values = received(symbols, 0.05)
    assert said(values[: len(plan_of(Message("track-0042"), bits).symbols) // 2], bits) is None
    found = decode_seconds(values, channels_of(bits))
    assert found.message == Message("track-0042")
    assert (found.symbols == symbols).all(1).mean() > 0.95


@pytest.mark.slow
def test_a_monotonous_message_adds_up_too() -> None:
    for content in (bytes(60), b"\x5a" * 200):
        assert said(received(sent(content, 46, 500), 3), 46) == content


def test_a_file_cut_together_from_parts_still_adds_up() -> None:
    symbols = sent("track-0042", 46, 60)
    cut = np.concatenate([symbols[3:9], symbols[31:36], symbols[14:22]])
    found = decode_seconds(received(cut, 6), channels_of(46))
    assert found.message == Message("track-0042")
    assert np.array_equal(found.symbols, cut)


def test_too_few_seconds_say_how_many_are_missing() -> None:
    plan = plan_of(Message("a text that fills ten seconds, or nearly"), 46, KEY)
    found = decode_seconds(received(symbols_for(plan, 30)[2:5], 1.5), channels_of(46, KEY))
    assert (found.message, found.p_value, found.symbols) == (None, 1, None)
    assert found.missing_seconds == plan.needed - 3


@pytest.mark.slow
def test_the_longest_message_comes_back() -> None:
    content = np.random.default_rng(3).bytes(763)
    assert said(received(sent(content, 46, 154), 20), 46) == content


# What must not be found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "bits", "seconds"), [("abcd", 46, 10), ("track-0042", 46, 20), ("track-0042", 22, 40)]
)
def test_a_wrong_key_finds_nothing(content: Content, bits: int, seconds: int) -> None:
    # Even where the carriers were known: the checks are enough.
    values = received(sent(content, bits, seconds, KEY), 10)
    for other in (PUBLIC, *(Key.fresh() for _ in range(10))):
        assert said(values, bits, other) is None


@pytest.mark.parametrize("bits", [46, 22, 10])
def test_noise_and_silence_say_nothing(bits: int) -> None:
    rng, slots = np.random.default_rng(4), usual_slots(bits)
    for seconds in (1, 2, 30):
        for values in (
            np.zeros((seconds, slots)),
            rng.normal(size=(seconds, slots)),
            rng.laplace(size=(seconds, slots)),
        ):
            found = decode_seconds(values, channels_of(bits))
            assert (found.message, found.missing_seconds, found.p_value) == (None, 0, 1)
    assert decode_seconds(np.zeros((0, slots)), channels_of(bits)).message is None


@pytest.mark.slow
@pytest.mark.parametrize("bits", [46, 22, 10])
def test_random_values_are_believed_less_often_than_the_bound_says(bits: int) -> None:
    # The best word of random values, before its check is looked at.
    channels = channels_of(bits)
    values = np.random.default_rng(5).normal(size=(1000 if bits == 46 else 3000, usual_slots(bits)))
    log_words, check_bits = log(2) * channels.short.bits, {46: 13, 22: 0, 10: 0}[bits]
    best = [
        score / np.sqrt(np.square(row).sum())
        for score, row in zip(channels.short.best_score(values), values, strict=True)
    ]
    p_values = [exp(min(0, log_words - score**2 / 2)) for score in best]
    for bound in (1e-2, 1e-3, 1e-4):
        assert np.mean(np.array(p_values) <= bound) / 2**check_bits < bound + 3 * np.sqrt(bound / len(values))
    passed = sum(decode_repeated(row[None], channels).message is not None for row in values)
    assert passed == 0


@pytest.mark.slow
def test_the_same_seconds_under_other_keys_are_believed_less_often_than_the_bound_says() -> None:
    # Audio is fixed and the key is drawn: the signs of what repeats itself second after second are not independent.
    row = np.random.default_rng(8).normal(size=usual_slots(46))
    for seconds in (np.tile(row, (12, 1)), np.tile(np.ones_like(row), (12, 1))):
        for number in range(10):
            key = Key(bytes([number]) * 16)
            assert decode_seconds(seconds, channels_of(46, key)).message is None


def test_the_chance_is_an_upper_bound() -> None:
    # Of values that are all alike it is known exactly: so many signs of a coin.
    for right in (60, 70, 85, 98):
        values = np.ones(SLOTS)
        word = np.arange(SLOTS) < right
        exact = log(sum(comb(SLOTS, count) for count in range(right, SLOTS + 1)) / 2**SLOTS)
        assert exact <= chernoff_log_p(values, word.astype(int)) + 1e-9 < exact + 5
    assert chernoff_log_p(np.ones(SLOTS), np.arange(SLOTS) % 2) == 0
    assert chernoff_log_p(np.zeros(SLOTS), np.ones(SLOTS, int)) == 0
    spread = np.random.default_rng(6).normal(size=SLOTS)
    assert chernoff_log_p(1e30 * spread, spread > 0) == pytest.approx(chernoff_log_p(spread, spread > 0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "two", "bits", "seconds"),
    [
        ("abcd", "wxyz", 46, 10),
        ("abcd", "abce", 46, 10),
        ("a", "b", 22, 10),
        ((1, 0), (0, 1, 1), 10, 10),
        ("track-0042", "track-9917", 46, 12),
        ("track-0042", "another text", 46, 40),
        ("track-0042", "track-9917", 22, 32),
        ("abcd", "track-0042", 46, 12),
    ],
)
def test_an_average_of_two_copies_never_gives_a_third_message(
    one: Content, two: Content, bits: int, seconds: int
) -> None:
    plans = [sent(content, bits, seconds) for content in (one, two)]
    for seed, snr in enumerate((0.3, 1, 4, 20, 1e4) * 2):
        values = sum(received(symbols, snr, 2 * seed + place) for place, symbols in enumerate(plans)) / 2
        assert said(values, bits) in (None, one, two)


def test_weighting_seconds_is_up_to_the_caller() -> None:
    values = received(sent("track-0042", 46, 30), 4)
    weights = np.random.default_rng(7).uniform(0.5, 2, (30, 1))
    for scale in (1e-20, 1.0, 1e20):
        found = decode_seconds(scale * weights * values, channels_of(46))
        assert isinstance(found, Decoded)
        assert found.message == Message("track-0042")


# Some seconds for all


@pytest.mark.parametrize("bits", [46, 22])
def test_what_some_seconds_surely_say_is_told_for_all(bits: int) -> None:
    symbols, channels = sent("a", bits, 12), channels_of(bits)
    values = received(symbols, 10)
    values[np.arange(12) % 3 > 0] = 0
    decoded = decode_repeated(values, channels)
    assert decoded.p_value <= EARLY_STOP_P
    assert np.array_equal(decoded.symbols, symbols)
    assert not contradicts(values, symbols, channels).any()
    assert decode_repeated(received(symbols[:1], 0), channels).p_value > EARLY_STOP_P


def test_what_takes_several_seconds_is_not_said_by_some() -> None:
    assert decode_repeated(received(sent("a longer text", 46, 12), 20), channels_of(46)).message is None
    assert decode_repeated(np.zeros((3, usual_slots(46))), channels_of(46)).message is None


def test_seconds_that_say_something_else_disagree_and_so_do_those_beside_them_that_were_not_read() -> None:
    symbols, channels = sent("hey", 46, 12), channels_of(46)
    values = received(np.concatenate([symbols[:6], sent("you", 46, 6)]), 10)
    assert contradicts(values, symbols, channels).tolist() == 6 * [False] + 6 * [True]
    values[[1, 2, 4, 5, 7, 8, 10, 11]] = 0
    assert contradicts(values, symbols, channels).tolist() == 5 * [False] + 7 * [True]
    assert not contradicts(np.zeros((4, usual_slots(46))), symbols[:4], channels).any()


def test_seconds_of_a_longer_message_are_unlike_a_short_one() -> None:
    symbols, channels = sent("hey", 46, 12), channels_of(46)
    values = received(np.concatenate([symbols[:6], sent("a longer text", 46, 6)]), 20)
    unlike = contradicts(values, symbols, channels, surely=False)
    assert not unlike[:6].any()
    assert unlike[6:].mean() > 0.6


@pytest.mark.parametrize(("bits", "word_bits", "tests"), [(46, 35, 2), (22, 13, 2), (10, 7, 1)])
def test_a_p_value_covers_all_words_and_both_tests(bits: int, word_bits: int, tests: int) -> None:
    channels = channels_of(bits)
    values = received(sent("a" if bits > 10 else (1, 0, 1), bits, 3), 2)
    decoded = decode_seconds(values, channels)
    assert decoded.symbols is not None
    one_word = chernoff_log_p(values.sum(0), decoded.symbols[0] > 0)
    assert decoded.p_value == pytest.approx(tests * 2**word_bits * exp(one_word), rel=1e-9)
    nothing = decode_seconds(np.zeros((3, usual_slots(bits))), channels)
    assert (nothing.message, nothing.p_value, nothing.check_bits) == (None, 1, 0)
