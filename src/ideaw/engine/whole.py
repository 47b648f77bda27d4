"""Whole signals of any length at 16 kHz, in blocks: this module owns everything about long audio.

The network is made of convolutions over frames, so a block with as many frames of context on both sides
as the network can see gives what one pass over everything would give, in bounded memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import EDGE, FRAMES, HOP, RATE, SEGMENT
from ideaw.audio.level import NEAR, level
from ideaw.audio.spectrum import stft
from ideaw.engine.embedding import Embedding
from ideaw.engine.network import Network
from ideaw.payload.carriers import Carriers

Progress: TypeAlias = Callable[[float], None]
"""Is told from time to time which share of the work is done, 0 to 1."""

BLOCK = 30 * FRAMES
"""Frames of a block."""


def residual(
    network: Network,
    audio: NDArray[np.float32],
    messages: NDArray[np.integer],
    code: NDArray[np.integer],
    snr: float,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """(channels, n) audio → (channels, n) residual, `snr` dB or more below every second of every channel.

    `messages` (seconds, message_bits) and `code` (code_bits,) are zeros and ones; second k is written from sample
    16,000 · k on.
    """
    embedding = Embedding(network, messages, code, RATE, len(audio), snr, 0.0)
    marked = []
    for start in range(0, audio.shape[1], SEGMENT):
        marked.append(embedding.push(audio[:, start : start + SEGMENT].T))
        if progress:
            progress(min(start + SEGMENT, audio.shape[1]) / audio.shape[1])
    return np.concatenate([*marked, embedding.finish()]).T - audio


def code_stream(
    network: Network, audio: NDArray[np.float32], progress: Progress | None = None, block: int = BLOCK
) -> NDArray[np.float32]:
    """(n,) audio → (hops, ranges) of the code's stream, whatever its place: stage 2 backwards over everything."""
    return _stream(network, audio, network.code.carriers, lambda received: network.locate(received)[0], progress, block)


def message_stream(
    network: Network, audio: NDArray[np.float32], progress: Progress | None = None, block: int = BLOCK
) -> NDArray[np.float32]:
    """(n,) audio → (hops, ranges) of the message's stream.

    Stage 2 runs again before stage 1: a sixth of the work, where its output would fill gigabytes an hour.
    """

    def read(received: NDArray[np.complex64]) -> NDArray[np.float32]:
        return network.read(network.locate(received)[1])

    return _stream(network, audio, network.message.carriers, read, progress, block)


def _stream(
    network: Network,
    audio: NDArray[np.float32],
    carriers: Carriers,
    function: Callable[[NDArray[np.complex64]], NDArray[np.float32]],
    progress: Progress | None,
    block: int,
) -> NDArray[np.float32]:
    """What a function makes of every block's spectrum, (hops, ranges), one after another; nothing of silence."""
    out = np.empty((-(-len(audio) // HOP), network.card.bins // carriers.tile[1]), np.float32)
    for piece in _pieces(audio, network.card.context, block, progress):
        inside = slice(piece.begin - piece.first, piece.end - piece.first)
        found = carriers.narrow(function(piece.spectrum[None])[0, inside])
        out[piece.begin : piece.end] = found * piece.spectrum[inside].any(-1, keepdims=True)
    return out


@dataclass(frozen=True)
class _Piece:
    """A block with its context: frames `first` to `last` of a signal, of which `begin` to `end` are the block."""

    first: int
    begin: int
    end: int
    last: int
    length: int
    """Samples of the whole signal."""
    spectrum: NDArray[np.complex64]
    """(last − first, BINS), of audio at level 1."""


def _pieces(audio: NDArray[np.float32], context: int, block: int, progress: Progress | None) -> Iterator[_Piece]:
    """The blocks of (n,) audio, one after another, each with `context` frames on both sides."""
    frames = -(-len(audio) // HOP)
    for begin in range(0, frames, block):
        end = min(begin + block, frames)
        first, last = max(begin - context, 0), min(end + context, frames)
        near = max(first - NEAR - 2, 0), min(last + NEAR + 2, frames)
        around = _cut(audio, near[0] * HOP, near[1] * HOP)
        even = around / level(around)
        here = _cut(even, (first - near[0]) * HOP - EDGE, (last - near[0]) * HOP + EDGE)
        yield _Piece(first, begin, end, last, len(audio), _bare_stft(here))
        if progress:
            progress(end / frames)


def _bare_stft(samples: NDArray[np.float32]) -> NDArray[np.complex64]:
    """(hops · HOP + 2 · EDGE,) → (hops, BINS): the samples bring what lies around them."""
    margin = -(-EDGE // HOP)
    missing = margin * HOP - EDGE
    return stft(np.pad(samples, missing))[margin:-margin]


def _cut(samples: NDArray[np.float32], start: int, stop: int) -> NDArray[np.float32]:
    """Samples from `start` to `stop`, with silence where there are none."""
    inside = samples[max(start, 0) : max(stop, 0)]
    return np.pad(inside, (max(-start, 0), stop - max(start, 0) - len(inside)))


def part(progress: Progress | None, start: float, end: float) -> Progress | None:
    """The progress of a part of the work that goes from `start` to `end`."""
    return None if progress is None else lambda share: progress(start + (end - start) * share)
