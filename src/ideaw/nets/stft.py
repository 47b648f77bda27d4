"""The STFT pair in torch: `audio/spectrum.py`, batched and with gradients.

The watermark's own signals live on a ring of one second (circular extension), because a mark is tiled through a file;
audio is extended by silence.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from ideaw.audio.grid import EDGE_SAMPLES, HOP_SAMPLES, WINDOW_SAMPLES
from ideaw.audio.spectrum import HANN_WINDOW, SPECTRUM_SCALE, WINDOW_POWER_SUM


def stft(samples: Tensor, ring: bool = False) -> Tensor:
    """Forward transform.

    Args:
        samples: (batch, hops · HOP_SAMPLES).
        ring: Extend circularly instead of by silence.

    Returns:
        (batch, hops, NUM_BINS) complex.
    """
    padded = F.pad(samples[:, None], (EDGE_SAMPLES, EDGE_SAMPLES), mode="circular" if ring else "constant")[:, 0]
    frames = padded.unfold(-1, WINDOW_SAMPLES, HOP_SAMPLES)
    spectrum: Tensor = torch.fft.rfft(frames * _window(samples, float(SPECTRUM_SCALE)), dim=-1)
    return spectrum


def istft(spectrum: Tensor, ring: bool = False) -> Tensor:
    """Inverse transform by overlap-add.

    Args:
        spectrum: (batch, hops, NUM_BINS) complex.
        ring: Fold what lies beyond the ends in again; else it is cut off.

    Returns:
        (batch, hops · HOP_SAMPLES).
    """
    frames = torch.fft.irfft(spectrum, WINDOW_SAMPLES, dim=-1)
    frames = frames * _window(frames, 1 / (WINDOW_POWER_SUM * float(SPECTRUM_SCALE)))
    batch, hops, _ = frames.shape
    length = hops * HOP_SAMPLES
    quarters = frames.view(batch, hops, WINDOW_SAMPLES // HOP_SAMPLES, HOP_SAMPLES).unbind(2)
    summed = sum(F.pad(quarter, (0, 0, i, WINDOW_SAMPLES // HOP_SAMPLES - 1 - i)) for i, quarter in enumerate(quarters))
    assert isinstance(summed, Tensor)
    extended = summed.reshape(batch, length + 2 * EDGE_SAMPLES)
    inner = extended[:, EDGE_SAMPLES : EDGE_SAMPLES + length]
    if not ring:
        return inner
    before = F.pad(extended[:, :EDGE_SAMPLES], (length - EDGE_SAMPLES, 0))
    after = F.pad(extended[:, EDGE_SAMPLES + length :], (0, length - EDGE_SAMPLES))
    return inner + before + after


def _window(like: Tensor, gain: float) -> Tensor:
    return _hann(like.dtype, like.device) * gain


@cache
def _hann(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.as_tensor(HANN_WINDOW, dtype=dtype, device=device)
