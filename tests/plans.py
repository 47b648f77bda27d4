"""Plans of messages for tests, whether a message fits into one payload or not, and the payloads of some seconds."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from ideaw.keys import PUBLIC
from ideaw.payload.framing import plan_blocks
from ideaw.payload.message import Message, Plan


def plan_of(message: Message, message_bits: int, key: bytes = PUBLIC) -> Plan:
    """The plan of any message."""
    return message.plan(message_bits, key) if message.fits(message_bits) else plan_blocks(message, message_bits, key)


def payloads_for(plan: Plan, seconds: float) -> NDArray[np.uint8]:
    """The payloads of audio of so many seconds: (seconds rounded up, message_bits)."""
    plan.check_seconds(seconds)
    return plan.period_payloads[np.arange(ceil(seconds)) % len(plan.period_payloads)]
