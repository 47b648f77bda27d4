"""Slow changes of loudness are told apart from noise: what a deep mark does, and nothing of what noise does."""

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.quality.fidelity import snr
from ideaw.quality.loudness import BLOCK_SAMPLES, follow_loudness, masking_of_rest
from ideaw.quality.masking import masking


def test_most_of_a_deep_mark_is_changes_of_loudness(speech: NDArray[np.float32]) -> None:
    marked = ideaw.load(threads=1).embed(speech, SAMPLE_RATE, "ab", layers="deep")
    assert snr(follow_loudness(speech, marked), marked) > snr(speech, marked) + 12
    assert masking_of_rest(speech, marked).ratio < masking(speech, marked).ratio - 3


@pytest.mark.parametrize("level", [20, 40])
def test_noise_is_noise(speech: NDArray[np.float32], level: float) -> None:
    noise = np.random.default_rng(0).normal(0, 10 ** (-level / 20) * speech.std(), len(speech))
    noisy = (speech + noise).astype(np.float32)
    assert masking_of_rest(speech, noisy).ratio == pytest.approx(masking(speech, noisy).ratio, abs=1)


def test_long_audio_is_followed_as_short_audio_is(speech: NDArray[np.float32]) -> None:
    host = np.tile(speech, 6)
    louder = host * np.linspace(1, 1.5, len(host), dtype=np.float32)
    followed = follow_loudness(host, louder)
    assert len(followed) == len(host) > BLOCK_SAMPLES
    assert snr(followed, louder) > snr(host, louder) + 8
