"""The keyed pattern of tiles: which sign each has, and which symbol of the code it carries.

A tile is 50 ms of one band; 96 of them in time make a period, after which the pattern repeats. Signs and places are
drawn from the key under labels of their own: to whoever does not have the key they are independent fair coins, which is
all that the bound on false alarms rests on.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ideaw.deep.bands import NUM_MEL_BANDS
from ideaw.modem.keyed import keyed_numbers, keyed_signs

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

NUM_CHECK_TILES = SYMBOLS_PER_BLOCK
"""The last tiles of `order`, whose symbols depend on the whole word and the key: they check it."""

NUM_CONTENT_TILES = NUM_TILES - NUM_CHECK_TILES
"""The others, which carry the word."""

NUM_KINDS = 8
"""Kinds of messages that the scrambling of the first block tells apart."""


@dataclass(frozen=True)
class KeyPattern:
    """The pattern of one key."""

    key: bytes

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """(NUM_TILES,) the tiles, time · NUM_MEL_BANDS + band, in the order in which they carry symbols."""
        return np.asarray(np.argsort(keyed_numbers(self.key, b"deep places", NUM_TILES), kind="stable"))

    @cached_property
    def signs(self) -> NDArray[np.float32]:
        """(NUM_TILES,) −1 or +1 for each tile of `order`."""
        return keyed_signs(self.key, b"deep signs", (NUM_TILES,))

    @cached_property
    def kind_masks(self) -> NDArray[np.float32]:
        """(NUM_KINDS, SYMBOLS_PER_BLOCK) signs of the first block's symbols under each kind of message."""
        return keyed_signs(self.key, b"deep kinds", (NUM_KINDS, SYMBOLS_PER_BLOCK))

    def modulate(self, symbols: NDArray[np.float32]) -> NDArray[np.float32]:
        """(NUM_TILES,) symbols in `order` → (PERIOD_TILES, NUM_MEL_BANDS) signs of a period."""
        tiles = np.empty(NUM_TILES, np.float32)
        tiles[self.order] = self.signs * symbols
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
