"""The domain that the blocks work in, and how a change there becomes a residual of the spectrum.

Spectra are pairs of numbers, (batch, frames, NUM_BINS, 2), so that the whole network can be exported. Streams are
squeezed: neighbouring bins become channels, (batch, channels, frames, bands).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ideaw.audio import masking
from ideaw.audio.grid import NUM_BINS, WINDOW_SAMPLES
from ideaw.nets.config import NetConfig

ENVELOPE_BINS = 9
"""Width of the moving average that gives the spectral envelope: 144 Hz."""

ENVELOPE_POWER_FLOOR = 1e-6
"""Power added to every bin's envelope, relative to white audio of level 1: below it everything is silence."""

LOG_OFFSET = 0.05
"""Power relative to the envelope that is added before the logarithm: deeper gaps all look alike."""

CONDITION_STRIDE_BINS = 3
"""The nets are conditioned on the envelope at every third bin of a band."""


class MagnitudeDomain:
    """Log-magnitudes relative to their envelope in the frame; phases stay as they are.

    Shifts, polarity and all-pass filters leave magnitudes alone and a phase vocoder keeps most of them; relative to
    the envelope, quiet and loud, speech and music look alike. The residual is the host itself, a little louder or
    softer in every bin, so the host masks it best.

    Args:
        config: Bins, squeeze, shaping and headroom.
    """

    def __init__(self, config: NetConfig) -> None:
        self.config = config
        self.condition_channels = len(range(1, config.squeeze, CONDITION_STRIDE_BINS))
        self._bands = masking.BarkBands.for_window(WINDOW_SAMPLES, config.bins).map_arrays(torch.from_numpy)

    def analyse(self, spectrum: Tensor) -> tuple[Tensor, Tensor]:
        """Split a spectrum into the host stream and the conditioning: the level of the envelope.

        Args:
            spectrum: (batch, frames, NUM_BINS, 2).

        Returns:
            (batch, channels, frames, bands) and (batch, condition_channels, frames, bands).
        """
        power = self._power(spectrum)
        smooth = envelope(power)
        levels = squeeze_bins(smooth.log(), 1, self.config.bands)[:, 1::CONDITION_STRIDE_BINS]
        return squeeze_bins(0.5 * (power / smooth + LOG_OFFSET).log(), 1, self.config.bands), 0.25 * levels

    def to_residual(self, spectrum: Tensor, change: Tensor) -> Tensor:
        """Turn a change of the host stream into a residual of its spectrum.

        Args:
            spectrum: (batch, frames, NUM_BINS, 2) of the host.
            change: (batch, channels, frames, bands).

        Returns:
            (batch, frames, NUM_BINS, 2).
        """
        power = self._power(spectrum)
        gain = unsqueeze_bins(change, 1) * envelope(power) ** ((self.config.shaping - 1) / 2)
        if self.config.headroom is not None:
            gain = gain * self._masking_gain(power, gain.square() * power, self.config.headroom)
        return F.pad(spectrum[..., : self.config.bins, :] * gain[..., None], (0, 0, 0, NUM_BINS - self.config.bins))

    def _masking_gain(self, host: Tensor, residual: Tensor, headroom: float) -> Tensor:
        """Gains (batch, frames, bins) that keep every band of the residual within `headroom` dB above the curve.

        Args:
            host: (batch, frames, bins) power.
            residual: (batch, frames, bins) power.
            headroom: dB.
        """
        bands = self._bands.map_arrays(lambda part: part.to(host.device))
        allowed = masking.masking_curve(host, bands, torch.log10) * 10 ** (headroom / 10)
        band_power = residual @ bands.inside.T
        gain: Tensor = (allowed / band_power.clamp_min(ENVELOPE_POWER_FLOOR)).clamp_max(1).sqrt() @ bands.inside
        return gain

    def _power(self, spectrum: Tensor) -> Tensor:
        """(batch, frames, NUM_BINS, 2) → (batch, frames, bins)."""
        return spectrum[..., : self.config.bins, :].square().sum(-1)


class SpectrumDomain:
    """The complex spectrum as it is: the paper's choice.

    Args:
        config: Bins and squeeze.
    """

    condition_channels = 0

    def __init__(self, config: NetConfig) -> None:
        self.config = config

    def analyse(self, spectrum: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, frames, NUM_BINS, 2) → the host stream (batch, channels, frames, bands), and no conditioning."""
        components = spectrum[..., : self.config.bins, :].transpose(2, 3).flatten(2)
        stream = squeeze_bins(components, 2, self.config.bands)
        return stream, stream[:, :0]

    def to_residual(self, spectrum: Tensor, change: Tensor) -> Tensor:
        """(batch, channels, frames, bands) → the same change as (batch, frames, NUM_BINS, 2)."""
        pairs = torch.unflatten(unsqueeze_bins(change, 2), 2, (2, -1)).transpose(2, 3)
        return F.pad(pairs, (0, 0, 0, NUM_BINS - self.config.bins))


def envelope(power: Tensor) -> Tensor:
    """(batch, frames, bins) power → its moving average over the bins of a frame, plus ENVELOPE_POWER_FLOOR."""
    # Sums of three sums of three: on a CPU a seventh of the time of a pooling layer.
    padded = F.pad(power, (ENVELOPE_BINS // 2, ENVELOPE_BINS // 2))
    threes = padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:]
    return (threes[..., :-6] + threes[..., 3:-3] + threes[..., 6:]) / ENVELOPE_BINS + ENVELOPE_POWER_FLOOR


def squeeze_bins(stream: Tensor, components: int, bands: int) -> Tensor:
    """(batch, frames, components · bins) → (batch, channels, frames, bands): neighbouring bins become channels."""
    # Component by component, since five axes at once are seven times as slow to move on a CPU as four.
    parts = [torch.unflatten(part, 2, (bands, -1)).permute(0, 3, 1, 2) for part in stream.chunk(components, 2)]
    squeezed = torch.cat(parts, 1)
    return squeezed.contiguous(memory_format=torch.channels_last) if squeezed.is_cuda else squeezed


def unsqueeze_bins(squeezed: Tensor, components: int) -> Tensor:
    """(batch, channels, frames, bands) → (batch, frames, components · bins): the inverse of `squeeze_bins`."""
    return torch.cat([part.permute(0, 2, 3, 1).flatten(2) for part in squeezed.chunk(components, 1)], 2)
