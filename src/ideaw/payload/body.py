"""Messages that do not fit into every second: their bits, and how much audio they need.

The bits of a message are its type, the number of bits that fill up its last byte, and its bytes. How many bytes there
are is told besides them.
"""

from math import floor

import numpy as np
from numpy.typing import NDArray

from ideaw.errors import MessageError
from ideaw.payload.message import Content, Message, layout, to_bits

MIN_LONG_MESSAGE_BITS = 22
"""Least message bits of a model that spreads messages over seconds."""

MAX_LONG_BYTES = 763
"""Bytes of the longest message."""

TYPE_BITS, FILLING_BITS = 2, 3
"""Widths of the type, 0 for text, 1 for bytes, 2 for bits, and of the number of zeros that fill up bits."""

MIN_LONG_SECONDS = 2
"""Least seconds over which a message is spread."""

BYTES_PER_SECOND, OVERHEAD_BYTES = 5, 7
"""Bytes that a second has room for, and how many a message needs besides its own for type and check: there are then 12
slots and more for each bit, as there are for those of a message in every second."""


def body_bits(message: Message, message_bits: int) -> NDArray[np.uint8]:
    """The bits of a message that is spread over seconds: (TYPE_BITS + FILLING_BITS + 8 · bytes,) zeros and ones.

    Raises:
        MessageError: It is too long, or the model has too few message bits.
    """
    if message_bits < MIN_LONG_MESSAGE_BITS:
        raise MessageError(
            f"the message is too long: this model holds {layout(message_bits).content_bits} bits, "
            f"and only models of {MIN_LONG_MESSAGE_BITS} message bits or more spread longer ones over seconds"
        )
    data = message.data
    if len(data) > MAX_LONG_BYTES:
        raise MessageError(f"the message is {len(data)} bytes long, and this model holds at most {MAX_LONG_BYTES}")
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    kind = (str, bytes, tuple).index(type(message.content))
    filling = len(bits) - len(message.content) if isinstance(message.content, tuple) else 0
    return np.concatenate([to_bits(kind, TYPE_BITS), to_bits(filling, FILLING_BITS), bits])


def parse_body(bits: NDArray[np.uint8], message_bits: int) -> Message | None:
    """The message of some bits; None if `body_bits` would not make them."""
    kind, filling, data = np.split(bits, [TYPE_BITS, TYPE_BITS + FILLING_BITS])
    content = _content(int(kind @ (2, 1)), int(filling @ (4, 2, 1)), data)
    if content is None or not len(content):
        return None
    message = Message(content)
    fits = message.fits(message_bits) or not np.array_equal(body_bits(message, message_bits), bits)
    return None if fits else message


def seconds_for(num_bytes: int) -> int:
    """Least number of whole seconds that a message of so many bytes must be spread over."""
    return max(MIN_LONG_SECONDS, -(-(num_bytes + OVERHEAD_BYTES) // BYTES_PER_SECOND))


def capacity(seconds: float, message_bits: int) -> int:
    """Bytes of the longest text or data that audio of so many seconds can carry."""
    if seconds < 1:
        return 0
    is_spread = message_bits >= MIN_LONG_MESSAGE_BITS and seconds >= MIN_LONG_SECONDS
    spread = min(BYTES_PER_SECOND * floor(seconds) - OVERHEAD_BYTES, MAX_LONG_BYTES) if is_spread else 0
    return max(layout(message_bits).content_bytes, spread)


def _content(kind: int, filling: int, data: NDArray[np.uint8]) -> Content | None:
    """The content of a type and its bits."""
    if kind == 0:
        try:
            return np.packbits(data).tobytes().decode()
        except UnicodeDecodeError:
            return None
    if kind == 1:
        return np.packbits(data).tobytes()
    return tuple(map(int, data[: len(data) - filling])) if kind == 2 else None
