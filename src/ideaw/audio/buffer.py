"""Audio in blocks: cut from an array or made from pieces of any length, counted on their way, held until needed.

Decoders give what they have and callers what they like; Vorbis codes its first seconds by how much it
is given at once, so that only equal blocks make equal files.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Progress: TypeAlias = Callable[[float], None]
"""Is told from time to time which share of the work is done, 0 to 1."""

BLOCK = 1 << 16
"""Samples per channel that are coded at a time: bounds memory, and libsndfile crashes on minutes of Vorbis at once."""


def cut(samples: NDArray, length: int) -> Iterator[NDArray]:
    """`(n, channels)` in blocks of `length`."""
    return (samples[start : start + length] for start in range(0, len(samples), length))


def told(blocks: Iterable[NDArray], length: int | None, progress: Progress | None) -> Iterator[NDArray]:
    """The same blocks; once one has been dealt with, `progress` is told how much of `length` samples is done."""
    done = 0
    for block in blocks:
        yield block
        done += len(block)
        if progress and length:
            progress(min(1.0, done / length))


class Waiting:
    """Samples that wait for their turn, in the order in which they came."""

    def __init__(self) -> None:
        self._blocks: deque[NDArray] = deque()

    def put(self, block: NDArray) -> None:
        """Let a block wait after the others."""
        self._blocks.append(block)

    def take(self, number: int) -> NDArray:
        """The next so many samples."""
        taken = []
        while number > 0:
            block = self._blocks.popleft()
            taken.append(block[:number])
            if len(block) > number:
                self._blocks.appendleft(block[number:])
            number -= len(taken[-1])
        return np.concatenate(taken) if taken else np.empty(0)


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
