"""Carriers: how the slots of a second become a watermark stream, and are found in one (the paper's length regulators).

A stream has a number for every frame and bin; that of one second is a ring, because a mark is tiled through a file.
Ours are drawn from a key: every slot owns tiles of time and frequency, each with a sign, and looks for the same. The
network carries any such drawing, so a key chooses where the bits are, and messages of any length share one network.
"""

import hashlib
import hmac
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES

TILE = (4, 2)
"""Frames and bins of a tile: 62 ms by 32 Hz."""


@dataclass(frozen=True)
class Carriers:
    """`write` and `read` (slots, pieces): what each slot adds to the tiles of a second, and looks for in them."""

    write: NDArray[np.float32]
    read: NDArray[np.float32]
    tile: tuple[int, int]

    def stream(self, slots: NDArray[np.floating]) -> NDArray[np.float32]:
        """(…, slots) of −1 and +1 → (…, FRAMES, bins)."""
        times, pieces = FRAMES // self.tile[0], slots.astype(np.float32) @ self.write
        pieces = pieces.reshape(*slots.shape[:-1], times, self.write.shape[1] // times)
        return pieces.repeat(self.tile[0], -2).repeat(self.tile[1], -1)

    def narrow(self, stream: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, bins) → (…, bins / tile): the first half of `pieces`, for streams that begin at any frame."""
        return stream.reshape(*stream.shape[:-1], -1, self.tile[1]).sum(-1)

    def pieces(self, narrow: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, FRAMES, bins / tile) → (…, pieces): the sum over each tile of a second."""
        *batch, frames, ranges = narrow.shape
        summed = narrow.reshape(*batch, frames // self.tile[0], self.tile[0], ranges).sum(-2)
        return summed.reshape(*batch, -1)

    def logits(self, narrow: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, FRAMES, bins / tile) → (…, slots), positive for 1."""
        return self.pieces(narrow) @ self.read.T


def drawn(slots: int, bins: int, key: bytes, label: bytes) -> Carriers:
    """The carriers that belong to a key: every slot has as many tiles in each range of frequencies as any other."""
    tiles = FRAMES // TILE[0] * (bins // TILE[1])
    mine = np.zeros((slots, tiles), np.float32)
    if slots:
        owner, sign = deal(slots, bins, key, label)
        mine[owner.ravel(), np.arange(tiles)] = sign.ravel()
    return Carriers(mine, mine, TILE)


def deal(slots: int, bins: int, key: bytes, label: bytes) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Owner and sign (times, ranges) of every tile of a second."""
    times, ranges = FRAMES // TILE[0], bins // TILE[1]
    rounds = -(-times * ranges // slots)
    secret = hmac.digest(key, label, hashlib.sha256)
    numbers = np.frombuffer(hashlib.shake_256(secret).digest(8 * rounds * slots), "<u8").reshape(rounds, slots)
    owner = np.argsort(numbers, 1, "stable").ravel()[: times * ranges].reshape(ranges, times).T
    sign = 1 - 2 * (numbers.ravel()[: times * ranges] & 1).astype(np.float32).reshape(ranges, times).T
    return owner, sign
