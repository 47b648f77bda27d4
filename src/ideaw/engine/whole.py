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
from ideaw.engine.network import Carriers, Network
from ideaw.engine.refine import amplitudes, heard
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
    messages: NDArray[np.floating],
    code: NDArray[np.floating],
    snr: float,
    progress: Progress | None = None,
    block: int = BLOCK,
    refine: bool = True,
) -> NDArray[np.float32]:
    """(channels, n) audio → (channels, n) residual, `snr` dB or more below every second of every channel.

    `messages` (seconds, message_bits) and `code` (code_bits,) are −1 and +1; second k is written from sample
    16,000 · k on. Channels that are alike are marked alike, and once. With `refine` the mark is read back and
    made again, with more of its energy for the bits that are hard to read.
    """
    codes = np.tile(code, (len(messages), 1))
    out = np.empty_like(audio)
    for channel, row in enumerate(audio):
        twin = next((earlier for earlier in range(channel) if np.array_equal(audio[earlier], row)), None)
        if twin is not None:
            out[channel] = out[twin]
            continue
        share = part(progress, channel / len(audio), (channel + 1) / len(audio))
        first = part(share, 0.0, 0.33 if refine else 1.0)
        out[channel] = fit(_raw_residual(network, row, messages, codes, first, block), row, snr, SEGMENT)
        if refine:
            read = _read_back(network, row + out[channel], part(share, 0.33, 0.67), block)
            bits = np.concatenate([messages, codes], 1)
            louder_messages, louder_codes = np.split(bits * amplitudes(bits * read), [messages.shape[1]], 1)
            last = part(share, 0.67, 1.0)
            again = _raw_residual(network, row, louder_messages, louder_codes, last, block)
            out[channel] = fit(again, row, snr, SEGMENT)
    if progress:
        progress(1.0)
    return out


def code_signal(
    network: Network, audio: NDArray[np.float32], progress: Progress | None = None, block: int = BLOCK
) -> NDArray[np.float32]:
    """(n,) audio → (n,) signal of the code, whatever its place: stage 2 backwards over everything."""
    return _signal(network, audio, lambda spectrum: network.locate(spectrum)[0], progress, block)


def message_signal(
    network: Network, audio: NDArray[np.float32], progress: Progress | None = None, block: int = BLOCK
) -> NDArray[np.float32]:
    """(n,) audio → (n,) signal of the message.

    Stage 2 runs again before stage 1: a sixth of the work, where its output would fill a gigabyte an hour.
    """
    return _signal(network, audio, lambda spectrum: network.read(network.locate(spectrum)[1]), progress, block)


def _raw_residual(
    network: Network,
    audio: NDArray[np.float32],
    messages: NDArray[np.floating],
    codes: NDArray[np.floating],
    progress: Progress | None,
    block: int,
) -> NDArray[np.float32]:
    """(n,) → (n,): what the network adds, before its level is settled; bits (seconds, bits)."""
    out = _Line(len(audio))
    for piece in _pieces(audio, network.card.context, block, progress):
        message_part = _tiled(network.message, messages, piece)
        code_part = _tiled(network.code, codes, piece)
        spectrum = network.mark(piece.spectrum[None], message_part[None], code_part[None])[0]
        out.add(piece, spectrum)
    return out.samples * _level(audio)


def _read_back(
    network: Network, marked: NDArray[np.float32], progress: Progress | None, block: int
) -> NDArray[np.float32]:
    """(n,) marked audio → logits (seconds, message_bits + code_bits) of every second, as it is heard."""
    received = heard(marked)
    message, code = _Line(len(received)), _Line(len(received))
    for piece in _pieces(received, network.card.context, block, progress):
        code_spectrum, host = network.locate(piece.spectrum[None])
        code.add(piece, code_spectrum[0])
        message.add(piece, network.read(host)[0])
    seconds = -(-len(received) // SEGMENT) * SEGMENT
    cut = [_cut(line.samples, 0, seconds).reshape(-1, SEGMENT) for line in (message, code)]
    return np.concatenate([network.message.to_bits(cut[0]), network.code.to_bits(cut[1])], 1)


def _signal(
    network: Network,
    audio: NDArray[np.float32],
    function: Callable[[NDArray[np.complex64]], NDArray[np.complex64]],
    progress: Progress | None,
    block: int,
) -> NDArray[np.float32]:
    out = _Line(len(audio))
    for piece in _pieces(audio, network.card.context, block, progress):
        out.add(piece, function(piece.spectrum[None])[0])
    return out.samples


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


class _Line:
    """A signal put together from the spectra of its blocks."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._samples = np.zeros(-(-length // HOP) * HOP + 2 * EDGE, np.float32)

    def add(self, piece: _Piece, spectrum: NDArray[np.complex64]) -> None:
        wave = istft(spectrum[piece.begin - piece.first : piece.end - piece.first])
        self._samples[piece.begin * HOP :][: len(wave)] += wave

    @property
    def samples(self) -> NDArray[np.float32]:
        """(n,)"""
        return self._samples[EDGE : EDGE + self._length]


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


def _tiled(carriers: Carriers, bits: NDArray[np.floating], piece: _Piece) -> NDArray[np.complex64]:
    """The spectrum (frames, BINS) that a piece has of the seconds of `bits` (seconds, bits), laid one after another."""
    start, stop = piece.first * HOP - EDGE, piece.last * HOP + EDGE
    seconds = slice(max(start, 0) // SEGMENT, -(-min(stop, piece.length) // SEGMENT))
    laid = carriers.to_signal(bits[seconds]).reshape(-1)[: piece.length - seconds.start * SEGMENT]
    return _bare_stft(_cut(laid, start - seconds.start * SEGMENT, stop - seconds.start * SEGMENT))


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
