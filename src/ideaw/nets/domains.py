"""What the blocks work on, and how a change of it becomes a residual of the spectrum.

Spectra are pairs of numbers, (batch, frames, NUM_BINS, 2), so that the whole network can be exported. Streams are
squeezed: neighbouring bins become channels, (batch, channels, frames, bands).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ideaw.audio import masking
from ideaw.audio.grid import NUM_BINS, WINDOW_SAMPLES
from ideaw.nets.config import NetConfig

NEAR = 9
"""Bins over which the envelope is taken: 144 Hz."""

SILENCE = 1e-6
"""Power below which everything is silence, relative to white audio of level 1."""

GAP = 0.05
"""Power, relative to that around it, below which a bin is a gap whatever it holds."""

EVERY = 3
"""The nets are told the envelope at every so-manieth bin."""


class Magnitudes:
    """Logarithms of the magnitudes, relative to their envelope in the frame; phases stay as they are.

    Shifts, polarity and all-pass filters leave magnitudes alone and a phase vocoder keeps most of them; relative to
    the envelope, quiet and loud, speech and music look alike. The residual is the host itself, a little louder or
    softer in every bin, so it is heard least.
    """

    def __init__(self, config: NetConfig) -> None:
        self.config = config
        self.side = len(range(1, config.squeeze, EVERY))
        self._bands = masking.Bands.of(WINDOW_SAMPLES, config.bins).each(torch.from_numpy)

    def look(self, spectrum: Tensor) -> tuple[Tensor, Tensor]:
        """A spectrum → the host stream, and the envelope's level, which the nets are told besides."""
        power = self._power(spectrum)
        around = envelope(power)
        levels = fold(around.log(), 1, self.config.bands)[:, 1::EVERY]
        return fold(0.5 * (power / around + GAP).log(), 1, self.config.bands), 0.25 * levels

    def residual(self, spectrum: Tensor, change: Tensor) -> Tensor:
        """What a change of the stream does to the spectrum."""
        power = self._power(spectrum)
        gain = unfold(change, 1) * envelope(power) ** ((self.config.shaping - 1) / 2)
        if self.config.headroom is not None:
            gain = gain * self._softening(power, gain.square() * power, self.config.headroom)
        return F.pad(spectrum[..., : self.config.bins, :] * gain[..., None], (0, 0, 0, NUM_BINS - self.config.bins))

    def _softening(self, host: Tensor, residual: Tensor, headroom: float) -> Tensor:
        """(batch, frames, bins) powers → gains: no band of the residual is more than `headroom` dB above the curve."""
        bands = self._bands.each(lambda part: part.to(host.device))
        allowed = masking.curve(host, bands, torch.log10) * 10 ** (headroom / 10)
        there = residual @ bands.inside.T
        return (allowed / there.clamp_min(SILENCE)).clamp_max(1).sqrt() @ bands.inside

    def _power(self, spectrum: Tensor) -> Tensor:
        return spectrum[..., : self.config.bins, :].square().sum(-1)


class Spectrum:
    """The complex spectrum as it is: the paper's choice."""

    side = 0

    def __init__(self, config: NetConfig) -> None:
        self.config = config

    def look(self, spectrum: Tensor) -> tuple[Tensor, Tensor]:
        """A spectrum → the host stream, and nothing besides."""
        stream = fold(spectrum[..., : self.config.bins, :].transpose(2, 3).flatten(2), 2, self.config.bands)
        return stream, stream[:, :0]

    def residual(self, spectrum: Tensor, change: Tensor) -> Tensor:
        """What a change of the stream does to the spectrum: the same."""
        pairs = unfold(change, 2).unflatten(2, (2, -1)).transpose(2, 3)
        return F.pad(pairs, (0, 0, 0, NUM_BINS - self.config.bins))


def envelope(power: Tensor) -> Tensor:
    """(batch, frames, bins) power → the mean power around every bin, in its frame."""
    # Sums of three sums of three: on a CPU a seventh of the time of a moving mean.
    padded = F.pad(power, (NEAR // 2, NEAR // 2))
    threes = padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:]
    return (threes[..., :-6] + threes[..., 3:-3] + threes[..., 6:]) / NEAR + SILENCE


def fold(lines: Tensor, parts: int, bands: int) -> Tensor:
    """(batch, frames, parts · bins) → (batch, channels, frames, bands): neighbouring bins become channels."""
    # Part by part, since five axes at once are seven times as slow to move on a CPU as four.
    folded = torch.cat([part.unflatten(2, (bands, -1)).permute(0, 3, 1, 2) for part in lines.chunk(parts, 2)], 1)
    return folded.contiguous(memory_format=torch.channels_last) if folded.is_cuda else folded


def unfold(folded: Tensor, parts: int) -> Tensor:
    """The way back."""
    return torch.cat([part.permute(0, 2, 3, 1).flatten(2) for part in folded.chunk(parts, 1)], 2)
