"""What the seconds of a mark carry, for tests: of any message and key, as slots in which nothing is lost."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from ideaw.engine.plan import Plan, plan_message
from ideaw.keys import PUBLIC
from ideaw.modem.channel import KeyChannels, key_channels
from ideaw.modem.fec import usual_slots
from ideaw.payload.body import MIN_LONG_MESSAGE_BITS
from ideaw.payload.message import Message, short_word_bits


def channels_of(message_bits: int, key: bytes = PUBLIC) -> KeyChannels:
    """The channels of a packaged model under a key, by its message bits."""
    message, has_long = (message_bits, usual_slots(message_bits)), message_bits >= MIN_LONG_MESSAGE_BITS
    return key_channels(key, message, (10, 540), 480, False, short_word_bits(message_bits), has_long)


def plan_of(message: Message, message_bits: int, key: bytes = PUBLIC) -> Plan:
    """The plan of any message."""
    return plan_message(message, channels_of(message_bits, key), message_bits)


def symbols_for(plan: Plan, seconds: float) -> NDArray[np.float32]:
    """What audio of so many seconds carries: (seconds rounded up, slots)."""
    plan.check_seconds(seconds)
    return plan.symbols[np.arange(ceil(seconds)) % len(plan.symbols)]
