"""Streams that are marked as they come: state between the blocks, a flush at the end, and what became of the mark.

Blocks are pushed by whoever has them, taken from an iterable, or awaited from an asynchronous one.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio.blocks import ARRAY_BLOCK_SECONDS, Stage, split_blocks
from ideaw.audio.samples import StreamCheck, check_blocks, quantisation_step
from ideaw.engine.network import single_threaded_blas
from ideaw.errors import IdeawError

MIN_READABLE_SECONDS = 1.0
"""Length of a stream from which on 99 of 100 clean ones can be read (E88)."""

MIN_SOUND_SHARE = 0.8
"""Share of the shortest audio that must hold a mark: there may be short silences in it, but it is no padding."""

StartEmbedder: TypeAlias = Callable[[int, float], Stage]
"""Makes what marks a stream from the number of channels and the quantisation step of its first block."""


class EmbedStream(Iterator[NDArray[Any]]):
    """Audio that is marked while it comes; made by `Marker.open_stream` and `Marker.embed_stream`.

    `push` blocks and send what comes back; `flush` once at the end. Where the stream was made of an iterable of blocks,
    iterate over it instead. One thread at a time may use it.
    """

    def __init__(
        self,
        start: StartEmbedder,
        rate: int,
        min_seconds: float,
        needed_seconds: float,
        blocks: Iterable[ArrayLike] | None = None,
    ) -> None:
        """Make a stream that has not begun.

        Args:
            start: makes what marks it.
            rate: in Hz.
            min_seconds: how long it must be to be readable.
            needed_seconds: how much of it the message fills, if that is more than a second.
            blocks: where its blocks come from, if they are not pushed.
        """
        self._start, self.rate = start, rate
        self._min_seconds, self._needed_seconds = min_seconds, needed_seconds
        self._embedder: Stage | None = None
        self._checked, self._ended = StreamCheck(one_type=True), False
        self._problem: IdeawError | None = None
        self._marked = None if blocks is None else self._run(blocks)

    def push(self, block: ArrayLike) -> NDArray[Any]:
        """The marked samples that became final by these next ones, `(n,)` or `(n, channels)`; maybe none.

        Raises:
            AudioError: the block is no audio, or of other channels or another type than the first. It was not taken:
                the stream may go on with another.
            IdeawError: the stream has ended.
        """
        if self._ended:
            raise IdeawError("the stream has ended; open another one")
        array, floats = self._checked.check(block)
        if self._embedder is None:
            self._embedder = self._start(floats.shape[1], quantisation_step(array.dtype))
        with single_threaded_blas():
            pieces = split_blocks(array, ARRAY_BLOCK_SECONDS * self.rate)
            return np.concatenate([array[:0], *map(self._embedder.push, pieces)])

    def flush(self) -> NDArray[Any]:
        """End the stream: the samples that were still held, so that as many came out as went in."""
        if self._ended or self._embedder is None:
            self._ended = True
            return np.empty(0, np.float32)
        self._ended = True
        with single_threaded_blas():
            rest = self._embedder.finish()
        try:
            self._embedder.check()
        except IdeawError as problem:
            self._problem = problem
        return rest

    @property
    def latency(self) -> float | None:
        """Seconds from a sample's going in to its coming out, at most; None before the first block."""
        return None if self._embedder is None else self._embedder.latency

    @property
    def marked_seconds(self) -> float:
        """How much of what came out so far holds a mark: digital silence does not."""
        return 0.0 if self._embedder is None else self._embedder.marked_seconds

    @property
    def readable(self) -> bool:
        """Whether enough was marked so far for the message to be read, of clean audio; final after the end."""
        if self._problem is not None or self._embedder is None:
            return False
        sounds = self.marked_seconds >= max(self._needed_seconds, MIN_SOUND_SHARE * self._min_seconds)
        return sounds and self._embedder.length >= self._min_seconds * self.rate

    @property
    def problem(self) -> str | None:
        """After the end, in one line, why nothing can be read, where that is another reason than length."""
        return None if self._problem is None else str(self._problem)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return self

    def __next__(self) -> NDArray[Any]:
        """The next marked samples; after the last, AudioError if the audio was silent, or the mark rounded away."""
        if self._marked is None:
            raise TypeError("this stream was opened without blocks; push them")
        return next(self._marked)

    def _run(self, blocks: Iterable[ArrayLike]) -> Iterator[NDArray[Any]]:
        for block in blocks:
            array = np.asarray(block)
            pieces = split_blocks(array, ARRAY_BLOCK_SECONDS * self.rate) if array.ndim else [array]
            for piece in pieces:
                if len(marked := self.push(piece)):
                    yield marked
        yield from filter(len, [self.flush()])
        if self._problem is not None:
            raise self._problem


async def mark_asynchronously(
    stream: EmbedStream, blocks: AsyncIterable[ArrayLike] | Iterable[ArrayLike]
) -> AsyncIterator[NDArray[Any]]:
    """Mark blocks that are awaited, each in a thread, so that the event loop goes on."""
    if isinstance(blocks, AsyncIterable):
        async for block in blocks:
            if len(marked := await asyncio.to_thread(stream.push, block)):
                yield marked
    else:
        for block in check_blocks(blocks):
            if len(marked := await asyncio.to_thread(stream.push, block)):
                yield marked
    if len(marked := await asyncio.to_thread(stream.flush)):
        yield marked
