"""The STFT pair and the level in torch: `audio/spectrum.py` and `audio/level.py`, batched and with gradients.

The watermark's own signals live on a ring of one second (its end runs into its beginning), because a mark
is tiled through a file; audio lives on a line with silence around it.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from ideaw.audio.grid import EDGE_SAMPLES, FRAMES_PER_SECOND, HOP_SAMPLES, WINDOW_SAMPLES
from ideaw.audio.level import FLOOR
from ideaw.audio.stft import HANN, OVERLAP, SCALE


def stft(samples: Tensor, ring: bool = False) -> Tensor:
    """(batch, hops · HOP_SAMPLES) → (batch, hops, BINS) complex; around them silence, or themselves on a ring."""
    padded = F.pad(samples[:, None], (EDGE_SAMPLES, EDGE_SAMPLES), mode="circular" if ring else "constant")[:, 0]
    frames = padded.unfold(-1, WINDOW_SAMPLES, HOP_SAMPLES)
    return torch.fft.rfft(frames * _window(samples, float(SCALE)), dim=-1)


def istft(spectrum: Tensor, ring: bool = False) -> Tensor:
    """(batch, hops, BINS) complex → (batch, hops · HOP_SAMPLES); on a ring the ends are folded in, else cut off."""
    frames = torch.fft.irfft(spectrum, WINDOW_SAMPLES, dim=-1)
    frames = frames * _window(frames, 1 / (OVERLAP * float(SCALE)))
    batch, hops, _ = frames.shape
    length = hops * HOP_SAMPLES
    quarters = frames.view(batch, hops, WINDOW_SAMPLES // HOP_SAMPLES, HOP_SAMPLES).unbind(2)
    out = sum(F.pad(quarter, (0, 0, i, WINDOW_SAMPLES // HOP_SAMPLES - 1 - i)) for i, quarter in enumerate(quarters))
    assert isinstance(out, Tensor)
    line = out.reshape(batch, length + 2 * EDGE_SAMPLES)
    if not ring:
        return line[:, EDGE_SAMPLES : EDGE_SAMPLES + length]
    inner = line[:, EDGE_SAMPLES : EDGE_SAMPLES + length]
    before = F.pad(line[:, :EDGE_SAMPLES], (length - EDGE_SAMPLES, 0))
    after = F.pad(line[:, EDGE_SAMPLES + length :], (0, length - EDGE_SAMPLES))
    return inner + before + after


def level(samples: Tensor) -> Tensor:
    """(batch, hops · HOP_SAMPLES) → RMS over the second around each sample, the same shape, at least FLOOR."""
    power = samples.square().unflatten(-1, (-1, HOP_SAMPLES)).mean(-1)[:, None]
    box = torch.ones(1, 1, FRAMES_PER_SECOND + 1, dtype=power.dtype, device=power.device)
    near = F.conv1d(power, box, padding=FRAMES_PER_SECOND // 2)
    count = F.conv1d(torch.ones_like(power[:1]), box, padding=FRAMES_PER_SECOND // 2)
    around = (near / count).clamp_min(FLOOR**2).sqrt()
    return F.interpolate(around, scale_factor=HOP_SAMPLES, mode="linear", align_corners=False)[:, 0]


def _window(like: Tensor, gain: float) -> Tensor:
    return _hann(like.dtype, like.device) * gain


@cache
def _hann(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.as_tensor(HANN, dtype=dtype, device=device)
