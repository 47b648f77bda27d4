"""A message as the bits of one second: what kind it is, what it says, and a check over both.

One frame fills all message bits of a model and is repeated in every second. Padding is chosen so that
lengths come back without a length field: 0xFF is no byte of UTF-8, and bits end with a 1 that is not theirs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ideaw.errors import MessageError

Content: TypeAlias = str | bytes | tuple[int, ...]
"""What a message says; bits are zeros and ones."""

KIND_BITS = 3
TEXT, BITS, ALL_BITS, LONG = 0, 5, 6, 7
"""Kinds of frames; 1 to 4 are that many bytes, and LONG is kept for messages spread over seconds."""

MOST_BYTES = 4

_CHECKS = {2: 0x3, 3: 0x3, 4: 0x3, 5: 0x05, 6: 0x03, 7: 0x09, 8: 0x1D, 9: 0x011, 10: 0x009, 11: 0x385}
"""Bits of a CRC → its polynomial; every one has two terms at least, so no flipped bit goes unseen."""


@dataclass(frozen=True)
class Layout:
    """How a model's message bits are divided: `KIND_BITS`, then `payload` bits, then `check` bits."""

    payload: int
    check: int

    @property
    def bytes(self) -> int:
        """Bytes of text or data that fit."""
        return min(self.payload // 8, MOST_BYTES)


def layout(message_bits: int) -> Layout:
    """The division of `message_bits` bits; `MessageError` if they are too few for any message."""
    check = min(max(_CHECKS), (message_bits - KIND_BITS) // 2)
    if check < min(_CHECKS):
        least = KIND_BITS + 2 * min(_CHECKS)
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

    def frame(self, message_bits: int) -> NDArray[np.uint8]:
        """`(message_bits,)` zeros and ones; `MessageError` if the message does not fit."""
        room = layout(message_bits)
        kind, payload = self._filled(room)
        opening = np.concatenate([_binary(kind, KIND_BITS), payload])
        return np.concatenate([opening, _check(opening, room.check)])

    @classmethod
    def of_frame(cls, frame: NDArray[np.integer | np.bool_]) -> "Message | None":
        """The message in `(message_bits,)` zeros and ones; None if the check says that some are wrong."""
        bits = np.asarray(frame).astype(np.uint8)
        room = layout(len(bits))
        opening, check = bits[: -room.check], bits[-room.check :]
        if not np.array_equal(_check(opening, room.check), check):
            return None
        payload = opening[KIND_BITS:]
        content = _content(int(opening[:KIND_BITS] @ (4, 2, 1)), payload, room)
        message = None if content is None else cls(content)
        # A frame that says the same in another way was not written by us.
        return message if message is not None and np.array_equal(message.frame(len(bits)), bits) else None

    def _filled(self, room: Layout) -> tuple[int, NDArray[np.uint8]]:
        """The frame's kind and its payload bits."""
        if len(self.content) == 0:
            raise MessageError("the message is empty")
        if isinstance(self.content, tuple):
            missing = room.payload - len(self.content)
            if missing < 0:
                raise MessageError(f"{len(self.content)} bits are too many: this model holds {room.payload} bits")
            bits = np.array(self.content, np.uint8)
            return (ALL_BITS, bits) if missing == 0 else (BITS, np.append(bits, _binary(1 << missing - 1, missing)))
        data = _utf8(self.content) if isinstance(self.content, str) else self.content
        if len(data) > room.bytes:
            what = "the text is" if isinstance(self.content, str) else "the message is"
            unit = "byte" if len(data) == 1 else "bytes"
            raise MessageError(f"{what} {len(data)} {unit} long, which is too long: {_capacity(room)}")
        bits = np.unpackbits(np.frombuffer(data, np.uint8))
        kind = TEXT if isinstance(self.content, str) else len(data)
        return kind, np.append(bits, np.ones(room.payload - len(bits), np.uint8))

    def __str__(self) -> str:
        if isinstance(self.content, tuple):
            return "bits " + "".join(map(str, self.content))
        return f'"{self.content}"' if isinstance(self.content, str) else f"bytes {self.content.hex()}"


def _content(kind: int, payload: NDArray[np.uint8], room: Layout) -> Content | None:
    """What a payload of this kind says; None where it says nothing."""
    data = np.packbits(payload[: 8 * room.bytes]).tobytes()
    if kind == TEXT:
        try:
            return data.rstrip(b"\xff").decode() or None
        except UnicodeDecodeError:
            return None
    if kind <= room.bytes:
        return data[:kind]
    if kind == BITS and payload.any():
        return tuple(map(int, payload[: np.flatnonzero(payload)[-1]])) or None
    return tuple(map(int, payload)) if kind == ALL_BITS else None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MessageError("the text holds half of a character (a lone surrogate); give whole ones") from None


def _capacity(room: Layout) -> str:
    if not room.bytes:
        return f"this model holds {room.payload} bits and no text"
    return f"this model holds {room.bytes} byte{'s' if room.bytes > 1 else ''}, or {room.payload} bits"


def _binary(value: int, width: int) -> NDArray[np.uint8]:
    """An integer as `(width,)` bits, the highest first."""
    return np.array([value >> place & 1 for place in reversed(range(width))], np.uint8)


def _check(bits: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """The CRC of `bits`, `(width,)`. It starts from ones, so that a frame of zeros alone is never right."""
    register, top = (1 << width) - 1, width - 1
    for bit in bits:
        feedback = register >> top & 1 ^ int(bit)
        register = (register << 1 & (1 << width) - 1) ^ (_CHECKS[width] if feedback else 0)
    return _binary(register, width)
