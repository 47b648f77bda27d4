"""Carriers in torch: `payload/carriers.py` for training, and the paper's own, which are learned.

The paper's length regulators are signals as long as the segment, a pair for each bit. Ours are drawn, not learned.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from ideaw.audio.grid import FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.modem import carriers
from ideaw.nets.config import NetConfig
from ideaw.nets.spectrum import stft

BAND = 2
"""Bins that a slot holds side by side, where learned carriers start."""


@dataclass(frozen=True)
class Carriers:
    """`write` and `read` (slots, FRAMES_PER_SECOND, width): what a slot adds to a stream, and what it looks for in one."""

    write: Tensor
    read: Tensor

    def stream(self, slots: Tensor, phase: Tensor | None) -> Tensor:
        """(batch, slots) of −1 … +1 → (batch, FRAMES_PER_SECOND, width), each beginning at its own frame of the ring."""
        return turn((slots @ self.write.flatten(1)).unflatten(1, self.write.shape[1:]), phase)

    def logits(self, stream: Tensor, phase: Tensor | None) -> Tensor:
        """(batch, FRAMES_PER_SECOND, width) → (batch, slots), positive for 1."""
        return turn(stream, None if phase is None else -phase).flatten(1) @ self.read.flatten(1).T


@cache
def drawn(slots: int, bins: int, owner: str, kind: str, device: str) -> Carriers:
    """Carriers (slots, FRAMES_PER_SECOND, bins) that no user has, so that the network learns none of theirs by heart."""
    lengths = {"message": carriers.MESSAGE_LENGTHS, "code": carriers.CODE_LENGTHS}[kind]
    found = carriers.drawn(slots, bins, owner.encode(), kind.encode(), lengths)
    maps = torch.from_numpy(found.stream(np.eye(slots))).to(device)
    return Carriers(maps, maps)


class LearnedSignals(nn.Module):
    """The paper's length regulators: LR1 with LR3 for the message, LR2 with LR4 for the code."""

    def __init__(self, config: NetConfig, slots: int, generator: torch.Generator) -> None:
        super().__init__()
        self.bins = config.bins
        start = torch.randn(slots, SEGMENT_SAMPLES, generator=generator) / slots**0.5
        self.write = nn.Parameter(start)
        self.read = nn.Parameter(0.02 * start)

    def forward(self) -> Carriers:
        return Carriers(self._spectrum(self.write), self._spectrum(self.read))

    def _spectrum(self, signals: Tensor) -> Tensor:
        spectrum = stft(signals, ring=True)[..., : self.bins]
        return torch.cat([spectrum.real, spectrum.imag], -1)


class LearnedStreams(nn.Module):
    """Length regulators of a network on magnitudes, which has no signals to learn: a number for every frame and bin.

    They start as bands that a slot holds for half of the ring with one sign and for half with the other. A slow pattern
    is read far off its place, and one without a mean does not take a steady tone of the host for a bit.
    """

    def __init__(self, config: NetConfig, slots: int, generator: torch.Generator) -> None:
        super().__init__()
        bands = config.bins // BAND
        rounds = -(-bands // max(1, slots))
        owner = torch.rand(rounds, slots, generator=generator).argsort(1).flatten()[:bands]
        sign = torch.randint(2, (bands,), generator=generator) * 2.0 - 1
        held = torch.zeros(slots, bands)
        if slots:
            held[owner, torch.arange(bands)] = sign
        half = torch.ones(FRAMES_PER_SECOND, 1)
        half[FRAMES_PER_SECOND // 2 :] = -1
        start = half * held.repeat_interleave(BAND, 1)[:, None]
        self.write = nn.Parameter(start)
        self.read = nn.Parameter(start.clone())

    def forward(self) -> Carriers:
        return Carriers(self.write, self.read)


def turn(ring: Tensor, phase: Tensor | None) -> Tensor:
    """(batch, FRAMES_PER_SECOND, width) turned so that each begins at its own frame `phase` (batch,)."""
    if phase is None:
        return ring
    index = (torch.arange(FRAMES_PER_SECOND, device=ring.device) + phase[:, None]) % FRAMES_PER_SECOND
    return ring.gather(1, index[:, :, None].expand_as(ring))
