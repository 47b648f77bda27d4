"""Reading: soft values of seconds in, the message out; in any order, with gaps and errors, and never another one."""

from math import comb, exp, log
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from plans import payloads_for, plan_of

from ideaw.engine.decode import Decoded, contradicts, decode_repeated, decode_seconds
from ideaw.engine.long_messages import LONG_MESSAGE_P, list_decode
from ideaw.engine.significance import EARLY_STOP_P, MESSAGE_P
from ideaw.keys import PUBLIC, Key
from ideaw.modem.fec import FecCode, chernoff_log_p, fec_code, usual_slots
from ideaw.payload.message import Content, Message

SLOTS = 98
"""Of values that no code is asked about."""

KEY = Key(bytes(range(16)))
LONG_ONES = ("track-0042", "Größe, 20 Zeichen €", b"\x00\xff\x00\xff\x00", (0, 1, 1) * 20)


def fec(bits: int) -> FecCode:
    return fec_code(bits, usual_slots(bits))


def received(payloads: NDArray[np.uint8], snr: float, seed: int = 0) -> NDArray[np.float64]:
    """Slots of payloads in white noise of variance 1; a second has the energy of 100 slots with the power `snr`."""
    words = 2.0 * fec(payloads.shape[1]).encode(payloads) - 1
    return np.sqrt(100 * snr / words.shape[1]) * words + np.random.default_rng(seed).normal(size=words.shape)


def payloads_of(content: Content, bits: int, seconds: float, key: Key = PUBLIC) -> NDArray[np.uint8]:
    return payloads_for(plan_of(Message(content), bits, key), seconds)


def said(values: NDArray[np.floating], bits: int, key: Key = PUBLIC) -> Content | None:
    found = decode_seconds(values, fec(bits), key)
    return None if found.message is None else found.message.content


# Messages of one payload


@pytest.mark.parametrize(
    ("content", "bits"), [("abcd", 46), (b"\x00\xff", 46), ((0, 1, 1), 46), ("a", 22), ((1, 0), 10)]
)
@pytest.mark.parametrize("key", [PUBLIC, KEY])
def test_a_short_message_is_read_from_a_second_and_from_the_sum_of_many(content: Content, bits: int, key: Key) -> None:
    # A single second is clear at 4; at 0.3 none of twelve is readable alone with 46 bits, and all together are.
    for seconds, snr in ((1, 4.0), (12, 0.3)):
        payloads = payloads_of(content, bits, seconds, key)
        found = decode_seconds(received(payloads, snr), fec(bits), key)
        assert found.message == Message(content)
        assert found.p_value <= MESSAGE_P
        assert found.missing_seconds == 0
        assert np.array_equal(found.payloads, payloads)
        assert np.array_equal(found.llrs > 0, payloads[0])


# Long messages


def test_the_runner_up_is_the_word_that_fits_next_best() -> None:
    values = received(payloads_of("abcd", 46, 1), 1.0)[0]
    first, second = list_decode(fec(46).decode_word(values))
    one, two = (values @ (2.0 * fec(46).encode(bits) - 1) for bits in (first, second))
    assert one > two
    rng = np.random.default_rng(1)
    for _ in range(500):
        other = first ^ (rng.random(46) < rng.uniform(0, 0.3))
        if not np.array_equal(other, first):
            assert values @ (2.0 * fec(46).encode(other) - 1) <= two


@pytest.mark.parametrize("content", LONG_ONES)
@pytest.mark.parametrize("bits", [46, 22])
@pytest.mark.parametrize("key", [PUBLIC, KEY])
def test_a_long_message_comes_back_with_its_type(content: Content, bits: int, key: Key) -> None:
    plan = plan_of(Message(content), bits, key)
    found = decode_seconds(received(payloads_for(plan, plan.needed), 3), fec(bits), key)
    assert found.message == Message(content)
    assert found.p_value == LONG_MESSAGE_P < 1e-6
    assert np.array_equal(found.payloads, payloads_for(plan, plan.needed))


