"""Length regulators: linear maps between bits and a signal as long as a segment (the paper's LR1–LR4).

The signal is a ring of one second. A regulator that starts with carriers of its own for every bit, and a
reader that starts as its transpose, make the untrained network a working spread-spectrum mark: both sides
have a gradient from the first step.
"""

import torch
from torch import Tensor, nn

from ideaw.audio.grid import BINS, FRAMES, SEGMENT, WINDOW
from ideaw.nets.spectrum import istft

TILE_FRAMES, TILE_BINS = 4, 10
"""Size of a tile: 62 ms by 160 Hz."""

READING = 0.02
"""Gain of a reader at the start, so that its logits are of order 1."""


class Regulators(nn.Module):
    """Bits to a ring signal and back: LR1 with LR3 for the message, LR2 with LR4 for the code."""

    def __init__(self, bits: int, kind: str, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        start = {"tiles": tiles, "noise": noise}[kind](bits, generator)
        self.write = nn.Parameter(start)
        self.read = nn.Parameter(READING * start)
        self.offset = nn.Parameter(torch.zeros(bits))

    def to_signal(self, bits: Tensor) -> Tensor:
        """(batch, bits) of −1 … +1 → (batch, SEGMENT)."""
        return bits @ self.write

    def to_bits(self, signal: Tensor) -> Tensor:
        """(batch, SEGMENT) → logits (batch, bits), positive for 1."""
        return signal @ self.read.T + self.offset


def noise(bits: int, generator: torch.Generator) -> Tensor:
    """Carriers of white noise, (bits, SEGMENT), whose sum has variance 1."""
    return torch.randn(bits, SEGMENT, generator=generator) / bits**0.5


def tiles(bits: int, generator: torch.Generator) -> Tensor:
    """Carriers of noise on tiles of time and frequency, dealt out so that every bit has as many in each band.

    A convolution then sees a whole decision: what is in one tile belongs to one bit. (bits, SEGMENT),
    their sum has variance 1.
    """
    slots, bands = FRAMES // TILE_FRAMES, (BINS - 1) // TILE_BINS
    deal = torch.cat([torch.randperm(bits, generator=generator) for _ in range(-(-slots * bands // bits))])
    owner = deal[: slots * bands].view(bands, slots).T
    owner = owner.repeat_interleave(TILE_FRAMES, 0).repeat_interleave(TILE_BINS, 1)
    mine = torch.zeros(bits, FRAMES, BINS)
    mine[:, :, : owner.shape[1]] = owner == torch.arange(bits)[:, None, None]
    spectrum = torch.randn(FRAMES, BINS, generator=generator, dtype=torch.complex64) * (WINDOW / 2) ** 0.5
    signal = istft(mine * spectrum, ring=True)
    return signal / signal.sum(0).std()
