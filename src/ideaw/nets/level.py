"""Level of audio in torch, as in `audio/spectrum.py`, but batched; and the SNR of a residual."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES
from ideaw.audio.spectrum import LEVEL_FLOOR


def level(samples: Tensor) -> Tensor:
    """(batch, hops · HOP_SAMPLES) → RMS over the second around each sample, the same shape, at least LEVEL_FLOOR."""
    power = torch.unflatten(samples.square(), -1, (-1, HOP_SAMPLES)).mean(-1)[:, None]
    box = torch.ones(1, 1, FRAMES_PER_SECOND + 1, dtype=power.dtype, device=power.device)
    total = F.conv1d(power, box, padding=FRAMES_PER_SECOND // 2)
    count = F.conv1d(torch.ones_like(power[:1]), box, padding=FRAMES_PER_SECOND // 2)
    rms = (total / count).clamp_min(LEVEL_FLOOR**2).sqrt()
    return F.interpolate(rms, scale_factor=HOP_SAMPLES, mode="linear", align_corners=False)[:, 0]


def scale_to_snr(residual: Tensor, audio: Tensor, snr: Tensor | float) -> Tensor:
    """The residual at exactly `snr` dB below the audio, row by row.

    Args:
        residual: (batch, samples).
        audio: (batch, samples), the host.
        snr: dB, one for all or (batch,).
    """
    allowed = audio.norm(dim=-1) * 10 ** (-torch.as_tensor(snr, device=audio.device) / 20)
    gain: Tensor = allowed / residual.norm(dim=-1).clamp_min(1e-9)
    return residual * gain[:, None]
