"""A message as the bits of one second: what kind it is, what it says, and a check over both.

One frame fills all message bits of a model and is repeated in every second. Padding is chosen so that
lengths come back without a length field: 0xFF is no byte of UTF-8, and bits end with a 1 that is not theirs.
What does not fit into one frame is spread over seconds, by `plan.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ideaw.errors import MessageError
from ideaw.keys import PUBLIC
from ideaw.payload import checks
from ideaw.payload.checks import CRC_POLYNOMIALS, to_bits

Content: TypeAlias = str | bytes | tuple[int, ...]
"""What a message says; bits are zeros and ones."""

KIND_BITS = 3
TEXT_KIND, BITS_KIND, FULL_BITS_KIND, LONG_KIND = 0, 5, 6, 7
"""Kinds of frames; 1 to 4 are that many bytes, and LONG_KIND is a part of a message that is spread over seconds."""

MAX_SHORT_BYTES = 4


@dataclass(frozen=True)
class Layout:
    """How a model's message bits are divided: `KIND_BITS`, then `payload` bits, then `check` bits."""

    content_bits: int
    check_bits: int

    @property
    def content_bytes(self) -> int:
        """Bytes of text or data that fit."""
        return min(self.content_bits // 8, MAX_SHORT_BYTES)


def layout(message_bits: int) -> Layout:
    """The division of `message_bits` bits; `MessageError` if they are too few for any message."""
    check = min(max(CRC_POLYNOMIALS), (message_bits - KIND_BITS) // 2)
    if check < min(CRC_POLYNOMIALS):
        least = KIND_BITS + 2 * min(CRC_POLYNOMIALS)
        raise MessageError(
            f"a model of {message_bits} message bits is too small for messages; at least {least} are needed"
        )
    return Layout(message_bits - KIND_BITS - check, check)


@dataclass(frozen=True)
class Message:
    """One message: text, bytes or bits."""

    content: Content

    @classmethod
    def of(cls, given: str | bytes | bytearray | Iterable[int | bool]) -> "Message":
        """What a user gives as a message: a string, bytes, or a sequence or array of zeros and ones."""
        if isinstance(given, str):
            return cls(given)
        if isinstance(given, bytes | bytearray | memoryview):
            return cls(bytes(given))
        try:
            values = list(given)
            fit = all(np.ndim(value) == 0 and value in (0, 1) for value in values)
        except (TypeError, ValueError):
            raise MessageError(f"a message is text, bytes or bits, not {type(given).__name__}") from None
        if not fit:
            raise MessageError(
                "a sequence is taken as bits, and these are not all 0 or 1; give text or bytes otherwise"
            )
        return cls(tuple(int(value) for value in values))

    @classmethod
    def of_digits(cls, digits: str) -> "Message":
        """Bits written as a string, `"0110"`, as on a command line."""
        if set(digits) - {"0", "1"}:
            raise MessageError(f'"{digits}" is not written in zeros and ones')
        return cls(tuple(int(digit) for digit in digits))

    @property
    def data(self) -> bytes:
        """Text as UTF-8, bytes as they are, bits as bytes that zeros fill up; `MessageError` for what is no text."""
        if isinstance(self.content, tuple):
            return np.packbits(np.array(self.content, np.uint8)).tobytes()
        return _utf8(self.content) if isinstance(self.content, str) else self.content

    def fits(self, message_bits: int) -> bool:
        """Whether the message fits into one frame."""
        room = layout(message_bits)
        return (
            len(self.content) <= room.content_bits
            if isinstance(self.content, tuple)
            else len(self.data) <= room.content_bytes
        )

    def encode(self, message_bits: int, key: bytes = PUBLIC) -> NDArray[np.uint8]:
        """`(message_bits,)` zeros and ones; `MessageError` if the message does not fit."""
        room = layout(message_bits)
        kind, payload = self._filled(room)
        opening = np.concatenate([to_bits(kind, KIND_BITS), payload])
        return np.concatenate([opening, checks.payload_check(opening, room.check_bits, key)])

    @classmethod
    def decode(cls, payload: NDArray[np.integer | np.bool_], key: bytes = PUBLIC) -> "Message | None":
        """The message in `(message_bits,)` zeros and ones; None if the check says that some are wrong."""
        bits = np.asarray(payload).astype(np.uint8)
        room = layout(len(bits))
        opening, check = bits[: -room.check_bits], bits[-room.check_bits :]
        if not np.array_equal(checks.payload_check(opening, room.check_bits, key), check):
            return None
        content = _content(int(opening[:KIND_BITS] @ (4, 2, 1)), opening[KIND_BITS:], room)
        message = None if content is None else cls(content)
        # A frame that says the same in another way was not written by us.
        return message if message is not None and np.array_equal(message.encode(len(bits), key), bits) else None

    def _filled(self, room: Layout) -> tuple[int, NDArray[np.uint8]]:
        """The frame's kind and its payload bits."""
        if len(self.content) == 0:
            raise MessageError("the message is empty")
        if isinstance(self.content, tuple):
            missing = room.content_bits - len(self.content)
            if missing < 0:
                raise MessageError(f"{len(self.content)} bits are too many: this model holds {room.content_bits} bits")
            bits = np.array(self.content, np.uint8)
            return (
                (FULL_BITS_KIND, bits)
                if missing == 0
                else (BITS_KIND, np.append(bits, to_bits(1 << missing - 1, missing)))
            )
        data = self.data
        if len(data) > room.content_bytes:
            what = "the text is" if isinstance(self.content, str) else "the message is"
            unit = "byte" if len(data) == 1 else "bytes"
            raise MessageError(f"{what} {len(data)} {unit} long, which is too long: {_capacity(room)}")
        bits = np.unpackbits(np.frombuffer(data, np.uint8))
        kind = TEXT_KIND if isinstance(self.content, str) else len(data)
        return kind, np.append(bits, np.ones(room.content_bits - len(bits), np.uint8))

    def __str__(self) -> str:
        if isinstance(self.content, tuple):
            return "bits " + "".join(map(str, self.content))
        return f'"{self.content}"' if isinstance(self.content, str) else f"bytes {self.content.hex()}"


def _content(kind: int, payload: NDArray[np.uint8], room: Layout) -> Content | None:
    """What a payload of this kind says; None where it says nothing."""
    data = np.packbits(payload[: 8 * room.content_bytes]).tobytes()
    if kind == TEXT_KIND:
        try:
            return data.rstrip(b"\xff").decode() or None
        except UnicodeDecodeError:
            return None
    if kind <= room.content_bytes:
        return data[:kind]
    if kind == BITS_KIND and payload.any():
        return tuple(map(int, payload[: np.flatnonzero(payload)[-1]])) or None
    return tuple(map(int, payload)) if kind == FULL_BITS_KIND else None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MessageError("the text holds half of a character (a lone surrogate); give whole ones") from None


def _capacity(room: Layout) -> str:
    if not room.content_bytes:
        return f"this model holds {room.content_bits} bits and no text"
    return f"this model holds {room.content_bytes} byte{'s' if room.content_bytes > 1 else ''}, or {room.content_bits} bits"
