"""The torch forms of STFT, its inverse and the level are those of numpy, and a ring has no ends."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from ideaw.audio import spectrum as in_numpy
from ideaw.audio.grid import EDGE_SAMPLES, FRAMES_PER_SECOND, HOP_SAMPLES, NUM_BINS, SEGMENT_SAMPLES
from ideaw.nets.level import level
from ideaw.nets.stft import istft, stft

# Both sides compute in single precision, in another order.
SINGLE = 1e-5


def _apart(a: Tensor | NDArray[np.generic], b: Tensor | NDArray[np.generic]) -> float:
    """Largest difference relative to the largest value."""
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    return float((a - b).abs().max() / b.abs().max())


def test_stft_and_its_inverse_are_those_of_numpy(seconds: Tensor) -> None:
    spectrum = stft(seconds)
    assert spectrum.shape == (len(seconds), FRAMES_PER_SECOND, NUM_BINS)
    assert _apart(spectrum, in_numpy.stft(seconds.numpy())) < SINGLE
    extended = in_numpy.istft(spectrum.numpy())
    assert _apart(istft(spectrum), extended[:, EDGE_SAMPLES:-EDGE_SAMPLES]) < SINGLE


def test_audio_comes_back_from_its_spectrum(seconds: Tensor) -> None:
    back = istft(stft(seconds))
    assert back.shape == seconds.shape
    # At the ends windows are missing, so what is there fades; it is whole where four windows overlap.
    assert _apart(back[:, EDGE_SAMPLES:-EDGE_SAMPLES], seconds[:, EDGE_SAMPLES:-EDGE_SAMPLES]) < SINGLE


@pytest.mark.parametrize("hops", [2, 3, 64, 131])
def test_any_number_of_hops_gives_as_many_frames(seconds: Tensor, hops: int) -> None:
    samples = seconds.reshape(1, -1)[:, : hops * HOP_SAMPLES]
    spectrum = stft(samples)
    assert spectrum.shape == (1, hops, NUM_BINS)
    assert istft(spectrum).shape == samples.shape


def test_on_a_ring_the_end_runs_into_the_beginning(seconds: Tensor) -> None:
    around = stft(seconds, ring=True)
    tiled = stft(seconds.repeat(1, 3))[:, FRAMES_PER_SECOND : 2 * FRAMES_PER_SECOND]
    assert _apart(around, tiled) < SINGLE


def test_a_ring_comes_back_whole(seconds: Tensor) -> None:
    assert _apart(istft(stft(seconds, ring=True), ring=True), seconds) < SINGLE


def test_a_ring_turned_by_hops_has_its_frames_turned(seconds: Tensor) -> None:
    turned = stft(seconds.roll(-5 * HOP_SAMPLES, 1), ring=True)
    assert _apart(turned, stft(seconds, ring=True).roll(-5, 1)) < SINGLE


@pytest.mark.parametrize("gain", [1.0, 1e-3, 0.0])
def test_the_level_is_that_of_numpy(speech: NDArray[np.float32], gain: float) -> None:
    faded = speech * gain * np.linspace(0, 1, len(speech), dtype=np.float32)
    in_torch = level(torch.from_numpy(faded)[None])[0].numpy()
    # Single precision against double; the level is what audio is divided by, so its relative error counts.
    assert np.abs(in_torch / in_numpy.level(faded) - 1).max() < 1e-4
    assert in_torch.min() >= in_numpy.LEVEL_FLOOR * 0.9999


def test_the_level_of_a_steady_tone_is_its_rms() -> None:
    tone = 0.5 * torch.sin(torch.arange(2 * SEGMENT_SAMPLES) * (2 * torch.pi * 640 / SEGMENT_SAMPLES))
    assert torch.allclose(level(tone[None]), torch.tensor(0.5 / 2**0.5), rtol=1e-3)
