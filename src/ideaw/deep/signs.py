"""The keyed pattern of tiles: which sign each has, and which symbol of the code it carries.

A tile is 50 ms of one band; 96 of them in time make a period, after which the pattern repeats. Signs and places come
from the key by HMAC-SHA-256 in counter mode under labels of their own: to whoever does not have the key they are
independent fair coins, which is all that the bound on false alarms rests on.
"""

import hashlib
import hmac
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ideaw.deep.bands import NUM_MEL_BANDS
from ideaw.keys import derive

TILE_CELLS = 5
"""Frames of 10 ms in a tile: 50 ms."""

PERIOD_TILES = 96
"""Tiles in time until the pattern repeats: 4.8 s."""

PERIOD_CELLS = PERIOD_TILES * TILE_CELLS
"""Frames of a period; so many offsets are searched."""

NUM_TILES = PERIOD_TILES * NUM_MEL_BANDS
"""Tiles of a period."""

SYMBOLS_PER_BLOCK = 128
"""Symbols that carry a byte."""

NUM_KINDS = 8
"""Kinds of messages that the scrambling of the first block tells apart."""


@dataclass(frozen=True)
class KeyPattern:
    """The pattern of one key."""

    key: bytes

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """(NUM_TILES,) the tiles, time · NUM_MEL_BANDS + band, in the order in which they carry symbols."""
        drawn = np.frombuffer(keyed_stream(self.key, b"deep places", 8 * NUM_TILES), ">u8")
        return np.asarray(np.argsort(drawn, kind="stable"))

    @cached_property
    def signs(self) -> NDArray[np.float32]:
        """(NUM_TILES,) −1 or +1 for each tile of `order`."""
        return _signs(keyed_stream(self.key, b"deep signs", NUM_TILES // 8))

    @cached_property
    def kind_masks(self) -> NDArray[np.float32]:
        """(NUM_KINDS, SYMBOLS_PER_BLOCK) signs of the first block's symbols under each kind of message."""
        drawn = keyed_stream(self.key, b"deep kinds", NUM_KINDS * SYMBOLS_PER_BLOCK // 8)
        return _signs(drawn).reshape(NUM_KINDS, -1)

    def modulate(self, symbols: NDArray[np.float32]) -> NDArray[np.float32]:
        """(blocks · SYMBOLS_PER_BLOCK,) symbols → (PERIOD_TILES, NUM_MEL_BANDS) signs of a period."""
        tiles = np.empty(NUM_TILES, np.float32)
        tiles[self.order] = self.signs * np.resize(symbols, NUM_TILES)
        return tiles.reshape(PERIOD_TILES, NUM_MEL_BANDS)

    def demodulate(self, evidence: NDArray[np.float32]) -> NDArray[np.float32]:
        """Evidence for the signs of a period, at every place where the period may begin.

        Args:
            evidence: (PERIOD_TILES, NUM_MEL_BANDS), folded on the period.

        Returns:
            (PERIOD_TILES, NUM_TILES): row o is of a period that begins at tile o, its columns are in `order`.
        """
        twice = np.concatenate([evidence, evidence]).ravel()
        rows = np.lib.stride_tricks.as_strided(
            twice, (PERIOD_TILES, NUM_TILES), (NUM_MEL_BANDS * twice.itemsize, twice.itemsize), writeable=False
        )
        return np.asarray(np.take(rows, self.order, axis=1) * self.signs)


def keyed_stream(key: bytes, label: bytes, length: int) -> bytes:
    """`length` bytes that belong to a key and a purpose: HMAC-SHA-256 of a counter."""
    seed, size = derive(key, label), hashlib.sha256().digest_size
    blocks = (hmac.digest(seed, counter.to_bytes(8, "big"), hashlib.sha256) for counter in range(-(-length // size)))
    return b"".join(blocks)[:length]


def _signs(drawn: bytes) -> NDArray[np.float32]:
    return 1 - 2 * np.unpackbits(np.frombuffer(drawn, np.uint8)).astype(np.float32)
