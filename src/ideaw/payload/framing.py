"""What every second of a file carries: one frame over and over, or a message spread over as many as it needs.

A message that does not fit into one frame becomes blocks of a few bytes, and more blocks follow from these
(`erasures.py`): twice as many as there is data, so that half of the seconds may be lost, and then all of them again,
so that seconds that say the same can be added up. Any `needed` different ones give the message, in any order.
"""

from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from ideaw.errors import MessageError
from ideaw.keys import PUBLIC
from ideaw.payload import checks
from ideaw.payload.checks import BODY_CHECK_BYTES, CRC_POLYNOMIALS, to_bits
from ideaw.payload.erasures import values_at
from ideaw.payload.message import KIND_BITS, LONG_KIND, Message, layout

MIN_LONG_PAYLOAD_BITS = 22
"""Message bits from which on a frame can be a part of a longer message."""

MAX_INDEX_BITS = 8
"""As many as points of GF(256); fewer where a frame has no room for them."""

BODY_BYTES_FLAG, BODY_BITS_FLAG = 0x40, 0x80
"""A long message begins with a byte that says what it is, text (0), bytes or bits, plus how much of it is padding:
bytes of text or bytes, bits of bits."""

BODY_OVERHEAD_BYTES = 1 + BODY_CHECK_BYTES
"""Bytes of a long message that are not the user's."""


@dataclass(frozen=True)
class Block:
    """A part of a long message, as one frame holds it."""

    index: int
    """Which block it is."""
    needed: int
    """How many different ones give the message."""
    data: bytes


@dataclass(frozen=True)
class LongLayout:
    """How the bits of a frame of kind LONG_KIND are divided: kind, `index`, 8 · `size` of data, `spare` zeros, `check`.

    How many blocks are needed is added to the check, bit by bit. One second alone leaves it open to a few bits
    which number is meant; all seconds of a file agree on one, and under that one every check counts in full.
    """

    index_bits: int
    data_bytes: int
    spare_bits: int
    check_bits: int

    @property
    def max_blocks(self) -> int:
        """Blocks that can be told apart."""
        return 1 << self.index_bits

    def period(self, needed: int) -> int:
        """Different blocks of a message of which `needed` are needed."""
        return min(2 * needed, self.max_blocks)

    def encode_block(self, block: Block, key: bytes = PUBLIC) -> NDArray[np.uint8]:
        """`(message_bits,)` zeros and ones."""
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
        return np.concatenate([opening, checks.payload_check(opening, self.check_bits, key) ^ needed])

    def decode_block(self, frame: NDArray[np.integer | np.bool_], key: bytes = PUBLIC) -> Block | None:
        """What `(message_bits,)` zeros and ones say; None if they are no such frame."""
        bits = np.asarray(frame).astype(np.uint8)
        opening, check = bits[: -self.check_bits], bits[-self.check_bits :]
        kind, index, data, spare = np.split(opening, np.cumsum([KIND_BITS, self.index_bits, 8 * self.data_bytes]))
        if _number(kind) != LONG_KIND or spare.any():
            return None
        needed = 1 + _number(check ^ checks.payload_check(opening, self.check_bits, key))
        block = Block(_number(index), needed, np.packbits(data).tobytes())
        return block if needed <= self.max_blocks and block.index < self.period(needed) else None


def long_layout(message_bits: int) -> LongLayout | None:
    """How frames of a long message are divided; None where they are too small for that."""
    if message_bits < MIN_LONG_PAYLOAD_BITS:
        return None
    count = max(1, (message_bits - KIND_BITS - MAX_INDEX_BITS - max(CRC_POLYNOMIALS)) // 8)
    rest = message_bits - KIND_BITS - 8 * count
    index = min(MAX_INDEX_BITS, rest // 2)
    check = min(max(CRC_POLYNOMIALS), rest - index)
    return LongLayout(index, count, rest - index - check, check)


@dataclass(frozen=True, eq=False)
class Plan:
    """A message as the bits of seconds."""

    period_payloads: NDArray[np.uint8]
    """(seconds, message_bits): the frames that follow each other, again and again."""

    needed: int
    """The least number of seconds from which the message can be read."""

    @classmethod
    def of(cls, message: Message, message_bits: int, key: bytes = PUBLIC) -> "Plan":
        """The plan for a message; `MessageError` if it is too long however long the audio."""
        if message.fits(message_bits):
            return cls(message.encode(message_bits, key)[None], 1)
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
        frames = [parts.encode_block(Block(index, needed, each.tobytes()), key) for index, each in enumerate(blocks)]
        return cls(np.stack(frames), needed)

    def payloads_for(self, seconds: float) -> NDArray[np.uint8]:
        """(seconds rounded up, message_bits) zeros and ones for audio of that length; `MessageError` if too short."""
        if floor(seconds) < self.needed and self.needed > 1:
            raise MessageError(
                f"this message needs at least {self.needed} seconds; the audio has {floor(10 * seconds) / 10:g}"
            )
        return self.period_payloads[np.arange(ceil(seconds)) % len(self.period_payloads)]


def capacity(seconds: float, message_bits: int) -> int:
    """Bytes of the longest text, or of other data, that audio of so many seconds can hold."""
    parts = long_layout(message_bits)
    spread = 0 if parts is None else parts.data_bytes * min(floor(seconds), parts.max_blocks) - BODY_OVERHEAD_BYTES
    return max(layout(message_bits).content_bytes, spread) if seconds >= 1 else 0


def parse_body(body: bytes, message_bits: int, key: bytes = PUBLIC) -> Message | None:
    """The message in the data of all blocks; None if its check says that some are wrong."""
    parts = long_layout(message_bits)
    assert parts is not None
    if checks.body_check(body[:-BODY_CHECK_BYTES], key) != body[-BODY_CHECK_BYTES:]:
        return None
    what, data = body[0], body[1:-BODY_CHECK_BYTES]
    message: Message | None
    if what >= BODY_BITS_FLAG:
        count = 8 * len(data) - (what - BODY_BITS_FLAG)
        message = Message(tuple(map(int, np.unpackbits(np.frombuffer(data, np.uint8))[: max(count, 0)])))
    else:
        message = _of_bytes(data[: max(len(data) - what % BODY_BYTES_FLAG, 0)], what < BODY_BYTES_FLAG)
    # A body that says the same in another way was not written by us.
    fits = message is not None and not message.fits(message_bits)
    return message if message is not None and fits and _body(message, parts, key) == body else None


def _of_bytes(data: bytes, is_text: bool) -> Message | None:
    try:
        return Message(data.decode() if is_text else data)
    except UnicodeDecodeError:
        return None


def _body(message: Message, parts: LongLayout, key: bytes) -> bytes:
    """What a long message is, what it says, padding to whole blocks, and the check of all that."""
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
    said = bytes([opening]) + data.ljust(room, b"\0")
    return said + checks.body_check(said, key)


def _number(bits: NDArray[np.uint8]) -> int:
    return int("".join(map(str, bits)), 2)
