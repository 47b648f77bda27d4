"""Spread-spectrum carriers: slots of a second to a watermark stream and back (the paper's length regulators).

A slot is one coded bit, a BPSK symbol of ±1, spread over several tiles of time and frequency. A stream is one number
per STFT frame and bin; that of one second is a ring, because a mark is repeated through a file. A key draws which tiles
a slot has and with which signs: the network carries any such drawing, so keys and message lengths share one network.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.modem.keyed import keyed_numbers

TILE_BINS = 2
"""Width of a tile in bins: 32 Hz."""

TileFrames = Mapping[int, int]
"""First bin → length in STFT frames of the tiles from there on."""

CODE_TILE_FRAMES: TileFrames = {0: 4}
"""Tiles of the locating code: 62 ms everywhere. Shorter tiles are more chips, so a higher processing gain."""

MESSAGE_TILE_FRAMES: TileFrames = {0: 4, 240: 8}
"""Tiles of messages: 62 ms, and 125 ms from 3.8 kHz on.

Long tiles survive the smearing of a phase vocoder. Below 3.8 kHz they would be too few when a low-pass filter or a
lower sample rate leaves nothing above.
"""


@dataclass(frozen=True)
class TileBand:
    """A band in which all tiles have the same length.

    Attributes:
        first: First row of tiles in frequency.
        last: The row after its last one.
        frames: Length of a tile in STFT frames.
    """

    first: int
    last: int
    frames: int

    @property
    def time_tiles(self) -> int:
        """Tiles along time in a second."""
        return FRAMES_PER_SECOND // self.frames

    @property
    def freq_tiles(self) -> int:
        """Tiles along frequency."""
        return self.last - self.first

    @property
    def tiles(self) -> int:
        """Tiles of the band in a second."""
        return self.time_tiles * self.freq_tiles


@dataclass(frozen=True, eq=False)
class Carriers(ABC):
    """Spreading of the slots of a second over its tiles.

    Attributes:
        slots: Coded bits of a second.
        width: Width of a tile in bins.
        bands: All bands from low to high; the tiles of a second are those of the first band, then of the next, and
            within a band row after row in time.
    """

    slots: int
    width: int
    bands: tuple[TileBand, ...]

    @abstractmethod
    def modulate(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """Spread (…, slots) of ±1 → (…, tiles)."""

    @abstractmethod
    def template(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """The matched filter for (…, slots) of ±1: (…, tiles)."""

    @abstractmethod
    def despread(self, tiles: NDArray[np.float32]) -> NDArray[np.float32]:
        """Correlate (…, tiles) with the carrier of every slot → (…, slots)."""

    def stream(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """The watermark stream of a second: (…, slots) of ±1 → (…, FRAMES_PER_SECOND, bins)."""
        return self.expand(self.modulate(values)).repeat(self.width, -1)

    def sum_bins(self, stream: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, bins) → (…, rows of tiles): sums along frequency, which do not depend on where a second begins."""
        parts = (stream[..., offset :: self.width] for offset in range(self.width))
        return reduce(np.add, parts)  # 50 times as fast as a sum along an axis of two

    def sum_tiles(self, bin_sums: NDArray[np.float32]) -> NDArray[np.float32]:
        """Integrate and dump: (…, FRAMES_PER_SECOND, rows of tiles) of `sum_bins` → (…, tiles)."""
        batch, parts = bin_sums.shape[:-2], []
        for band in self.bands:
            shape = (*batch, band.time_tiles, band.frames, band.freq_tiles)
            frames = bin_sums[..., band.first : band.last].reshape(shape)
            parts.append(frames.sum(-2).reshape(*batch, band.tiles))
        return np.concatenate(parts, -1)

    def split_bands(self, tiles: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """(…, tiles) → (…, time_tiles, freq_tiles) of each band."""
        ends = np.cumsum([band.tiles for band in self.bands])[:-1]
        parts = zip(self.bands, np.split(tiles, ends, -1), strict=True)
        return [part.reshape(*tiles.shape[:-1], band.time_tiles, band.freq_tiles) for band, part in parts]

    def expand(self, tiles: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, tiles) → (…, FRAMES_PER_SECOND, rows of tiles): every frame gets the value of its tile."""
        parts = zip(self.bands, self.split_bands(tiles), strict=True)
        return np.concatenate([part.repeat(band.frames, -2) for band, part in parts], -1)

    def slot_llrs(self, bin_sums: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, FRAMES_PER_SECOND, rows of tiles) of `sum_bins` → (…, slots) of unscaled LLRs, positive for 1."""
        return self.despread(self.sum_tiles(bin_sums))


@dataclass(frozen=True, eq=False)
class KeyedCarriers(Carriers):
    """Carriers drawn from a key: disjoint sets of tiles with pseudo-random signs, the same for both directions.

    Attributes:
        slot_of_tile: (tiles,), the slot that has the tile.
        sign_of_tile: (tiles,) of ±1.
    """

    slot_of_tile: NDArray[np.int64]
    sign_of_tile: NDArray[np.float32]

    @cached_property
    def _by_slot(self) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Tiles sorted by slot, their signs, and where each slot begins among them."""
        order = np.argsort(self.slot_of_tile, kind="stable")
        starts = np.searchsorted(self.slot_of_tile[order], np.arange(self.slots))
        return order, self.sign_of_tile[order], starts

    def modulate(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        if not self.slots:
            return np.zeros((*values.shape[:-1], len(self.sign_of_tile)), np.float32)
        return values.astype(np.float32)[..., self.slot_of_tile] * self.sign_of_tile

    template = modulate

    def despread(self, tiles: NDArray[np.float32]) -> NDArray[np.float32]:
        if not self.slots:
            return np.zeros((*tiles.shape[:-1], 0), np.float32)
        order, signs, starts = self._by_slot
        return np.add.reduceat(tiles[..., order] * signs, starts, -1)


def keyed_carriers(slots: int, bins: int, key: bytes, label: bytes, tile_frames: TileFrames) -> KeyedCarriers:
    """Draw the carriers of a key; in any range of frequencies all slots have equally many tiles, ± 1.

    Args:
        slots: Coded bits of a second; 0 gives carriers of nothing.
        bins: Width of the stream, a multiple of TILE_BINS.
        key: What the drawing is derived from.
        label: The purpose, so that message and locating code of one key are independent.
        tile_frames: Lengths of tiles.
    """
    bands = tile_bands(bins, tile_frames)
    tiles = sum(band.tiles for band in bands)
    if not slots:
        return KeyedCarriers(0, TILE_BINS, bands, np.zeros(tiles, np.int64), np.zeros(tiles, np.float32))
    rounds = -(-tiles // slots)
    numbers = keyed_numbers(key, label, rounds * slots).reshape(rounds, slots)
    # Every round is a random permutation of all slots, which makes the deal fair.
    slot_of_deal = np.argsort(numbers, 1, "stable").ravel()[:tiles]
    sign_of_deal = 1 - 2 * (numbers.ravel()[:tiles] & 1).astype(np.float32)
    # Tiles are dealt along time within a row of frequency, but stored along frequency within a row of time.
    ends = np.cumsum([band.tiles for band in bands])[:-1]
    parts = zip(bands, np.split(np.arange(tiles), ends), strict=True)
    deal = np.concatenate([part.reshape(-1, band.time_tiles).T.ravel() for band, part in parts])
    return KeyedCarriers(slots, TILE_BINS, bands, slot_of_deal[deal], sign_of_deal[deal])


def tile_bands(bins: int, tile_frames: TileFrames) -> tuple[TileBand, ...]:
    """The bands of a stream of so many bins."""
    edges = [*(first for first in tile_frames if first < bins), bins]
    return tuple(TileBand(a // TILE_BINS, b // TILE_BINS, tile_frames[a]) for a, b in pairwise(edges))
