"""What the seconds of a mark carry for a message: the same in each, or stretches of a longer one."""

from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import NDArray

from ideaw.errors import MessageError
from ideaw.modem.channel import KeyChannels
from ideaw.payload.body import body_bits, seconds_for
from ideaw.payload.message import Message


@dataclass(frozen=True, eq=False)
class Plan:
    """What the seconds of a mark carry.

    Attributes:
        symbols: (period, slots) of −1 and +1 that follow each other again and again.
        needed: Least number of whole seconds that the message takes.
    """

    symbols: NDArray[np.float32]
    needed: int = 1

    def check_seconds(self, seconds: float) -> None:
        """Raise `MessageError` if audio of so many seconds is too short for the message."""
        if seconds < self.needed and self.needed > 1:
            raise MessageError(
                f"this message needs at least {self.needed} seconds; the audio has {floor(10 * seconds) / 10:g}"
            )


def plan_message(message: Message, channels: KeyChannels, message_bits: int) -> Plan:
    """The plan of a message under a key, in a model of so many message bits.

    Raises:
        MessageError: It is empty or too long for the model, however long the audio.
    """
    if message.fits(message_bits) or not len(message.content):
        return Plan(channels.short.symbols(message.encode(message_bits))[None])
    bits = body_bits(message, message_bits)
    assert channels.long is not None
    return Plan(channels.long.symbols(bits), seconds_for(len(message.data)))