@pytest.mark.slow
@given(st.binary(min_size=5, max_size=20), st.integers(0, 1000), st.integers(0, 20), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_any_cut_that_is_long_enough_gives_the_message(content: bytes, start: int, more: int, seed: int) -> None:
    plan = plan_of(Message(content), 46)
    payloads = payloads_for(plan, start + plan.needed + more)[start:]
    found = decode_seconds(received(payloads, 3, seed), fec(46))
    assert found.message == Message(content)
    assert np.array_equal(found.payloads, payloads)


@given(st.randoms(use_true_random=False), st.integers(5, 10))
@settings(deadline=None, max_examples=25)
def test_seconds_may_come_in_any_order_and_with_gaps(random: Random, count: int) -> None:
    payloads = payloads_of("track-0042", 46, 10)
    chosen = random.sample(range(10), count)
    assert said(received(payloads[chosen], 4, count), 46) == "track-0042"


def test_seconds_that_cannot_be_read_are_gaps() -> None:
    payloads = payloads_of("track-0042", 46, 10)
    values = received(payloads, 4)
    rng = np.random.default_rng(1)
    for lost in ([0, 3, 4, 8, 9], [1, 2, 5], [9]):
        noise, silence = values.copy(), values.copy()
        noise[lost] = rng.normal(size=(len(lost), values.shape[1]))
        silence[lost] = 0
        assert said(noise, 46) == "track-0042"
        assert said(silence, 46) == "track-0042"
        assert said(np.delete(values, lost, 0), 46) == "track-0042"


def test_wrong_slots_are_corrected() -> None:
    values = received(payloads_of("track-0042", 46, 6), 1e6)
    rng = np.random.default_rng(2)
    for row in values:
        row[rng.permutation(len(row))[:80]] *= -1
    assert said(values, 46) == "track-0042"


def test_a_wrong_part_is_left_out() -> None:
    # Parts of another message pass their own checks; what they make up with the others does not pass as a whole.
    right, other = payloads_of("track-0042", 46, 8), payloads_of("track-9917", 46, 8)
    mixed = right.copy()
    mixed[5] = other[5]
    for seed in range(10):
        assert said(received(mixed, 4, seed), 46) == "track-0042"


@pytest.mark.parametrize("bits", [46, 22])
def test_seconds_that_repeat_each_other_add_up(bits: int) -> None:
    # At this noise none of them is readable alone.
    payloads = payloads_of("track-0042", bits, 300 if bits == 46 else 400)[7:]
    values = received(payloads, 0.1)
    assert said(values[: len(plan_of(Message("track-0042"), bits).period_payloads)], bits) is None
    found = decode_seconds(values, fec(bits))
    assert found.message == Message("track-0042")
    assert np.array_equal(found.payloads, payloads)


@pytest.mark.slow
def test_a_monotonous_message_adds_up_too() -> None:
    for content in (bytes(60), b"\x5a" * 200):
        assert said(received(payloads_of(content, 46, 2000), 0.3), 46) == content


def test_a_file_cut_together_from_parts_still_adds_up() -> None:
    payloads = payloads_of("track-0042", 46, 60)
    cut = np.concatenate([payloads[3:9], payloads[31:36], payloads[14:22]])
    found = decode_seconds(received(cut, 1.5), fec(46))
    assert found.message == Message("track-0042")
    assert np.array_equal(found.payloads, cut)


@pytest.mark.parametrize("bits", [46, 22])
def test_too_few_seconds_say_how_many_are_missing(bits: int) -> None:
    plan = plan_of(Message("track-0042"), bits, KEY)
    for count in range(1, plan.needed):
        found = decode_seconds(received(payloads_for(plan, 30)[2 : 2 + count], 6), fec(bits), KEY)
        assert found.message is None
        assert found.p_value == 1
        assert found.payloads is None
        assert found.missing_seconds == plan.needed - count


@pytest.mark.slow
def test_the_longest_message_comes_back() -> None:
    content = np.random.default_rng(3).bytes(763)
    assert said(received(payloads_of(content, 46, 256), 4), 46) == content


# What must not be found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "bits", "seconds"), [("abcd", 46, 10), ("track-0042", 46, 20), ("track-0042", 22, 40)]
)
def test_a_wrong_key_finds_nothing(content: Content, bits: int, seconds: int) -> None:
    # Even where the carriers were known: the checks are enough.
    values = received(payloads_of(content, bits, seconds, KEY), 10)
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
            found = decode_seconds(values, fec(bits))
            assert (found.message, found.missing_seconds, found.p_value) == (None, 0, 1)
    assert decode_seconds(np.zeros((0, slots)), fec(bits)).message is None


