"""Samples in pieces of any length, made into blocks of one length.

Decoders give what they have and callers what they like; Vorbis codes its first seconds by how much it
is given at once, so that only equal blocks make equal files.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16
"""Samples per channel that are coded at a time: bounds memory, and libsndfile crashes on minutes of Vorbis at once."""


class Blocks:
    """Takes `(n, channels)` pieces and gives blocks of `size` samples per channel; each is a copy."""

    def __init__(self, size: int = BLOCK) -> None:
        assert size > 0
        self._size = self._missing = size
        self._held: list[NDArray] = []

    def add(self, piece: NDArray) -> Iterator[NDArray]:
        """The blocks that this piece completes."""
        while len(piece) >= self._missing:
            yield np.concatenate([*self._held, piece[: self._missing]])
            piece = piece[self._missing :]
            self._held, self._missing = [], self._size
        self._held.append(np.array(piece))
        self._missing -= len(piece)

    def rest(self) -> Iterator[NDArray]:
        """The last block, if something is left for one."""
        if self._missing < self._size:
            yield np.concatenate(self._held)
