"""Framing of messages that need several payloads: blocks that follow each other, second by second.

Such a message becomes a body (content, padding, check) of blocks of a few bytes. A
Reed–Solomon erasure code of rate 1/2 doubles them, so that half of the seconds may be lost, and they repeat with this
period, so that equal payloads can be added up. Any `needed` different blocks give the body, in any order.
"""

import zlib
from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import NDArray

from ideaw.errors import MessageError
from ideaw.keys import PUBLIC
from ideaw.payload.erasures import values_at
from ideaw.payload.message import (
    CRC_POLYNOMIALS,
    KIND_BITS,
    LONG_KIND,
    Message,
    Plan,
    layout,
    message_mac,
    payload_check,
    to_bits,
)

MIN_LONG_PAYLOAD_BITS = 22
"""Least message bits of a model whose payloads can be blocks of a long message."""

MAX_INDEX_BITS = 8
"""Bits of a block index: one for each point of GF(256), fewer where a payload has no room for them."""

BODY_BYTES_FLAG, BODY_BITS_FLAG = 0x40, 0x80
"""The first byte of a body is the type, text (0), bytes or bits, plus the length of the padding: in bytes for text and
bytes, in bits for bits."""

BODY_CHECK_BYTES = 4
"""Length of the check over the body of a long message."""

BODY_OVERHEAD_BYTES = 1 + BODY_CHECK_BYTES
"""First byte and check of a body."""


@dataclass(frozen=True)
class Block:
    """A block of a long message, as one payload carries it.

    Attributes:
        index: Its point in GF(256).
        needed: How many different blocks give the body.
        data: `LongLayout.data_bytes` bytes.
    """

    index: int
    needed: int
    data: bytes


@dataclass(frozen=True)
class LongLayout:
    """Fields of a payload of kind LONG_KIND: kind, index, data, spare zeros, check.

    The number of blocks needed is XORed onto the check, so it takes no bits of its own. A single payload leaves it
    ambiguous; all payloads of a message agree on one, and for that one every check has its full width.
    """

    index_bits: int
    data_bytes: int
    spare_bits: int
    check_bits: int

    @property
    def max_blocks(self) -> int:
        """Block indices that there are."""
        return 1 << self.index_bits

    def period(self, needed: int) -> int:
        """Different blocks of a message of which `needed` give the body."""
        return min(2 * needed, self.max_blocks)

    def encode_block(self, block: Block, key: bytes = PUBLIC) -> NDArray[np.uint8]:
        """The payload of a block: (message_bits,) zeros and ones."""
        data = np.unpackbits(np.frombuffer(block.data, np.uint8))
        opening = np.concatenate(
            [
                to_bits(LONG_KIND, KIND_BITS),
                to_bits(block.index, self.index_bits),
                data,
                np.zeros(self.spare_bits, np.uint8),
            ]
        )
        needed = to_bits(block.needed - 1, self.check_bits)
        return np.concatenate([opening, payload_check(opening, self.check_bits, key) ^ needed])

    def decode_block(self, payload: NDArray[np.integer | np.bool_], key: bytes = PUBLIC) -> Block | None:
        """The block in (message_bits,) zeros and ones; None if they are no block that `encode_block` makes."""
        bits = np.asarray(payload).astype(np.uint8)
        opening, check = bits[: -self.check_bits], bits[-self.check_bits :]
        kind, index, data, spare = np.split(opening, np.cumsum([KIND_BITS, self.index_bits, 8 * self.data_bytes]))
        if _number(kind) != LONG_KIND or spare.any():
            return None
        needed = 1 + _number(check ^ payload_check(opening, self.check_bits, key))
        block = Block(_number(index), needed, np.packbits(data).tobytes())
        return block if needed <= self.max_blocks and block.index < self.period(needed) else None


