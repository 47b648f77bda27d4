"""The paper's own level: segments of one second at 16 kHz whose place is known."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.audio.samples import as_float, check_finite
from ideaw.audio.spectrum import level
from ideaw.engine.gain import FLOAT_HEADROOM_DB
from ideaw.engine.network import Network
from ideaw.errors import AudioError, MessageError
from ideaw.modem.channel import KeyChannels
from ideaw.modem.fec import LLR_SCALE, all_words, bit_llrs_of_words, logsumexp

BATCH_SEGMENTS = 16
"""Segments that go through the network at once; bounds the memory of a large batch."""

MAX_SHIFT_HOPS = 4
"""Hops to either side within which a segment's mark may begin: 62 ms."""

SHIFTS_HOPS = (0, *(sign * hops for hops in range(1, MAX_SHIFT_HOPS + 1) for sign in (-1, 1)))

UNSHIFTED_PREFERENCE = 1.5
"""Factor by which the slots' score at another shift must exceed that at the expected place; with 1.3 the weakest
segments are misplaced."""

NEGLIGIBLE_CODE_SCORE = 40
"""Locating codes that score lower than the best by so much (20 nats) are not tried with the message."""

MIN_ABS_LLR = 1e-6
"""Least magnitude of a bit's LLR, so that its sign is a decision even without evidence."""


def embed_segments(
    network: Network,
    channels: KeyChannels,
    audio: NDArray[np.floating],
    message: NDArray[np.integer],
    code: NDArray[np.integer],
    snr: float,
) -> NDArray[np.float64]:
    """Marked segments, each at its SNR.

    Args:
        network: the model.
        channels: where message and locating code lie.
        audio: (batch, SEGMENT_SAMPLES).
        message: (batch, message_bits) zeros and ones.
        code: (batch, code_bits) zeros and ones.
        snr: in dB.
    """
    residual = np.empty(audio.shape, np.float64)

    def mark(batch: slice) -> None:
        host = audio[batch].astype(np.float32)
        loudness = level(host)
        symbols = channels.message.fec.symbols(message[batch]) * channels.scrambler(code[batch])
        code_stream = channels.code.carriers.stream(channels.code.fec.symbols(code[batch]))
        message_stream = channels.message.carriers.stream(symbols)
        residual[batch] = network.mark_segments(host / loudness, message_stream, code_stream) * loudness

    network.map(mark, _batches(len(audio)))
    norm = np.linalg.norm(audio.astype(np.float64), axis=-1, keepdims=True)
    allowed = norm * 10 ** (-(snr + FLOAT_HEADROOM_DB) / 20)
    return np.asarray(audio + residual * (allowed / np.linalg.norm(residual, axis=-1, keepdims=True).clip(1e-9)))


