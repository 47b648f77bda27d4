"""The watermark streams of audio that goes on and on: what the network is to put into every hop of it."""

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.modem.channel import KeyChannels


class WatermarkStreams:
    """Message and locating code, hop by hop.

    Args:
        channels: where message and locating code lie.
        payloads: (period, message_bits) zeros and ones; second k, counted from the beginning, carries number k mod
            period. Every second carries the key's locating code.
    """

    def __init__(self, channels: KeyChannels, payloads: NDArray[np.integer]) -> None:
        self._carriers = channels.message.carriers
        self._symbols = channels.message.fec.symbols(payloads) * channels.message_scrambler
        self._code = channels.code_stream

    def of_hops(self, first: int, last: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(last − first, bins) of the message and of the locating code."""
        seconds = np.arange(first // FRAMES_PER_SECOND, -(-last // FRAMES_PER_SECOND))
        streams = self._carriers.stream(self._symbols[seconds % len(self._symbols)])
        offset = first - seconds[0] * FRAMES_PER_SECOND
        message = streams.reshape(-1, streams.shape[-1])[offset:][: last - first]
        return message, self._code[np.arange(first, last) % FRAMES_PER_SECOND]
