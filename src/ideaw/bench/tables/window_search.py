"""The paper's own search, on our network: one window of a second after the other, until the locating code matches.

Windows are 10 % of a segment apart. Stage 2 reads its code; stage 1 reads the message only where the code matches. With
`both_stages` everything is read in every window, as a single-stage network of the same depth must (the paper's method
1); `search_single_stage` does that with such a network. As the paper's extractor tolerates a small offset from the
mark, so does this one, of up to MAX_SHIFT_HOPS hops.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.audio.spectrum import level_spectrum
from ideaw.engine.decode import decode_repeated
from ideaw.engine.network import Network
from ideaw.engine.segments import MAX_SHIFT_HOPS, SHIFTS_HOPS
from ideaw.keys import PUBLIC
from ideaw.modem.carriers import Carriers
from ideaw.payload.message import Content, Message, short_word_bits

WINDOW_STEP_SAMPLES = SEGMENT_SAMPLES // 10
"""Samples from one window to the next."""

SHIFT_PENALTY = 1.15
"""Factor by which the slots at a shift must exceed those at the window's own start in total magnitude."""


@dataclass(frozen=True)
class Located:
    """Where the paper's search ends: the first sample of the last window, how many it looked at, and what it read."""

    start: int
    windows: int
    message: Content | None


def search(
    network: Network, audio: NDArray[np.float32], code: NDArray[np.integer], both_stages: bool = False
) -> Located:
    """Look for the first window with the locating code and a message whose check is right.

    Args:
        network: The model.
        audio: `(n,)` samples at 16 kHz.
        code: `(code_bits,)` zeros and ones.
        both_stages: Whether the message is read in every window, whatever the code says.
    """
    channels = network.channels(PUBLIC)
    starts = range(0, len(audio) - SEGMENT_SAMPLES + 1, WINDOW_STEP_SAMPLES)
    for number, start in enumerate(starts):
        window = audio[None, start : start + SEGMENT_SAMPLES]
        stream, state = network.locate(level_spectrum(window))
        message_stream = network.read(state) if both_stages else None
        hops, slots = _clearest(stream, channels.code.carriers)
        if not np.array_equal(channels.code.fec.decode_word(slots)[0] > 0, code > 0):
            continue
        if message_stream is None:
            message_stream = network.read(state)
        carriers = channels.message.carriers
        llrs = carriers.slot_llrs(_shift(carriers.sum_bins(message_stream), hops))
        message = decode_repeated(llrs, channels).message
        if message is not None:
            return Located(start, number + 1, message.content)
    return Located(starts[-1], len(starts), None)


def encode_checked(message: Message, message_bits: int) -> NDArray[np.uint8]:
    """The payload of a segment: a message and zeros, which are its check: (message_bits,) zeros and ones."""
    bits = message.encode(message_bits)
    return np.append(bits, np.zeros(message_bits - len(bits), np.uint8))


def decode_checked(payload: NDArray[np.bool_]) -> Message | None:
    """The message in (message_bits,) zeros and ones; None if `encode_checked` would not make them."""
    bits = short_word_bits(len(payload))
    return None if payload[bits:].any() else Message.decode(payload[:bits])


def search_single_stage(network: Network, audio: NDArray[np.float32], code: NDArray[np.integer]) -> Located:
    """The same search with a network of one stage, in whose message the code comes first."""
    channels = network.channels(PUBLIC)
    starts = range(0, len(audio) - SEGMENT_SAMPLES + 1, WINDOW_STEP_SAMPLES)
    for number, start in enumerate(starts):
        window = audio[None, start : start + SEGMENT_SAMPLES]
        _, state = network.locate(level_spectrum(window))
        _, slots = _clearest(network.read(state), channels.message.carriers)
        bits = channels.message.fec.decode_word(slots)[0] > 0
        if np.array_equal(bits[: len(code)], code > 0):
            message = decode_checked(bits[len(code) :])
            if message is not None:
                return Located(start, number + 1, message.content)
    return Located(starts[-1], len(starts), None)


def _clearest(stream: NDArray[np.float32], carriers: Carriers) -> tuple[int, NDArray[np.float32]]:
    """The shift in hops at which the slots have the largest total magnitude, and the slots (1, slots) there."""
    summed = carriers.sum_bins(stream)
    options = {hops: carriers.slot_llrs(_shift(summed, hops)) for hops in SHIFTS_HOPS}
    clarity = {hops: float(np.abs(slots).sum()) * (1 if hops else SHIFT_PENALTY) for hops, slots in options.items()}
    best = max(clarity, key=clarity.__getitem__)
    return best, options[best]


def _shift(summed: NDArray[np.float32], hops: int) -> NDArray[np.float32]:
    """(1, FRAMES_PER_SECOND, freq_tiles) from `hops` on, filled with zeros."""
    padded = np.pad(summed, ((0, 0), (MAX_SHIFT_HOPS, MAX_SHIFT_HOPS), (0, 0)))
    return padded[:, MAX_SHIFT_HOPS + hops : MAX_SHIFT_HOPS + hops + summed.shape[1]]
