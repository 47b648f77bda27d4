"""Marking in layers: the deep layer first, and the network's on top of it where both are asked for.

The network's mark comes second, so that its level is what was asked for against the audio that it is added to.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import Stage
from ideaw.deep.embedder import BLOCK_TILES, STREAM_BLOCK_TILES, DeepEmbedder, DeepSettings, choose_start
from ideaw.deep.signs import KeyPattern
from ideaw.deep.words import Word
from ideaw.errors import MessageError
from ideaw.layers import Layer, Stages
from ideaw.payload.message import Message

StartStage = Callable[[int, float], Stage]
"""Makes what marks audio from the number of channels and the quantisation step of its samples."""


def start_in_layers(
    layers: Sequence[Layer],
    start_fast: StartStage,
    message: Message,
    key: bytes,
    rate: int,
    seconds: float | None,
    open_blocks: Callable[[], Iterable[NDArray[np.floating]]] | None,
) -> StartStage:
    """Make what starts the stages of some layers.

    Args:
        layers: which, one at least.
        start_fast: starts the network's.
        message: what the deep layer writes.
        key: whose mark it is.
        rate: sampling rate in Hz.
        seconds: length of the audio, if it is known.
        open_blocks: gives all of the audio, `(n, channels)` of full scale 1, from which the deep layer chooses where
            its periods begin; None for a stream.

    Raises:
        MessageError: the message is empty.
    """
    if not len(message.content):
        raise MessageError("the message is empty")
    if "deep" not in layers:
        return start_fast
    pattern, word = KeyPattern(key), Word.of(message, key, inf if seconds is None else seconds)
    first_tile = 0 if open_blocks is None else choose_start(pattern, word, open_blocks(), rate)
    tiles = STREAM_BLOCK_TILES if open_blocks is None else BLOCK_TILES
    start_deep: StartStage = partial(_start_deep, pattern, word, first_tile, rate, tiles)
    starts = [start_deep, start_fast] if "fast" in layers else [start_deep]
    return lambda channels, step: Stages([start(channels, step) for start in starts])


def _start_deep(
    pattern: KeyPattern, word: Word, first_tile: int, rate: int, tiles: int, channels: int, step: float
) -> Stage:
    return DeepEmbedder(pattern, word, DeepSettings(rate, channels, step, tiles), first_tile)
