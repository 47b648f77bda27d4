"""Carriers: how the slots of a second become a watermark stream, and are found in one (the paper's length regulators).

A stream has a number for every frame and bin; that of one second is a ring, because a mark is tiled through a file.
Ours are drawn from a key: every slot owns tiles of time and frequency, each with a sign, and looks for the same. The
network carries any such drawing, so a key chooses where the bits are, and messages of any length share one network.
"""

import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND

TILE_BINS = 2
"""Bins of a tile: 32 Hz."""

TileFrames = Mapping[int, int]
"""First bin → frames of the tiles from there on."""

CODE_TILE_FRAMES: TileFrames = {0: 4}
"""Of the locating code: 62 ms everywhere. The shorter they are, the more signs there are to tell a mark from music."""

MESSAGE_TILE_FRAMES: TileFrames = {0: 4, 240: 8}
"""Of messages: 62 ms, and 125 from 3.8 kHz on.

Longer ones stand a phase vocoder better, which smears as much. Lower down they would be too few where a low-pass or a
lower rate leaves nothing else.
"""


@dataclass(frozen=True)
class TileBand:
    """Ranges of frequencies, from the first on and before the last, with tiles of as many frames."""

    first: int
    last: int
    frames: int

    @property
    def time_tiles(self) -> int:
        """Tiles of a range in a second."""
        return FRAMES_PER_SECOND // self.frames

    @property
    def freq_tiles(self) -> int:
        return self.last - self.first

    @property
    def tiles(self) -> int:
        """Tiles of all its ranges in a second."""
        return self.time_tiles * self.freq_tiles


@dataclass(frozen=True, eq=False)
class Carriers(ABC):
    """The slots of a second, as numbers in its tiles."""

    slots: int
    width: int
    """Bins of a tile."""
    bands: tuple[TileBand, ...]
    """All ranges; the tiles of a second are those of the first of these, then those of the next."""

    @abstractmethod
    def modulate(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """(…, slots) → (…, tiles): what these values add to the tiles of a second."""

    @abstractmethod
    def template(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """(…, slots) → (…, tiles): what is looked for in the tiles of a second that has these values."""

    @abstractmethod
    def despread(self, tiles: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, tiles) → (…, slots): how much the tiles of a second say for each slot."""

    def stream(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """(…, slots) of −1 and +1 → (…, FRAMES_PER_SECOND, bins)."""
        return self.expand(self.modulate(values)).repeat(self.width, -1)

    def sum_bins(self, stream: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, bins) → (…, ranges): the first half of `tiles`, for streams that begin at any frame."""
        parts = (stream[..., place :: self.width] for place in range(self.width))
        return reduce(np.add, parts)  # 50 times as fast as along rows of two

    def sum_tiles(self, narrow: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, FRAMES_PER_SECOND, ranges) → (…, tiles): the sum over each tile of a second."""
        batch, parts = narrow.shape[:-2], []
        for band in self.bands:
            frames = narrow[..., band.first : band.last].reshape(*batch, band.time_tiles, band.frames, band.freq_tiles)
            parts.append(frames.sum(-2).reshape(*batch, band.tiles))
        return np.concatenate(parts, -1)

    def split_bands(self, tiles: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """(…, tiles) → (…, times, ranges) of each band."""
        ends = np.cumsum([band.tiles for band in self.bands])[:-1]
        parts = zip(self.bands, np.split(tiles, ends, -1), strict=True)
        return [part.reshape(*tiles.shape[:-1], band.time_tiles, band.freq_tiles) for band, part in parts]

    def expand(self, tiles: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, tiles) → (…, FRAMES_PER_SECOND, ranges): the number of the tile that each frame lies in."""
        parts = zip(self.bands, self.split_bands(tiles), strict=True)
        return np.concatenate([part.repeat(band.frames, -2) for band, part in parts], -1)

    def slot_llrs(self, narrow: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, FRAMES_PER_SECOND, ranges) → (…, slots), positive for 1."""
        return self.despread(self.sum_tiles(narrow))


@dataclass(frozen=True, eq=False)
class LearnedCarriers(Carriers):
    """`write` and `read` (slots, tiles): what each slot adds to the tiles of a second, and looks for in them."""

    write: NDArray[np.float32]
    read: NDArray[np.float32]

    def modulate(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        return values.astype(np.float32) @ self.write

    def template(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        return values.astype(np.float32) @ self.read

    def despread(self, tiles: NDArray[np.float32]) -> NDArray[np.float32]:
        return tiles @ self.read.T


@dataclass(frozen=True, eq=False)
class KeyedCarriers(Carriers):
    """`owner` and `sign` (tiles,): each belongs to one slot, which looks there for what it adds."""

    slot_of_tile: NDArray[np.int64]
    sign_of_tile: NDArray[np.float32]

    @cached_property
    def _by_slot(self) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """The tiles of the first slot, of the second … with their signs, and where those of each begin."""
        order = np.argsort(self.slot_of_tile, kind="stable")
        return order, self.sign_of_tile[order], np.searchsorted(self.slot_of_tile[order], np.arange(self.slots))

    def modulate(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        if not self.slots:
            return np.zeros((*values.shape[:-1], len(self.sign_of_tile)), np.float32)
        return values.astype(np.float32)[..., self.slot_of_tile] * self.sign_of_tile

    template = modulate

    def despread(self, tiles: NDArray[np.float32]) -> NDArray[np.float32]:
        if not self.slots:
            return np.zeros((*tiles.shape[:-1], 0), np.float32)
        order, sign, first = self._by_slot
        return np.add.reduceat(tiles[..., order] * sign, first, -1)


def keyed_carriers(slots: int, bins: int, key: bytes, label: bytes, lengths: TileFrames) -> KeyedCarriers:
    """The carriers that belong to a key: every slot has as many tiles in each range of frequencies as any other."""
    bands = tile_bands(bins, lengths)
    tiles = sum(band.tiles for band in bands)
    if not slots:
        return KeyedCarriers(0, TILE_BINS, bands, np.zeros(tiles, np.int64), np.zeros(tiles, np.float32))
    rounds = -(-tiles // slots)
    secret = hmac.digest(key, label, hashlib.sha256)
    numbers = np.frombuffer(hashlib.shake_256(secret).digest(8 * rounds * slots), "<u8").reshape(rounds, slots)
    owner = np.argsort(numbers, 1, "stable").ravel()[:tiles]
    sign = 1 - 2 * (numbers.ravel()[:tiles] & 1).astype(np.float32)
    # They are dealt range after range, and lie in a band time after time.
    ends = np.cumsum([band.tiles for band in bands])[:-1]
    parts = zip(bands, np.split(np.arange(tiles), ends), strict=True)
    dealt = np.concatenate([part.reshape(-1, band.time_tiles).T.ravel() for band, part in parts])
    return KeyedCarriers(slots, TILE_BINS, bands, owner[dealt], sign[dealt])


def tile_bands(bins: int, lengths: TileFrames) -> tuple[TileBand, ...]:
    """Where the tiles of so many bins have which length."""
    edges = [*(first for first in lengths if first < bins), bins]
    return tuple(TileBand(a // TILE_BINS, b // TILE_BINS, lengths[a]) for a, b in pairwise(edges))
