"""The paper's own search, on our network: one window of a second after the other, until the locating code matches.

A window moves by 10 % of a segment. Stage 2 reads its code; stage 1 reads the message only where the code matches. With
`both_stages` everything is read in every window, as a single-stage network of the same depth must (the paper's method
1); `search_single` does that with such a network. As the paper's extractor may be a little beside the mark, so may
ours, by up to NEARBY hops.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.audio.level import level
from ideaw.audio.stft import stft
from ideaw.engine.network import Network
from ideaw.engine.segments import NEARBY, SHIFTS
from ideaw.modem.carriers import Carriers
from ideaw.payload.message import Content, Message

STEP = SEGMENT_SAMPLES // 10
"""Samples from one window to the next."""

HERE = 1.15
"""How much clearer slots must be elsewhere than where a window begins."""


@dataclass(frozen=True)
class Located:
    """Where the paper's search ends: the first sample of the last window, how many it looked at, and what it read."""

    start: int
    windows: int
    message: Content | None


def search(
    network: Network, audio: NDArray[np.float32], code: NDArray[np.integer], both_stages: bool = False
) -> Located:
    """Look for the first window of `(n,)` samples with this code and a message whose check is right."""
    starts = range(0, len(audio) - SEGMENT_SAMPLES + 1, STEP)
    for number, start in enumerate(starts):
        window = audio[None, start : start + SEGMENT_SAMPLES]
        stream, rest = network.locate(stft(window / level(window)))
        message_stream = network.read(rest) if both_stages else None
        hops, slots = _clearest(stream, network.code.carriers)
        if not np.array_equal(network.code.code.decode(slots)[0] > 0, code > 0):
            continue
        if message_stream is None:
            message_stream = network.read(rest)
        carriers = network.message.carriers
        logits = carriers.logits(_moved(carriers.narrow(message_stream), hops))
        message = Message.of_frame(network.message.code.decode(logits)[0] > 0, network.key)
        if message is not None:
            return Located(start, number + 1, message.content)
    return Located(starts[-1], len(starts), None)


def search_single(network: Network, audio: NDArray[np.float32], code: NDArray[np.integer]) -> Located:
    """The same search with a network of one stage, in whose message the code comes first."""
    starts = range(0, len(audio) - SEGMENT_SAMPLES + 1, STEP)
    for number, start in enumerate(starts):
        window = audio[None, start : start + SEGMENT_SAMPLES]
        _, rest = network.locate(stft(window / level(window)))
        _, slots = _clearest(network.read(rest), network.message.carriers)
        bits = network.message.code.decode(slots)[0] > 0
        if np.array_equal(bits[: len(code)], code > 0):
            message = Message.of_frame(bits[len(code) :], network.key)
            if message is not None:
                return Located(start, number + 1, message.content)
    return Located(starts[-1], len(starts), None)


def _clearest(stream: NDArray[np.float32], carriers: Carriers) -> tuple[int, NDArray[np.float32]]:
    """The shift in hops at which a stream speaks most clearly, and its slots (1, slots) there."""
    narrow = carriers.narrow(stream)
    options = {hops: carriers.logits(_moved(narrow, hops)) for hops in SHIFTS}
    clarity = {hops: float(np.abs(slots).sum()) * (1 if hops else HERE) for hops, slots in options.items()}
    best = max(clarity, key=clarity.__getitem__)
    return best, options[best]


def _moved(narrow: NDArray[np.float32], hops: int) -> NDArray[np.float32]:
    """(1, FRAMES, ranges) from `hops` on, with nothing where there is nothing."""
    padded = np.pad(narrow, ((0, 0), (NEARBY, NEARBY), (0, 0)))
    return padded[:, NEARBY + hops : NEARBY + hops + narrow.shape[1]]
