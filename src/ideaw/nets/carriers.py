"""Spread-spectrum carriers in torch: keyed ones as in `modem/carriers.py`, here as dense maps for training.

A slot is one coded bit, ±1. A stream is one number per STFT frame and bin; it repeats every second, so that a segment
may begin at any frame (its *phase*) of that ring.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.modem import carriers as modem

TILE_FRAMES = {"message": modem.MESSAGE_TILE_FRAMES, "code": modem.CODE_TILE_FRAMES}
"""Watermark → lengths of its tiles."""


@dataclass(frozen=True)
class Carriers:
    """Spreading and matched-filter maps of the slots of one watermark.

    Attributes:
        write: (slots, FRAMES_PER_SECOND, width), what a slot adds to a stream.
        read: The same shape, what a slot is correlated with.
    """

    write: Tensor
    read: Tensor

    def stream(self, slots: Tensor, phase: Tensor | None) -> Tensor:
        """Spread slots over a second.

        Args:
            slots: (batch, slots) within −1 … +1.
            phase: (batch,) frame of the ring that each row begins with; None: 0.

        Returns:
            (batch, FRAMES_PER_SECOND, width).
        """
        return rotate_ring(torch.unflatten(slots @ self.write.flatten(1), 1, self.write.shape[1:]), phase)

    def slot_llrs(self, stream: Tensor, phase: Tensor | None) -> Tensor:
        """Despread: (batch, FRAMES_PER_SECOND, width) at a phase → (batch, slots) of LLRs, positive for +1."""
        ring = rotate_ring(stream, None if phase is None else -phase)
        return ring.flatten(1) @ self.read.flatten(1).T


@cache
def keyed_carriers(slots: int, bins: int, key_label: str, watermark: str, device: str) -> Carriers:
    """Carriers drawn from a label that is no user's key, so that the network overfits to nobody's.

    Args:
        slots: Number of slots.
        bins: Width of the stream.
        key_label: What the tiles are drawn from.
        watermark: "message" or "code".
        device: Where the maps lie.
    """
    drawn = modem.keyed_carriers(slots, bins, key_label.encode(), watermark.encode(), TILE_FRAMES[watermark])
    maps = torch.from_numpy(drawn.stream(np.eye(slots))).to(device)
    return Carriers(maps, maps)


def rotate_ring(ring: Tensor, phase: Tensor | None) -> Tensor:
    """(batch, FRAMES_PER_SECOND, width) rotated so that each row begins at its own frame `phase` (batch,)."""
    if phase is None:
        return ring
    index = (torch.arange(FRAMES_PER_SECOND, device=ring.device) + phase[:, None]) % FRAMES_PER_SECOND
    return ring.gather(1, index[:, :, None].expand_as(ring))