def long_layout(message_bits: int) -> LongLayout | None:
    """Fields of the payloads of long messages in a model of so many bits; None if these are too few."""
    if message_bits < MIN_LONG_PAYLOAD_BITS:
        return None
    count = max(1, (message_bits - KIND_BITS - MAX_INDEX_BITS - max(CRC_POLYNOMIALS)) // 8)
    rest = message_bits - KIND_BITS - 8 * count
    index = min(MAX_INDEX_BITS, rest // 2)
    check = min(max(CRC_POLYNOMIALS), rest - index)
    return LongLayout(index, count, rest - index - check, check)


def plan_blocks(message: Message, message_bits: int, key: bytes = PUBLIC) -> Plan:
    """The plan of a message that is spread over several seconds.

    Raises:
        MessageError: It is too long for the model, however long the audio.
    """
    parts = long_layout(message_bits)
    if parts is None:
        raise MessageError(
            f"the message is too long: this model holds {layout(message_bits).content_bits} bits, "
            f"and only models of {MIN_LONG_PAYLOAD_BITS} message bits or more spread longer ones over seconds"
        )
    body = _body(message, parts, key)
    data = np.frombuffer(body, np.uint8).reshape(-1, parts.data_bytes)
    needed = len(data)
    blocks = values_at(np.arange(parts.period(needed)), np.arange(needed), data)
    payloads = [parts.encode_block(Block(index, needed, data.tobytes()), key) for index, data in enumerate(blocks)]
    return Plan(np.stack(payloads), needed)


def capacity(seconds: float, message_bits: int) -> int:
    """Bytes of the longest text or data that audio of so many seconds can carry."""
    parts = long_layout(message_bits)
    spread = 0 if parts is None else parts.data_bytes * min(floor(seconds), parts.max_blocks) - BODY_OVERHEAD_BYTES
    return max(layout(message_bits).content_bytes, spread) if seconds >= 1 else 0


def parse_body(body: bytes, message_bits: int, key: bytes = PUBLIC) -> Message | None:
    """The message in a body, the data of all blocks; None if its check fails or `plan_blocks` would not make it."""
    parts = long_layout(message_bits)
    assert parts is not None
    if body_check(body[:-BODY_CHECK_BYTES], key) != body[-BODY_CHECK_BYTES:]:
        return None
    what, data = body[0], body[1:-BODY_CHECK_BYTES]
    message: Message | None
    if what >= BODY_BITS_FLAG:
        count = 8 * len(data) - (what - BODY_BITS_FLAG)
        message = Message(tuple(map(int, np.unpackbits(np.frombuffer(data, np.uint8))[: max(count, 0)])))
    else:
        message = _of_bytes(data[: max(len(data) - what % BODY_BYTES_FLAG, 0)], what < BODY_BYTES_FLAG)
    # Only the canonical body is accepted: other encodings of the message would raise the false-alarm rate.
    fits = message is not None and not message.fits(message_bits)
    return message if message is not None and fits and _body(message, parts, key) == body else None


def body_check(data: bytes, key: bytes = PUBLIC) -> bytes:
    """Compute the check of the body of a long message: CRC-32, or as many bytes of an HMAC."""
    if key == PUBLIC:
        return zlib.crc32(data).to_bytes(BODY_CHECK_BYTES, "big")
    return message_mac(data, b"check of a long message", key)[:BODY_CHECK_BYTES]


def _of_bytes(data: bytes, is_text: bool) -> Message | None:
    try:
        return Message(data.decode() if is_text else data)
    except UnicodeDecodeError:
        return None


def _body(message: Message, parts: LongLayout, key: bytes) -> bytes:
    """The body: type and padding length, content, padding to whole blocks, check."""
    data, most = message.data, parts.max_blocks * parts.data_bytes - BODY_OVERHEAD_BYTES
    if len(data) > most:
        raise MessageError(
            f"the message is {len(data)} bytes long, and this model holds at most {most}, in {parts.max_blocks} seconds"
        )
    room = -(-(len(data) + BODY_OVERHEAD_BYTES) // parts.data_bytes) * parts.data_bytes - BODY_OVERHEAD_BYTES
    if isinstance(message.content, tuple):
        opening = BODY_BITS_FLAG + 8 * room - len(message.content)
    else:
        opening = room - len(data) + (0 if isinstance(message.content, str) else BODY_BYTES_FLAG)
    checked = bytes([opening]) + data.ljust(room, b"\0")
    return checked + body_check(checked, key)


def _number(bits: NDArray[np.uint8]) -> int:
    return int("".join(map(str, bits)), 2)
