"""Whole signals of any length at 16 kHz, in blocks: this module owns everything about long audio.

The network is made of convolutions over frames, so a block with as many frames of context on both sides
as the network can see gives what one pass over everything would give, in bounded memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import EDGE, FRAMES, HOP, SEGMENT
from ideaw.audio.level import level
from ideaw.audio.spectrum import istft, stft
from ideaw.engine.network import Network
from ideaw.engine.strength import fit

Progress: TypeAlias = Callable[[float], None]
"""Is told from time to time which share of the work is done, 0 to 1."""

BLOCK = 30 * FRAMES
"""Frames of a block."""

NEAR = FRAMES // 2 + 1
"""Hops around a moment that its level depends on."""


def residual(
    network: Network,
    audio: NDArray[np.float32],
    messages: NDArray[np.integer],
    code: NDArray[np.integer],
    snr: float,
    progress: Progress | None = None,
    block: int = BLOCK,
) -> NDArray[np.float32]:
    """(channels, n) audio → (channels, n) residual, `snr` dB or more below every second of every channel.

    `messages` (seconds, message_bits) and `code` (code_bits,) are zeros and ones; second k is written from sample
    16,000 · k on. Channels that are alike are marked alike, and once.
    """
    out = np.empty_like(audio)
    for channel, row in enumerate(audio):
        twin = next((earlier for earlier in range(channel) if np.array_equal(audio[earlier], row)), None)
        if twin is not None:
            out[channel] = out[twin]
            continue
        share = part(progress, channel / len(audio), (channel + 1) / len(audio))
        out[channel] = fit(_raw_residual(network, row, messages, code, share, block), row, snr, SEGMENT)
    if progress:
        progress(1.0)
    return out


def _raw_residual(
    network: Network,
    audio: NDArray[np.float32],
    messages: NDArray[np.integer],
    code: NDArray[np.integer],
    progress: Progress | None,
    block: int,
) -> NDArray[np.float32]:
    """(n,) → (n,): what the network adds, before its level is settled."""
    slots = network.message.values(messages)
    code_second = network.code.carriers.stream(network.code.values(code))
    out = _Line(len(audio))
    for piece in pieces(audio, network.card.context, block, progress):
        place = np.arange(piece.first, piece.last)
        whole = slice(piece.first // FRAMES, -(-piece.last // FRAMES))
        laid = network.message.carriers.stream(slots[whole]).reshape(-1, network.card.bins)
        message_part = laid[place - whole.start * FRAMES]
        spectrum = network.mark(piece.spectrum[None], message_part[None], code_second[place % FRAMES][None])[0]
        out.add(piece, spectrum)
    return out.samples * _level(audio)


@dataclass(frozen=True)
class Piece:
    """A block with its context: frames `first` to `last` of a signal, of which `begin` to `end` are the block."""

    first: int
    begin: int
    end: int
    last: int
    length: int
    """Samples of the whole signal."""
    spectrum: NDArray[np.complex64]
    """(last − first, BINS), of audio at level 1."""


class _Line:
    """A signal put together from the spectra of its blocks."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._samples = np.zeros(-(-length // HOP) * HOP + 2 * EDGE, np.float32)

    def add(self, piece: Piece, spectrum: NDArray[np.complex64]) -> None:
        wave = istft(spectrum[piece.begin - piece.first : piece.end - piece.first])
        self._samples[piece.begin * HOP :][: len(wave)] += wave

    @property
    def samples(self) -> NDArray[np.float32]:
        """(n,)"""
        return self._samples[EDGE : EDGE + self._length]


def pieces(audio: NDArray[np.float32], context: int, block: int, progress: Progress | None = None) -> Iterator[Piece]:
    """The blocks of (n,) audio, one after another, each with `context` frames on both sides."""
    frames = -(-len(audio) // HOP)
    for begin in range(0, frames, block):
        end = min(begin + block, frames)
        first, last = max(begin - context, 0), min(end + context, frames)
        near = max(first - NEAR - 2, 0), min(last + NEAR + 2, frames)
        around = _cut(audio, near[0] * HOP, near[1] * HOP)
        even = around / level(around)
        here = _cut(even, (first - near[0]) * HOP - EDGE, (last - near[0]) * HOP + EDGE)
        yield Piece(first, begin, end, last, len(audio), _bare_stft(here))
        if progress:
            progress(end / frames)


def _bare_stft(samples: NDArray[np.float32]) -> NDArray[np.complex64]:
    """(hops · HOP + 2 · EDGE,) → (hops, BINS): the samples bring what lies around them."""
    margin = -(-EDGE // HOP)
    missing = margin * HOP - EDGE
    return stft(np.pad(samples, missing))[margin:-margin]


def _level(audio: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n,) → the level at each sample, block by block."""
    frames = -(-len(audio) // HOP)
    out = np.empty(frames * HOP, np.float32)
    for begin in range(0, frames, BLOCK):
        end = min(begin + BLOCK, frames)
        first, last = max(begin - NEAR - 2, 0), min(end + NEAR + 2, frames)
        around = level(_cut(audio, first * HOP, last * HOP))
        out[begin * HOP : end * HOP] = around[(begin - first) * HOP : (end - first) * HOP]
    return out[: len(audio)]


def _cut(samples: NDArray[np.float32], start: int, stop: int) -> NDArray[np.float32]:
    """Samples from `start` to `stop`, with silence where there are none."""
    inside = samples[max(start, 0) : max(stop, 0)]
    return np.pad(inside, (max(-start, 0), stop - max(start, 0) - len(inside)))


def part(progress: Progress | None, start: float, end: float) -> Progress | None:
    """The progress of a part of the work that goes from `start` to `end`."""
    return None if progress is None else lambda share: progress(start + (end - start) * share)
