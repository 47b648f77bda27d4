"""A message as the payload of one second: its kind, its content, and a check over both.

A payload fills all message bits of a model and is repeated in every second. Padding makes a length field unnecessary:
0xFF is no byte of UTF-8, and bits end with a 1 that is not theirs. `framing.py` spreads longer messages over seconds.
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
"""Content of a message; bits are zeros and ones."""

KIND_BITS = 3
TEXT_KIND, BITS_KIND, FULL_BITS_KIND, LONG_KIND = 0, 5, 6, 7
"""Kinds of payloads; 1 to 4 are that many bytes, and LONG_KIND is a block of a longer message."""

MAX_SHORT_BYTES = 4


@dataclass(frozen=True)
class Layout:
    """Fields of a payload: `KIND_BITS`, then `content_bits`, then `check_bits`."""

    content_bits: int
    check_bits: int

    @property
    def content_bytes(self) -> int:
        """Bytes of text or data that fit into a payload."""
        return min(self.content_bits // 8, MAX_SHORT_BYTES)


def layout(message_bits: int) -> Layout:
    """Fields of a payload of `message_bits` bits.

    Raises:
        MessageError: They are too few for any message.
    """
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
        """Make a message of a string, bytes, or a sequence or array of zeros and ones.

        Raises:
            MessageError: It is none of these.
        """
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
        """Make a message of bits written as a string, `"0110"`.

        Raises:
            MessageError: There are other characters.
        """
        if set(digits) - {"0", "1"}:
            raise MessageError(f'"{digits}" is not written in zeros and ones')
        return cls(tuple(int(digit) for digit in digits))

    @property
    def data(self) -> bytes:
        """Text as UTF-8, bytes as they are, bits packed into bytes with zeros at the end.

        Raises:
            MessageError: The text holds a lone surrogate.
        """
        if isinstance(self.content, tuple):
            return np.packbits(np.array(self.content, np.uint8)).tobytes()
        return _utf8(self.content) if isinstance(self.content, str) else self.content

    def fits(self, message_bits: int) -> bool:
        """Whether the message fits into one payload."""
        room = layout(message_bits)
        return (
            len(self.content) <= room.content_bits
            if isinstance(self.content, tuple)
            else len(self.data) <= room.content_bytes
        )

    def encode(self, message_bits: int, key: bytes = PUBLIC) -> NDArray[np.uint8]:
        """The payload: (message_bits,) zeros and ones.

        Raises:
            MessageError: The message is empty or does not fit.
        """
        room = layout(message_bits)
        kind, content = self._filled(room)
        opening = np.concatenate([to_bits(kind, KIND_BITS), content])
        return np.concatenate([opening, checks.payload_check(opening, room.check_bits, key)])

    @classmethod
    def decode(cls, payload: NDArray[np.integer | np.bool_], key: bytes = PUBLIC) -> "Message | None":
        """The message in (message_bits,) zeros and ones; None if its check fails or `encode` would not make it."""
        bits = np.asarray(payload).astype(np.uint8)
        room = layout(len(bits))
        opening, check = bits[: -room.check_bits], bits[-room.check_bits :]
        if not np.array_equal(checks.payload_check(opening, room.check_bits, key), check):
            return None
        content = _content(int(opening[:KIND_BITS] @ (4, 2, 1)), opening[KIND_BITS:], room)
        message = None if content is None else cls(content)
        # Only the canonical payload is accepted: other encodings of the message would raise the false-alarm rate.
        return message if message is not None and np.array_equal(message.encode(len(bits), key), bits) else None

    def _filled(self, room: Layout) -> tuple[int, NDArray[np.uint8]]:
        """Kind and padded content bits."""
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


def _content(kind: int, bits: NDArray[np.uint8], room: Layout) -> Content | None:
    """Content of this kind in (content_bits,) zeros and ones; None if there is none."""
    data = np.packbits(bits[: 8 * room.content_bytes]).tobytes()
    if kind == TEXT_KIND:
        try:
            return data.rstrip(b"\xff").decode() or None
        except UnicodeDecodeError:
            return None
    if kind <= room.content_bytes:
        return data[:kind]
    if kind == BITS_KIND and bits.any():
        return tuple(map(int, bits[: np.flatnonzero(bits)[-1]])) or None
    return tuple(map(int, bits)) if kind == FULL_BITS_KIND else None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MessageError("the text holds half of a character (a lone surrogate); give whole ones") from None


def _capacity(room: Layout) -> str:
    if not room.content_bytes:
        return f"this model holds {room.content_bits} bits and no text"
    unit = "bytes" if room.content_bytes > 1 else "byte"
    return f"this model holds {room.content_bytes} {unit}, or {room.content_bits} bits"
