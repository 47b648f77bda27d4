"""The paper's own level: segments of one second whose location is known; `Ideaw.embed` and `Ideaw.extract` in numpy.

The watermark's own signals live on a ring of one second, audio on a line with silence around it.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import EDGE, HOP, SEGMENT, WINDOW
from ideaw.audio.level import level
from ideaw.audio.spectrum import istft, stft
from ideaw.engine.network import Network
from ideaw.engine.refine import amplitudes, heard

BATCH = 16
"""Segments that go through the network at once; bounds the memory of a large batch."""


SPARE = 1e-4
"""dB that segments are marked more quietly than asked, so that rounding to single precision costs no promise."""


def embed_segments(
    network: Network,
    audio: NDArray[np.floating],
    message: NDArray[np.floating],
    code: NDArray[np.floating],
    snr: float,
    refine: bool = True,
) -> NDArray[np.float64]:
    """(batch, SEGMENT) audio and (batch, bits) of −1 and +1 → marked audio, each segment at `snr` dB.

    With `refine` the mark is read back and made again, with more of its energy for the bits that are hard to read.
    """
    marked = _embed_once(network, audio, message, code, snr)
    if not refine:
        return marked
    bits = np.concatenate([message, code], 1)
    read = np.concatenate(extract_segments(network, heard(marked)), 1)
    stronger_message, stronger_code = np.split(bits * amplitudes(bits * read), [message.shape[1]], 1)
    return _embed_once(network, audio, stronger_message, stronger_code, snr)


def _embed_once(
    network: Network,
    audio: NDArray[np.floating],
    message: NDArray[np.floating],
    code: NDArray[np.floating],
    snr: float,
) -> NDArray[np.float64]:
    residual = np.empty(audio.shape, np.float64)
    for some in _batches(len(audio)):
        host = audio[some].astype(np.float32)
        loudness = level(host)
        spectrum = network.mark(
            stft(host / loudness),
            ring_stft(network.message.to_signal(message[some])),
            ring_stft(network.code.to_signal(code[some])),
        )
        residual[some] = istft(spectrum)[:, EDGE : EDGE + SEGMENT] * loudness
    allowed = np.linalg.norm(audio.astype(np.float64), axis=-1, keepdims=True) * 10 ** (-(snr + SPARE) / 20)
    return audio + residual * (allowed / np.linalg.norm(residual, axis=-1, keepdims=True).clip(1e-9))


def extract_segments(network: Network, audio: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(batch, SEGMENT) audio → logits of message (batch, message_bits) and code (batch, code_bits), positive for 1."""
    message = np.empty((len(audio), network.card.message_bits), np.float32)
    code = np.empty((len(audio), network.card.code_bits), np.float32)
    for some in _batches(len(audio)):
        received = audio[some].astype(np.float32)
        code_spectrum, host = network.locate(stft(received / level(received)))
        code[some] = network.code.to_bits(ring_istft(code_spectrum))
        message[some] = network.message.to_bits(ring_istft(network.read(host)))
    return message, code


def ring_stft(signal: NDArray[np.float32]) -> NDArray[np.complex64]:
    """(…, SEGMENT) on a ring → (…, FRAMES, BINS)."""
    around = [(0, 0)] * (signal.ndim - 1) + [(WINDOW, WINDOW)]
    hops = WINDOW // HOP
    return stft(np.pad(signal, around, mode="wrap"))[..., hops:-hops, :]


def ring_istft(spectrum: NDArray[np.complex64]) -> NDArray[np.float32]:
    """(…, FRAMES, BINS) → (…, SEGMENT), what reaches out at one end folded in at the other."""
    line = istft(spectrum)
    ring = line[..., EDGE : EDGE + SEGMENT].copy()
    ring[..., -EDGE:] += line[..., :EDGE]
    ring[..., :EDGE] += line[..., EDGE + SEGMENT :]
    return ring


def _batches(count: int) -> Iterator[slice]:
    return (slice(first, first + BATCH) for first in range(0, count, BATCH))
