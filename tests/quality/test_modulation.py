"""The measure of modulation: calibrated on what is known to be just heard."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.modulation import JUST_HEARD_DEPTH_DB, MODULATION_HZ
from ideaw.quality.modulation import modulation_audibility

MOMENTS = np.arange(6 * SAMPLE_RATE) / SAMPLE_RATE
TONE = 0.1 * np.sin(2 * np.pi * 1_000 * MOMENTS)


def _modulated(audio: NDArray[np.floating], hertz: float, depth_db: float) -> NDArray[np.float64]:
    return np.asarray(audio * (1 + 10 ** (depth_db / 20) * np.sin(2 * np.pi * hertz * MOMENTS)))


@pytest.mark.parametrize(("hertz", "depth_db"), list(zip(MODULATION_HZ, JUST_HEARD_DEPTH_DB, strict=True))[1:4])
def test_a_tone_whose_modulation_is_just_heard_is_at_zero(hertz: float, depth_db: float) -> None:
    heard = modulation_audibility(TONE, _modulated(TONE, hertz, depth_db))
    assert heard.worst == pytest.approx(0, abs=1)
    assert modulation_audibility(TONE, _modulated(TONE, hertz, depth_db + 6)).worst == pytest.approx(6, abs=1)


def test_noise_masks_modulation_that_is_heard_on_a_tone() -> None:
    noise = 0.1 * np.random.default_rng(0).normal(size=len(MOMENTS))
    on_noise = modulation_audibility(noise, _modulated(noise, 8, -15)).percentile_99
    on_tone = modulation_audibility(TONE, _modulated(TONE, 8, -15)).percentile_99
    assert on_noise < on_tone - 5


def test_what_is_not_changed_is_not_heard(speech: NDArray[np.float32]) -> None:
    heard = modulation_audibility(speech, speech)
    assert heard.worst < -50
    assert heard.share_heard == 0


def test_silence_has_nothing_to_hear() -> None:
    assert modulation_audibility(np.zeros(SAMPLE_RATE), np.zeros(SAMPLE_RATE)).share_heard == 0
