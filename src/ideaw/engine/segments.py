"""The paper's own level: segments of one second whose location is known; `Ideaw.embed` and `Ideaw.extract` in numpy."""

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import EDGE_SAMPLES, SEGMENT_SAMPLES
from ideaw.audio.level import level
from ideaw.audio.stft import istft, stft
from ideaw.engine.network import Network
from ideaw.engine.strength import ROUNDING
from ideaw.modem.fec import LLR_SCALE, all_words, bit_llrs_of_words, logsumexp

BATCH = 16
"""Segments that go through the network at once; bounds the memory of a large batch."""

NEARBY = 4
"""Hops to either side within which a segment's mark may begin: 62 ms."""

SHIFTS = (0, *(sign * hops for hops in range(1, NEARBY + 1) for sign in (-1, 1)))

HERE = 1.5
"""How much clearer the slots must be elsewhere than where they are expected; with 1.3 the weakest are misplaced."""

NEGLIGIBLE = 40
"""Codes that fit less well than the best by so much, which is 20 nats, are not asked for the message."""

LEAST_SURE = 1e-6
"""Log-odds that a bit keeps where nothing speaks against it or for it."""


def embed_segments(
    network: Network,
    audio: NDArray[np.floating],
    message: NDArray[np.integer],
    code: NDArray[np.integer],
    snr: float,
) -> NDArray[np.float64]:
    """(batch, SEGMENT_SAMPLES) audio and (batch, bits) zeros and ones → marked audio, each segment at `snr` dB."""
    residual = np.empty(audio.shape, np.float64)

    def mark(some: slice) -> None:
        host = audio[some].astype(np.float32)
        loudness = level(host)
        slots = network.message.values(message[some]) * network.mask(code[some])
        message_stream = network.message.carriers.stream(slots)
        if network.card.whole:
            residual[some] = network.mark_whole(host / loudness, message_stream) * loudness
            return
        code_stream = network.code.carriers.stream(network.code.values(code[some]))
        spectrum = network.mark(stft(host / loudness), message_stream, code_stream)
        residual[some] = istft(spectrum)[:, EDGE_SAMPLES : EDGE_SAMPLES + SEGMENT_SAMPLES] * loudness

    network.each(mark, _batches(len(audio)))
    allowed = np.linalg.norm(audio.astype(np.float64), axis=-1, keepdims=True) * 10 ** (-(snr + ROUNDING) / 20)
    return audio + residual * (allowed / np.linalg.norm(residual, axis=-1, keepdims=True).clip(1e-9))


def extract_segments(network: Network, audio: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(batch, SEGMENT_SAMPLES) audio → logits of message (batch, message_bits) and code (batch, code_bits), positive for 1.

    A segment may begin up to NEARBY hops off its mark: it is read where its slots speak most clearly.
    """
    read = network.each(lambda some: _extract_slots(network, audio[some].astype(np.float32)), _batches(len(audio)))
    message, code = (np.concatenate(kind) for kind in zip(*read, strict=True))
    if network.card.code_twice:
        both = [decoded_together(network, *slots) for slots in zip(message, code, strict=True)]
        return np.stack([said for said, _ in both]), np.stack([said for _, said in both])
    return network.message.code.bit_llrs(message), network.code.code.bit_llrs(code)


def decoded_together(
    network: Network, message: NDArray[np.float32], code: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(slots,) of message and code → (bits,) of each, where the message's slots say the code's bits too.

    Every code is tried: each says how the message's slots are to be understood. All of them, with all messages, have a
    say in each bit.
    """
    codes = all_words(network.card.code_bits)
    unmasked = message * network.mask(codes)
    fits = network.code.values(codes).astype(np.float64) @ code
    fits += network.message.code.log_evidence(unmasked)
    fits -= fits.max()
    likely = fits > -NEGLIGIBLE
    said = network.message.code.bit_llrs(unmasked[likely]).astype(np.float64)
    # (message_bits, codes, 2): how well each code fits with a bit that is 0, and with one that is 1.
    halves = np.stack([-said.T, said.T], -1)
    halves += (fits[likely] - logsumexp(halves, LLR_SCALE))[..., None]
    zeros, ones = logsumexp(halves.transpose(2, 0, 1), LLR_SCALE)
    return _sure((ones - zeros) / 2), _sure(bit_llrs_of_words(fits[None], LLR_SCALE)[0])


def _sure(logits: NDArray[np.float64]) -> NDArray[np.float32]:
    """The same log-odds, none of which is 0, nor too large."""
    sure = np.abs(logits).clip(LEAST_SURE, np.finfo(np.float32).max)
    return np.where(np.signbit(logits), -sure, sure).astype(np.float32)


def _extract_slots(network: Network, received: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    if network.card.whole:
        message = network.listen(received / level(received))
        code = np.zeros_like(message)
    else:
        code, rest = network.locate(stft(received / level(received)))
        message = network.read(rest)
    options = []
    for kind, stream in ((network.message, message), (network.code, code)):
        narrow = kind.carriers.sum_bins(stream)
        options.append(np.stack([kind.carriers.slot_llrs(_moved(narrow, hops)) for hops in SHIFTS]))
    # Where the message's slots say the code too, they are no word of their own.
    message_clarity = np.abs(options[0]).sum(-1) if network.card.code_twice else network.message.code.word_score(options[0])
    clarity = message_clarity + network.code.code.word_score(options[1])
    clarity[SHIFTS.index(0)] *= HERE
    best = clarity.argmax(0), np.arange(len(received))
    return options[0][best], options[1][best]


def _moved(stream: NDArray[np.float32], hops: int) -> NDArray[np.float32]:
    """(batch, FRAMES, ranges) from `hops` on, with nothing where there is nothing."""
    frames = stream.shape[1]
    padded = np.pad(stream, ((0, 0), (NEARBY, NEARBY), (0, 0)))
    return padded[:, NEARBY + hops : NEARBY + hops + frames]


def _batches(count: int) -> list[slice]:
    return [slice(first, first + BATCH) for first in range(0, count, BATCH)]
