"""To the network's 16 kHz and back: exact lengths, no delay, channels apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ideaw.audio.blocks import RESAMPLE_DELAY_SECONDS, Resampler, mix, network_length, resample
from ideaw.audio.grid import SAMPLE_RATE

RATES = [
    8_000,
    11_025,
    12_000,
    16_000,
    22_050,
    24_000,
    32_000,
    37_800,
    44_100,
    48_000,
    88_200,
    96_000,
    176_400,
    192_000,
]


def to_network(samples: np.ndarray, rate: int) -> np.ndarray:
    """(n, channels) at `rate` Hz → (channels, m) at 16 kHz."""
    return resample(samples, rate, SAMPLE_RATE, network_length(len(samples), rate)).T


def from_network(samples: np.ndarray, rate: int, length: int) -> np.ndarray:
    """(channels, m) at 16 kHz → (length, channels) at `rate` Hz."""
    return resample(samples.T, SAMPLE_RATE, rate, length)


def tone(rate: int, length: int) -> np.ndarray:
    """A swelling 1 kHz tone whose centre is at half its length."""
    seconds = np.arange(length) / rate
    middle = length / rate / 2
    return np.sin(2 * np.pi * 1_000 * seconds) * np.exp(-(((seconds - middle) / (middle / 3)) ** 2))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("extra", [0, 1, 777])
def test_no_delay_and_the_same_length(rate: int, extra: int) -> None:
    length = rate + extra
    original = tone(rate, length)
    there = to_network(original[:, None], rate)
    assert there.shape == (1, network_length(length, rate))
    assert there.dtype == np.float32
    # the same tone made at 16 kHz: one sample of delay would differ by 0.4
    seconds = np.arange(there.shape[1]) / SAMPLE_RATE
    middle = length / rate / 2
    expected = np.sin(2 * np.pi * 1_000 * seconds) * np.exp(-(((seconds - middle) / (middle / 3)) ** 2))
    assert np.abs(there[0] - expected).max() < 1e-3
    back = from_network(there, rate, length)
    assert back.shape == (length, 1)
    assert np.abs(back[:, 0] - original).max() < 1e-3


def test_music_below_the_networks_band_survives(music: np.ndarray) -> None:
    once = from_network(to_network(music, 44_100), 44_100, len(music))
    twice = from_network(to_network(once, 44_100), 44_100, len(music))
    error = np.sum((once - twice) ** 2) / np.sum(once**2)
    assert 10 * np.log10(error) < -40  # what is left is the slope of the filter just under 8 kHz


def test_the_networks_own_rate_is_left_alone(speech: np.ndarray) -> None:
    there = to_network(speech[:, None], SAMPLE_RATE)
    assert np.array_equal(there[0], speech)
    assert np.array_equal(from_network(there, SAMPLE_RATE, len(speech))[:, 0], speech)


@settings(max_examples=40, deadline=None)
@given(st.integers(8_000, 192_000), st.integers(1, 20_000), st.integers(1, 4))
def test_any_rate_keeps_length_and_channels(rate: int, length: int, channels: int) -> None:
    samples = np.zeros((length, channels))
    samples[:, -1] = 0.5
    there = to_network(samples, rate)
    assert there.shape == (channels, network_length(length, rate))
    back = from_network(there, rate, length)
    assert back.shape == (length, channels)
    if channels > 1:
        assert not back[:, 0].any()


@pytest.mark.parametrize("rate", [*RATES, 16_001, 186_616, 191_999])
@pytest.mark.parametrize("most", [700, 30_000])
def test_pieces_give_what_the_whole_gives(rate: int, most: int) -> None:
    rng = np.random.default_rng(rate)
    samples = rng.standard_normal((int(1.3 * rate) + 7, 2)).astype(np.float32)

    def in_pieces(columns: np.ndarray, source: int, target: int, length: int) -> np.ndarray:
        stream, pieces, place, given = Resampler(source, target, 2), [], 0, 0
        while place < len(columns):
            piece = columns[place : place + int(rng.integers(0, most))]
            pieces.append(stream.push(piece))
            place, given = place + len(piece), given + len(pieces[-1])
            assert place / source - given / target <= (RESAMPLE_DELAY_SECONDS if source != target else 0)
        return np.concatenate([*pieces, stream.finish(length)])

    there = to_network(samples, rate)
    assert np.array_equal(in_pieces(samples, rate, SAMPLE_RATE, network_length(len(samples), rate)).T, there)
    back = from_network(there, rate, len(samples))
    assert np.array_equal(in_pieces(there.T, SAMPLE_RATE, rate, len(samples)), back)


def test_mix_is_the_mean_of_the_channels(music: np.ndarray) -> None:
    mono = mix(music)
    assert mono.shape == (len(music),)
    assert np.allclose(mono, (music[:, 0] + music[:, 1]) / 2)
