"""Audible disturbance of a mark, in the manner of PESQ and differentiable: loudness differences per band and frame.

Powers in Bark bands of 32-ms frames become loudness by a power law; a difference counts as far as it exceeds a tenth of
the smaller loudness, so that what is masked costs nothing. Measured on marks of one network at 38 dB below seven clips
of speech, with five shapes: PESQ = 4.57 − 28 · disturbance.
"""

from functools import cache

import torch
from torch import Tensor

from ideaw.audio.grid import SAMPLE_RATE

LOUDNESS_WINDOW_SAMPLES = 512
NUM_BARK_BANDS = 42
LOWEST_BAND_HZ, HIGHEST_BAND_HZ = 80.0, 7_900.0

LOUDNESS_EXPONENT = 0.23
"""Zwicker's power law from power to loudness."""

HEARING_THRESHOLD_POWER = 1e-5
"""Power in a band below which nothing is heard, relative to white audio of level 1."""

MASKED_LOUDNESS_SHARE = 0.1
"""Share of the smaller loudness by which the larger may differ unheard."""


def disturbance(marked: Tensor, host: Tensor) -> Tensor:
    """Root mean square of the audible loudness differences.

    Args:
        marked: (batch, samples).
        host: (batch, samples).

    Returns:
        (batch,).
    """
    rms = host.square().mean(-1, keepdim=True).clamp_min(1e-12).sqrt()
    host_loudness, marked_loudness = (_loudness(audio / rms) for audio in (host, marked))
    masked = MASKED_LOUDNESS_SHARE * torch.minimum(host_loudness, marked_loudness)
    audible = (host_loudness - marked_loudness).abs() - masked
    return (audible.clamp_min(0).square().mean((1, 2)) + 1e-12).sqrt()


def _loudness(audio: Tensor) -> Tensor:
    """(batch, samples) at level 1 → (batch, bands, frames)."""
    window = torch.hann_window(LOUDNESS_WINDOW_SAMPLES, device=audio.device)
    spectrum = torch.stft(
        audio,
        LOUDNESS_WINDOW_SAMPLES,
        LOUDNESS_WINDOW_SAMPLES // 2,
        window=window,
        center=True,
        pad_mode="constant",
        return_complex=True,
    )
    power = (spectrum.real.square() + spectrum.imag.square()) / window.square().sum()
    silence: float = HEARING_THRESHOLD_POWER**LOUDNESS_EXPONENT
    loudness: Tensor = (_bark_bands(audio.device) @ power + HEARING_THRESHOLD_POWER) ** LOUDNESS_EXPONENT
    return loudness - silence


@cache
def _bark_bands(device: torch.device) -> Tensor:
    """(bands, bins) of zeros and ones: which bins lie in which Bark band; bands without a bin are left out."""
    bin_hz = SAMPLE_RATE / LOUDNESS_WINDOW_SAMPLES
    bark = 6 * torch.asinh(torch.arange(LOUDNESS_WINDOW_SAMPLES // 2 + 1) * (bin_hz / 600))
    low, high = (6 * torch.asinh(torch.tensor(edge / 600)).item() for edge in (LOWEST_BAND_HZ, HIGHEST_BAND_HZ))
    edges = torch.linspace(low, high, NUM_BARK_BANDS + 1)
    inside = (bark >= edges[:-1, None]) & (bark < edges[1:, None])
    return inside[inside.any(1)].float().to(device)
