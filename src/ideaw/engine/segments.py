"""The paper's own level: segments of one second whose location is known; `Ideaw.embed` and `Ideaw.extract` in numpy."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import EDGE, SEGMENT
from ideaw.audio.level import level
from ideaw.audio.spectrum import istft, stft
from ideaw.engine.network import Network

BATCH = 16
"""Segments that go through the network at once; bounds the memory of a large batch."""

SPARE = 1e-4
"""dB that segments are marked more quietly than asked, so that rounding to single precision costs no promise."""


def embed_segments(
    network: Network,
    audio: NDArray[np.floating],
    message: NDArray[np.integer],
    code: NDArray[np.integer],
    snr: float,
) -> NDArray[np.float64]:
    """(batch, SEGMENT) audio and (batch, bits) zeros and ones → marked audio, each segment at `snr` dB."""
    residual = np.empty(audio.shape, np.float64)
    for some in _batches(len(audio)):
        host = audio[some].astype(np.float32)
        loudness = level(host)
        message_stream = network.message.carriers.stream(network.message.values(message[some]))
        code_stream = network.code.carriers.stream(network.code.values(code[some]))
        spectrum = network.mark(stft(host / loudness), message_stream, code_stream)
        residual[some] = istft(spectrum)[:, EDGE : EDGE + SEGMENT] * loudness
    allowed = np.linalg.norm(audio.astype(np.float64), axis=-1, keepdims=True) * 10 ** (-(snr + SPARE) / 20)
    return audio + residual * (allowed / np.linalg.norm(residual, axis=-1, keepdims=True).clip(1e-9))


def extract_segments(network: Network, audio: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(batch, SEGMENT) audio → logits of message (batch, message_bits) and code (batch, code_bits), positive for 1."""
    read = [_extract_slots(network, audio[some].astype(np.float32)) for some in _batches(len(audio))]
    message, code = (np.concatenate(kind) for kind in zip(*read, strict=True))
    return network.message.code.decode(message), network.code.code.decode(code)


def _extract_slots(network: Network, received: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    code, rest = network.locate(stft(received / level(received)))
    streams = ((network.message.carriers, network.read(rest)), (network.code.carriers, code))
    message_slots, code_slots = (carriers.logits(carriers.narrow(stream)) for carriers, stream in streams)
    return message_slots, code_slots


def _batches(count: int) -> Iterator[slice]:
    return (slice(first, first + BATCH) for first in range(0, count, BATCH))
