"""The STFT pair and the level in torch: `audio/spectrum.py` and `audio/level.py`, batched and with gradients.

The watermark's own signals live on a ring of one second (its end runs into its beginning), because a mark
is tiled through a file; audio lives on a line with silence around it.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from ideaw.audio.grid import EDGE, FRAMES, HOP, WINDOW
from ideaw.audio.level import FLOOR
from ideaw.audio.spectrum import HANN, OVERLAP, SCALE


def stft(samples: Tensor, ring: bool = False) -> Tensor:
    """(batch, hops · HOP) → (batch, hops, BINS) complex; around them silence, or themselves on a ring."""
    padded = F.pad(samples[:, None], (EDGE, EDGE), mode="circular" if ring else "constant")[:, 0]
    frames = padded.unfold(-1, WINDOW, HOP)
    return torch.fft.rfft(frames * _window(samples, float(SCALE)), dim=-1)


def istft(spectrum: Tensor, ring: bool = False) -> Tensor:
    """(batch, hops, BINS) complex → (batch, hops · HOP); on a ring the ends are folded in, else cut off."""
    frames = torch.fft.irfft(spectrum, WINDOW, dim=-1)
    frames = frames * _window(frames, 1 / (OVERLAP * float(SCALE)))
    batch, hops, _ = frames.shape
    length = hops * HOP
    quarters = frames.view(batch, hops, WINDOW // HOP, HOP).unbind(2)
    out = sum(F.pad(quarter, (0, 0, i, WINDOW // HOP - 1 - i)) for i, quarter in enumerate(quarters))
    assert isinstance(out, Tensor)
    line = out.reshape(batch, length + 2 * EDGE)
    if not ring:
        return line[:, EDGE : EDGE + length]
    inner = line[:, EDGE : EDGE + length]
    before = F.pad(line[:, :EDGE], (length - EDGE, 0))
    after = F.pad(line[:, EDGE + length :], (0, length - EDGE))
    return inner + before + after


def level(samples: Tensor) -> Tensor:
    """(batch, hops · HOP) → RMS over the second around each sample, the same shape, at least FLOOR."""
    power = samples.square().unflatten(-1, (-1, HOP)).mean(-1)[:, None]
    box = torch.ones(1, 1, FRAMES + 1, dtype=power.dtype, device=power.device)
    near = F.conv1d(power, box, padding=FRAMES // 2)
    count = F.conv1d(torch.ones_like(power[:1]), box, padding=FRAMES // 2)
    around = (near / count).clamp_min(FLOOR**2).sqrt()
    return F.interpolate(around, scale_factor=HOP, mode="linear", align_corners=False)[:, 0]


def _window(like: Tensor, gain: float) -> Tensor:
    return _hann(like.dtype, like.device) * gain


@cache
def _hann(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.as_tensor(HANN, dtype=dtype, device=device)
