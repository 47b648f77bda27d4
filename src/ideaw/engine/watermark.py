"""The watermark streams of audio that goes on and on: what the network is to put into every hop of it."""

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.modem.channel import KeyChannels


class WatermarkStreams:
    """Message and locating code, hop by hop.

    Args:
        channels: where message and locating code lie.
        symbols: (period, slots) of −1 and +1; second k, counted from the beginning, carries row k mod period. Every
            second carries the key's locating code.
    """

    def __init__(self, channels: KeyChannels, symbols: NDArray[np.float32]) -> None:
        self._carriers, self._symbols = channels.message.carriers, symbols
        self._code = channels.code_stream

    def of_hops(self, first: int, last: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(last − first, bins) of the message and of the locating code."""
        seconds = np.arange(first // FRAMES_PER_SECOND, -(-last // FRAMES_PER_SECOND))
        streams = self._carriers.stream(self._symbols[seconds % len(self._symbols)])
        offset = first - seconds[0] * FRAMES_PER_SECOND
        message = streams.reshape(-1, streams.shape[-1])[offset:][: last - first]
        return message, self._code[np.arange(first, last) % FRAMES_PER_SECOND]
