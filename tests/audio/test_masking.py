"""The masking curve: tones mask less than noise, neighbours are masked, and levels do not matter."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.audio.grid import NUM_BINS, SAMPLE_RATE, WINDOW_SAMPLES
from ideaw.audio.masking import BarkBands, masking_curve
from ideaw.audio.spectrum import stft

BANDS = BarkBands.for_window(WINDOW_SAMPLES, NUM_BINS)


def _curve(power: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(masking_curve(power, BANDS, np.log10))


def _power(audio: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.square(np.abs(stft(audio.astype(np.float32))), dtype=np.float64)


def test_every_bin_is_in_one_band() -> None:
    assert np.array_equal(BANDS.inside.sum(0), np.ones(NUM_BINS))
    assert (BANDS.inside.sum(1) >= 1).all()
    assert (np.diff(BANDS.hertz) > 0).all()
    assert np.diff(BANDS.bark).max() < 0.8  # half a Bark, and at low frequencies the next bin
    assert BANDS.spreading.sum(1) == pytest.approx(1, rel=1e-5)


def test_noise_masks_more_than_a_tone() -> None:
    moments = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    noise = np.random.default_rng(0).standard_normal(SAMPLE_RATE)
    tone = np.sqrt(2) * np.sin(2 * np.pi * 2_000 * moments) + 0.003 * noise  # as recordings are
    at = int(np.abs(BANDS.hertz - 2_000).argmin())
    below = {}
    for name, audio in (("tone", tone), ("noise", noise)):
        power = _power(audio)[10:50]
        energy = power @ BANDS.inside.T
        below[name] = 10 * np.log10(energy[:, at] / _curve(power)[:, at]).mean()
    assert 5 < below["noise"] < 10
    assert 20 < below["tone"] < 35


def test_a_tone_masks_its_neighbours_and_more_above_than_below() -> None:
    power = np.zeros((1, NUM_BINS))
    power[0, round(2_000 * WINDOW_SAMPLES / SAMPLE_RATE)] = 1e4
    levels = 10 * np.log10(_curve(power)[0])
    at = int(levels.argmax())
    assert abs(BANDS.hertz[at] - 2_000) < 150
    assert (np.diff(levels[at - 8 : at + 1]) > 0).all()
    assert (np.diff(levels[at : at + 8]) < 0).all()
    assert levels[at + 4] > levels[at - 4] + 10


def test_louder_audio_masks_as_much_more(strings: NDArray[np.float32]) -> None:
    power = _power(strings[:SAMPLE_RATE] / strings.std()) + 1e-3  # far above what is nothing
    assert _curve(100 * power) == pytest.approx(100 * _curve(power), rel=0.01)


def test_numpy_and_torch_agree(speech: NDArray[np.float32]) -> None:
    power = _power(speech[:SAMPLE_RATE] / speech.std())
    bands = BANDS.map_arrays(lambda part: torch.from_numpy(part).double())
    assert np.allclose(masking_curve(torch.from_numpy(power), bands, torch.log10).numpy(), _curve(power), rtol=1e-5)


def test_noise_is_noise_however_far_up_it_goes() -> None:
    noise = np.random.default_rng(0).standard_normal(SAMPLE_RATE)
    at = int(np.abs(BANDS.hertz - 2_000).argmin())
    below = []
    for cutoff in (8_000, 6_000, 3_400):
        power = (
            _power(catalogue.run("lowpass", noise, SAMPLE_RATE, cutoff=float(cutoff), order=12))
            if cutoff < 8_000
            else _power(noise)
        )
        below.append(float(10 * np.log10((power @ BANDS.inside.T)[10:50, at] / _curve(power)[10:50, at]).mean()))
    assert max(below) - min(below) < 4
