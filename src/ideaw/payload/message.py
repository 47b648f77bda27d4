"""A message as the payload of one second: its kind, its content, and a check over both.

A payload fills all message bits of a model and is repeated in every second. Padding makes a length field unnecessary:
0xFF is no byte of UTF-8, and bits end with a 1 that is not theirs. `framing.py` spreads longer messages over seconds.

The check is a CRC under the public key, and a truncated HMAC-SHA-256 under any other. It detects decoding errors: a
random payload passes 11 bits once in 2,048 times. A keyed check also makes wrong keys fail and stops casual forgery, no
more: 11 bits can be guessed, and payloads of a key can be copied from its marks.
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from math import floor
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ideaw.errors import MessageError
from ideaw.keys import PUBLIC, derive

Content: TypeAlias = str | bytes | tuple[int, ...]
"""Content of a message; bits are zeros and ones."""

MessageLike: TypeAlias = str | bytes | Iterable[int | bool]
"""A message as users give it: text, bytes, or a sequence of zeros and ones."""

Notation: TypeAlias = Literal["text", "hex", "bits"]
"""How somebody writes a message down: text, bytes in hexadecimal digits, or bits as zeros and ones."""

KIND_BITS = 3
TEXT_KIND, BITS_KIND, FULL_BITS_KIND, LONG_KIND = 0, 5, 6, 7
"""Kinds of payloads; 1 to 4 are that many bytes, and LONG_KIND is a block of a longer message."""

MAX_SHORT_BYTES = 4
"""Most bytes of a message in one payload: the kinds name no more."""

CRC_POLYNOMIALS = {2: 0x3, 3: 0x3, 4: 0x3, 5: 0x05, 6: 0x03, 7: 0x09, 8: 0x1D, 9: 0x011, 10: 0x009, 11: 0x385}
"""Width in bits → generator polynomial; each has two terms at least, so that single bit errors are detected."""


@dataclass(frozen=True)
class Layout:
    """Fields of a payload: `KIND_BITS`, then `content_bits`, then `check_bits`."""

    content_bits: int
    check_bits: int

    @property
    def content_bytes(self) -> int:
        """Bytes of text or data that fit into a payload."""
        return min(self.content_bits // 8, MAX_SHORT_BYTES)


@dataclass(frozen=True, eq=False)
class Plan:
    """What the seconds of a mark carry.

    Attributes:
        period_payloads: (period, message_bits), the payloads that follow each other again and again.
        needed: Least number of whole seconds from which the message can be decoded.
    """

    period_payloads: NDArray[np.uint8]
    needed: int = 1

    def check_seconds(self, seconds: float) -> None:
        """Raise `MessageError` if audio of so many seconds is too short for the message."""
        if seconds < self.needed and self.needed > 1:
            raise MessageError(
                f"this message needs at least {self.needed} seconds; the audio has {floor(10 * seconds) / 10:g}"
            )


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
    def of(cls, given: MessageLike) -> "Message":
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
    def written(cls, text: str, kind: Notation) -> "Message":
        """Make a message of what somebody wrote down: as it is, or bytes or bits in their digits.

        Raises:
            MessageError: There are other characters than digits.
        """
        if kind == "text":
            return cls(text)
        if kind == "bits":
            return cls.of_digits(text)
        try:
            return cls(bytes.fromhex(text))
        except ValueError:
            raise MessageError(f'"{text}" is not hexadecimal; give two digits, 0 to f, for each byte') from None

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

    def fits_content(self, content_bits: int) -> bool:
        """Whether the message fits into so many bits beside its kind."""
        room, content = Layout(content_bits, 0), self.content
        return (
            0
            < (len(content) if isinstance(content, tuple) else 8 * len(self.data))
            <= (room.content_bits if isinstance(content, tuple) else 8 * room.content_bytes)
        )

    def content_bits(self, content_bits: int) -> tuple[int, NDArray[np.uint8]]:
        """The kind, and (content_bits,) zeros and ones, of a message that fits into so many."""
        return self._filled(Layout(content_bits, 0))

    @classmethod
    def of_content(cls, kind: int, bits: NDArray[np.uint8]) -> "Message | None":
        """The message of a kind and its bits, as `content_bits` gives them; None if there is none."""
        content = _content(kind, bits, Layout(len(bits), 0))
        return None if content is None else cls(content)

    def encode(self, message_bits: int, key: bytes = PUBLIC) -> NDArray[np.uint8]:
        """The payload: (message_bits,) zeros and ones.

        Raises:
            MessageError: The message is empty or does not fit.
        """
        room = layout(message_bits)
        kind, content = self._filled(room)
        opening = np.concatenate([to_bits(kind, KIND_BITS), content])
        return np.concatenate([opening, payload_check(opening, room.check_bits, key)])

    def plan(self, message_bits: int, key: bytes = PUBLIC) -> Plan:
        """The plan of a message that fits into one payload, which every second repeats; raises what `encode` raises."""
        return Plan(self.encode(message_bits, key)[None])

    @classmethod
    def decode(cls, payload: NDArray[np.integer | np.bool_], key: bytes = PUBLIC) -> "Message | None":
        """The message in (message_bits,) zeros and ones; None if its check fails or `encode` would not make it."""
        bits = np.asarray(payload).astype(np.uint8)
        room = layout(len(bits))
        opening, check = bits[: -room.check_bits], bits[-room.check_bits :]
        if not np.array_equal(payload_check(opening, room.check_bits, key), check):
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


def payload_check(bits: NDArray[np.uint8], width: int, key: bytes = PUBLIC) -> NDArray[np.uint8]:
    """Compute the check of a payload; the CRC starts from ones, so that all zeros never pass.

    Args:
        bits: (n,) zeros and ones, the other bits of the payload.
        width: Bits of the check, one of CRC_POLYNOMIALS.
        key: PUBLIC for a CRC, any other for a truncated HMAC.

    Returns:
        (width,) zeros and ones.
    """
    if key == PUBLIC:
        return _crc(bits, width)
    data = bytes([len(bits), width]) + np.packbits(bits).tobytes()
    return np.unpackbits(np.frombuffer(message_mac(data, b"check of a frame", key), np.uint8))[:width]


def message_mac(data: bytes, label: bytes, key: bytes) -> bytes:
    """The 32 bytes that authenticate `data` under a key, for the purpose `label`."""
    return hmac.digest(derive(key, label), data, hashlib.sha256)


def to_bits(value: int, width: int) -> NDArray[np.uint8]:
    """An integer as (width,) zeros and ones, the highest first."""
    return np.array([value >> place & 1 for place in reversed(range(width))], np.uint8)


def _crc(bits: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    register, top = (1 << width) - 1, width - 1
    for bit in bits:
        feedback = register >> top & 1 ^ int(bit)
        register = (register << 1 & (1 << width) - 1) ^ (CRC_POLYNOMIALS[width] if feedback else 0)
    return to_bits(register, width)