def extract_segments(
    network: Network, channels: KeyChannels, audio: NDArray[np.floating]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(batch, SEGMENT_SAMPLES) audio → LLRs of message (batch, message_bits) and code (batch, code_bits).

    A segment may begin up to MAX_SHIFT_HOPS off its mark: it is read at the shift where its slots score highest.
    """
    slots = network.map(
        lambda batch: _extract_slots(network, channels, audio[batch].astype(np.float32)), _batches(len(audio))
    )
    message, code = (np.concatenate(kind) for kind in zip(*slots, strict=True))
    if channels.scrambled_by_code:
        pairs = [decode_jointly(channels, *segment) for segment in zip(message, code, strict=True)]
        return np.stack([bits for bits, _ in pairs]), np.stack([bits for _, bits in pairs])
    return channels.message.fec.bit_llrs(message), channels.code.fec.bit_llrs(code)


def decode_jointly(
    channels: KeyChannels, message: NDArray[np.float32], code: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(slots,) of message and locating code → (bits,) of each, where the locating code scrambles the message's slots.

    Every code is tried: each says how the message's slots are to be descrambled. All codes, with all messages, are
    summed over in each bit's LLR.
    """
    codes = all_words(len(channels.locating_code))
    descrambled = message * channels.scrambler(codes)
    scores = channels.code.fec.symbols(codes).astype(np.float64) @ code
    scores += channels.message.fec.log_evidence(descrambled)
    scores -= scores.max()
    likely = scores > -NEGLIGIBLE_CODE_SCORE
    llrs = channels.message.fec.bit_llrs(descrambled[likely]).astype(np.float64)
    # (message_bits, codes, 2): the score of each code with a bit that is 0, and with one that is 1.
    halves = np.stack([-llrs.T, llrs.T], -1)
    halves += (scores[likely] - logsumexp(halves, LLR_SCALE))[..., None]
    zeros, ones = logsumexp(halves.transpose(2, 0, 1), LLR_SCALE)
    return _bounded((ones - zeros) / 2), _bounded(bit_llrs_of_words(scores[None], LLR_SCALE)[0])


def check_segments(array: NDArray[Any]) -> NDArray[np.float64]:
    """`(16000,)` or `(batch, 16000)` as `(batch, 16000)` floats.

    Raises:
        AudioError: it has another shape, is empty or not finite.
    """
    if array.ndim not in (1, 2) or array.shape[-1] != SEGMENT_SAMPLES or not array.size:
        wanted = f"({SEGMENT_SAMPLES},) or (batch, {SEGMENT_SAMPLES})"
        raise AudioError(f"segments of shape {array.shape} cannot be used; give {wanted}")
    audio = as_float(np.atleast_2d(array))
    check_finite(audio)
    return audio


def check_bits(given: ArrayLike, batch: int, count: int, kind: str) -> NDArray[np.uint8]:
    """Zeros and ones `(count,)` or `(batch, count)` as `(batch, count)`.

    Raises:
        MessageError: they have another shape or are not all 0 or 1.
    """
    bits = np.asarray(given)
    if bits.shape not in ((count,), (batch, count)):
        raise MessageError(f"{kind} bits of shape {bits.shape} do not fit; give ({count},) or ({batch}, {count})")
    if bits.dtype.kind not in "biuf" or not np.isin(bits, (0, 1)).all():
        raise MessageError(f"the {kind} bits are not all 0 or 1")
    return np.broadcast_to(bits.astype(np.uint8), (batch, count))


def _bounded(llrs: NDArray[np.float64]) -> NDArray[np.float32]:
    """LLRs clipped in magnitude to MIN_ABS_LLR … the largest float32."""
    magnitude = np.abs(llrs).clip(MIN_ABS_LLR, np.finfo(np.float32).max)
    return np.where(np.signbit(llrs), -magnitude, magnitude).astype(np.float32)


def _extract_slots(
    network: Network, channels: KeyChannels, received: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(batch, SEGMENT_SAMPLES) → soft values (batch, slots) of message and locating code, at the best shift."""
    streams = network.extract_streams(received / level(received))
    options = []
    for channel, stream in zip((channels.message, channels.code), streams, strict=True):
        summed = channel.carriers.sum_bins(stream)
        options.append(np.stack([channel.carriers.slot_llrs(_shift(summed, hops)) for hops in SHIFTS_HOPS]))
    message, code = options
    # Where the message's slots are scrambled, they are no word of their own.
    message_score = np.abs(message).sum(-1) if channels.scrambled_by_code else channels.message.fec.word_score(message)
    clarity = message_score + channels.code.fec.word_score(code)
    clarity[SHIFTS_HOPS.index(0)] *= UNSHIFTED_PREFERENCE
    best = clarity.argmax(0), np.arange(len(received))
    return message[best], code[best]


def _shift(stream: NDArray[np.float32], hops: int) -> NDArray[np.float32]:
    """(batch, FRAMES_PER_SECOND, freq_tiles) from `hops` on, filled with zeros."""
    frames = stream.shape[1]
    padded = np.pad(stream, ((0, 0), (MAX_SHIFT_HOPS, MAX_SHIFT_HOPS), (0, 0)))
    return padded[:, MAX_SHIFT_HOPS + hops : MAX_SHIFT_HOPS + hops + frames]


def _batches(count: int) -> list[slice]:
    return [slice(first, first + BATCH_SEGMENTS) for first in range(0, count, BATCH_SEGMENTS)]