@pytest.mark.slow
@pytest.mark.parametrize("bits", [46, 22, 10])
def test_random_values_are_believed_less_often_than_the_bound_says(bits: int) -> None:
    # Every word of random values that is believed before its check is looked at; one in 2^check passes it.
    values = np.random.default_rng(5).normal(size=(1000 if bits == 46 else 3000, usual_slots(bits)))
    words = fec(bits).encode(fec(bits).decode_word(values) > 0)
    check = {46: 11, 22: 9, 10: 3}[bits]
    p_values = [
        exp(min(0, (bits - check) * log(2) + chernoff_log_p(*pair))) for pair in zip(values, words, strict=True)
    ]
    for bound in (1e-2, 1e-3, 1e-4):
        assert np.mean(np.array(p_values) <= bound) / 2**check < bound


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
    plans = [payloads_of(content, bits, seconds) for content in (one, two)]
    for seed, snr in enumerate((0.3, 1, 4, 20, 1e4) * 2):
        values = sum(received(payloads, snr, 2 * seed + place) for place, payloads in enumerate(plans)) / 2
        assert said(values, bits) in (None, one, two)


def test_weighting_seconds_is_up_to_the_caller() -> None:
    values = received(payloads_of("track-0042", 46, 30), 2)
    weights = np.random.default_rng(7).uniform(0.5, 2, (30, 1))
    for scale in (1e-20, 1.0, 1e20):
        found = decode_seconds(scale * weights * values, fec(46))
        assert isinstance(found, Decoded)
        assert found.message == Message("track-0042")


def test_slots_may_be_the_bits_themselves() -> None:
    payloads = payloads_of("track-0042", 46, 12)
    uncoded = 2.0 * payloads - 1
    uncoded[::2, 20] *= -0.01
    found = decode_seconds(uncoded, fec_code(46, 46))
    assert found.message == Message("track-0042")


# Some seconds for all


@pytest.mark.parametrize("bits", [46, 22])
def test_what_some_seconds_surely_say_is_told_for_all(bits: int) -> None:
    payloads = payloads_of("a", bits, 12)
    values = received(payloads, 10)
    values[np.arange(12) % 3 > 0] = 0
    decoded = decode_repeated(values, fec(bits))
    assert decoded.p_value <= EARLY_STOP_P
    assert np.array_equal(decoded.payloads, payloads)
    assert not contradicts(values, payloads, fec(bits)).any()
    assert decode_repeated(received(payloads[:1], 0), fec(bits)).p_value > EARLY_STOP_P


def test_what_takes_several_seconds_is_not_said_by_some() -> None:
    assert decode_repeated(received(payloads_of("a longer text", 46, 12), 20), fec(46)).message is None
    assert decode_repeated(np.zeros((3, usual_slots(46))), fec(46)).message is None


def test_seconds_that_say_something_else_disagree_and_so_do_those_beside_them_that_were_not_read() -> None:
    payloads = payloads_of("hey", 46, 12)
    values = received(np.concatenate([payloads[:6], payloads_of("you", 46, 6)]), 10)
    assert contradicts(values, payloads, fec(46)).tolist() == 6 * [False] + 6 * [True]
    values[[1, 2, 4, 5, 7, 8, 10, 11]] = 0
    assert contradicts(values, payloads, fec(46)).tolist() == 5 * [False] + 7 * [True]
    assert not contradicts(np.zeros((4, usual_slots(46))), payloads[:4], fec(46)).any()


@pytest.mark.parametrize(("bits", "check_bits"), [(46, 11), (22, 9), (10, 3)])
def test_a_p_value_covers_all_words_that_pass_the_check(bits: int, check_bits: int) -> None:
    values = received(payloads_of("a" if bits > 10 else (1, 0, 1), bits, 3), 2)
    decoded = decode_seconds(values, fec(bits))
    assert decoded.trials == 2 ** (bits - check_bits)
    one_word = chernoff_log_p(values.sum(0), fec(bits).encode(decoded.llrs > 0))
    assert decoded.p_value == pytest.approx(decoded.trials * exp(one_word), rel=1e-9)
    nothing = decode_seconds(np.zeros((3, usual_slots(bits))), fec(bits))
    assert (nothing.message, nothing.p_value, nothing.trials) == (None, 1, decoded.trials)


def test_the_p_value_of_a_long_message_covers_all_body_checks() -> None:
    decoded = decode_seconds(received(payloads_of("track-0042", 46, 10), 4), fec(46))
    assert decoded.message == Message("track-0042")
    assert decoded.p_value == LONG_MESSAGE_P == decoded.trials / 2**32
