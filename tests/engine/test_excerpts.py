"""Excerpts: the loudest seconds are the same however audio arrives, and they tell at which speed it was played."""

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from ideaw.engine.embedding import Embedding
from ideaw.engine.excerpts import (
    ALL,
    MANY_SECONDS,
    NEAR,
    SECONDS,
    Loudest,
    are_apart,
    best_channels,
    best_speed,
    enough,
)
from ideaw.engine.scan import WORTH_READING
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.engine.network import Network
from ideaw.engine.search import Search
from ideaw.modem.locating_code import locating_code


def _search(network: Network, *keys: bytes) -> Search:
    owners = [network.with_key(key) for key in keys]
    return Search(owners, [locating_code(network.card.code_bits, key) for key in keys])


@pytest.fixture(scope="module")
def marked(network: Network, strings: NDArray[np.float32]) -> NDArray[np.float32]:
    """Three seconds of music."""
    audio, code = strings[: 3 * SEGMENT_SAMPLES, None], locating_code(network.card.code_bits)
    frames = np.random.default_rng(0).integers(0, 2, (1, network.card.message_bits))
    embedding = Embedding(network, frames, code, SAMPLE_RATE, 1, network.card.snr, 0.0)
    return np.concatenate([embedding.push(audio), embedding.finish()])[:, 0].astype(np.float32)


# The loudest seconds


def _loudest(blocks: list[NDArray[np.float64]], rate: int) -> NDArray[np.floating]:
    loud = Loudest(rate, SECONDS)
    passed = list(loud.through(iter(blocks)))
    assert all(one is other for one, other in zip(passed, blocks, strict=True))
    return loud.samples


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 12_000),
    channels=st.integers(1, 3),
    cuts=st.lists(st.integers(0, 12_000), max_size=9),
    seed=st.integers(0, 99),
)
def test_the_loudest_seconds_are_the_same_however_audio_is_cut(
    length: int, channels: int, cuts: list[int], seed: int
) -> None:
    rate = 1_000
    rng = np.random.default_rng(seed)
    audio = rng.standard_normal((length, channels)) * rng.uniform(0, 1, (length // 500 + 1, 1)).repeat(500, 0)[:length]
    whole = _loudest([audio], rate)
    assert np.array_equal(_loudest(np.split(audio, sorted(cut for cut in cuts if cut < length)), rate), whole)
    assert len(whole) == min(length, SECONDS * rate)
    energies = [np.square(audio[start : start + SECONDS * rate]).sum() for start in range(0, length, rate // 4)]
    full = [energy for place, energy in enumerate(energies) if place * rate // 4 + SECONDS * rate <= length]
    assert np.square(whole).sum() == pytest.approx(max(full, default=energies[0]))


def test_nothing_has_no_loudest_seconds() -> None:
    for blocks in ([], [np.zeros((0, 2))]):
        assert not _loudest(blocks, 1_000).size


def test_silence_has_loudest_seconds_too() -> None:
    assert np.array_equal(_loudest([np.zeros((5_000, 2))] * 3, 1_000), np.zeros((SECONDS * 1_000, 2)))


# Speeds


def test_the_grids_leave_no_speed_out() -> None:
    # The code is found up to 1 % beside the true speed.
    assert max(ALL) * 1.01 > 1.25
    assert min(ALL) / 1.01 < 0.8
    for grid in (NEAR, ALL):
        with_plain = np.sort([1.0, *grid])
        assert np.max(with_plain[1:] / with_plain[:-1]) < 1.0201
    assert set(NEAR) < set(ALL)


@pytest.mark.parametrize(("speed", "grid"), [(1.03, NEAR), (0.947, NEAR), (0.81, ALL), (1.24, ALL)])
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_a_speed_is_found(
    network: Network, marked: NDArray[np.float32], speed: float, grid: tuple[float, ...], rate: int
) -> None:
    played = soxr.resample(marked, SAMPLE_RATE * speed, rate)[: SECONDS * rate]
    # Of all speeds, those that are near; the others take their time and find nothing.
    few = [each for each in grid if abs(each / speed - 1) < 0.07]
    found, chance = best_speed(_search(network, b"no key", network.key), played[:, None], rate, few)
    assert found == pytest.approx(speed, rel=0.02)  # near enough: the search at this speed follows the rest
    assert chance < 1e-6


def test_audio_that_was_not_played_faster_has_no_speed(network: Network, strings: NDArray[np.float32]) -> None:
    search = _search(network, network.key, b"no key")
    for audio in (strings[: 4 * SEGMENT_SAMPLES], np.zeros(4 * SEGMENT_SAMPLES)):
        assert best_speed(search, audio[:, None], SAMPLE_RATE, NEAR)[1] > WORTH_READING


def test_a_speed_is_told_with_its_key_alone(network: Network, marked: NDArray[np.float32]) -> None:
    assert best_speed(_search(network, network.key), marked[:, None], SAMPLE_RATE, [1.0])[1] < 1e-9
    assert best_speed(_search(network, b"no key", b"nor this"), marked[:, None], SAMPLE_RATE, [1.0])[1] > WORTH_READING


# Channels


@pytest.mark.slow
def test_as_much_is_kept_as_channels_need_and_memory_allows() -> None:
    for rate, channels, seconds in ((8_000, 1, MANY_SECONDS), (44_100, 2, MANY_SECONDS), (192_000, 8, SECONDS)):
        loud = enough(rate, channels)
        loud.push(np.zeros((12 * rate, channels), np.float32))
        assert loud.samples.shape == (seconds * rate, channels)


def test_channels_that_hold_a_code_are_told(
    network: Network, marked: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    search, other = _search(network, b"no key", network.key), strings[3 * SEGMENT_SAMPLES : 6 * SEGMENT_SAMPLES]
    beside = other * np.linalg.norm(marked) / np.linalg.norm(other)
    assert best_channels(search, np.stack([beside, marked], 1), SAMPLE_RATE)[0] == [1]
    noise = 0.03 * marked.std() * np.random.default_rng(0).standard_normal((len(marked), 2))
    assert best_channels(search, np.stack([marked, -marked], 1) + noise, SAMPLE_RATE)[0] == [
        0,
        1,
    ]  # each has noise of its own
    for channels in (np.stack([marked, -marked], 1), np.stack([beside, marked], 1)):
        assert best_channels(search, channels, SAMPLE_RATE)[1] < 1e-9
        assert best_channels(_search(network, b"no key"), channels, SAMPLE_RATE)[1] > WORTH_READING


def test_channels_are_asked_where_the_mix_does_not_say_it_all(
    marked: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    for quieter in (1.0, 0.5, 0.0):
        assert not are_apart(np.stack([marked, quieter * marked], 1))
    assert not are_apart(marked[:, None])
    assert not are_apart(np.zeros((3 * SEGMENT_SAMPLES, 2)))
    assert not are_apart(
        np.stack([marked, 1e-3 * strings[3 * SEGMENT_SAMPLES : 6 * SEGMENT_SAMPLES]], 1)
    )  # next to nothing
    assert are_apart(np.stack([marked, -marked], 1))
    assert are_apart(np.stack([marked, np.roll(marked, 3)], 1))
    assert are_apart(np.stack([marked, marked, marked + 0.1 * strings[3 * SEGMENT_SAMPLES : 6 * SEGMENT_SAMPLES]], 1))
