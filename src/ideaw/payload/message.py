"""A message as bits: its kind and its content, in the few that every second repeats.

Padding makes a length field unnecessary: 0xFF is no byte of UTF-8, and bits end with a 1 that is not theirs. `body.py`
has the bits of longer messages, which take several seconds.
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ideaw.errors import MessageError
from ideaw.keys import derive

Content: TypeAlias = str | bytes | tuple[int, ...]
"""Content of a message; bits are zeros and ones."""

MessageLike: TypeAlias = str | bytes | Iterable[int | bool]
"""A message as users give it: text, bytes, or a sequence of zeros and ones."""

Notation: TypeAlias = Literal["text", "hex", "bits"]
"""How somebody writes a message down: text, bytes in hexadecimal digits, or bits as zeros and ones."""

KIND_BITS = 3
TEXT_KIND, BITS_KIND, FULL_BITS_KIND, LONG_KIND = 0, 5, 6, 7
"""Kinds of messages; 1 to 4 are that many bytes, and LONG_KIND is one that does not fit."""

MAX_SHORT_BYTES = 4
"""Most bytes of a message in every second: the kinds name no more."""

MAX_CHECK_SHARE_BITS, MIN_CONTENT_BITS = 11, 2
"""Bits of a second's payload that a message leaves free, at most, and the least that its content needs: what a message
can hold has been settled by these since the check was a part of the payload."""


@dataclass(frozen=True)
class Layout:
    """Bits of a message in every second: `KIND_BITS`, then `content_bits`."""

    content_bits: int

    @property
    def content_bytes(self) -> int:
        """Bytes of text or data that fit."""
        return min(self.content_bits // 8, MAX_SHORT_BYTES)


def layout(message_bits: int) -> Layout:
    """What a message may have in every second of a model of `message_bits` bits.

    Raises:
        MessageError: They are too few for any message.
    """
    free = min(MAX_CHECK_SHARE_BITS, (message_bits - KIND_BITS) // 2)
    if free < MIN_CONTENT_BITS:
        least = KIND_BITS + 2 * MIN_CONTENT_BITS
        raise MessageError(
            f"a model of {message_bits} message bits is too small for messages; at least {least} are needed"
        )
    return Layout(message_bits - KIND_BITS - free)


def short_word_bits(message_bits: int) -> int:
    """Bits of kind and content together in every second of a model; 0 if it has too few for messages."""
    try:
        return KIND_BITS + layout(message_bits).content_bits
    except MessageError:
        return 0


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
        """Whether the message fits into every second."""
        room = layout(message_bits)
        return (
            len(self.content) <= room.content_bits
            if isinstance(self.content, tuple)
            else len(self.data) <= room.content_bytes
        )

    def fits_content(self, content_bits: int) -> bool:
        """Whether the message fits into so many bits beside its kind."""
        room, content = Layout(content_bits), self.content
        return (
            0
            < (len(content) if isinstance(content, tuple) else 8 * len(self.data))
            <= (room.content_bits if isinstance(content, tuple) else 8 * room.content_bytes)
        )

    def content_bits(self, content_bits: int) -> tuple[int, NDArray[np.uint8]]:
        """The kind, and (content_bits,) zeros and ones, of a message that fits into so many."""
        return self._filled(Layout(content_bits))

    @classmethod
    def of_content(cls, kind: int, bits: NDArray[np.uint8]) -> "Message | None":
        """The message of a kind and its bits, as `content_bits` gives them; None if there is none."""
        content = _content(kind, bits, Layout(len(bits)))
        return None if content is None else cls(content)

    def encode(self, message_bits: int) -> NDArray[np.uint8]:
        """Kind and content in every second: (KIND_BITS + content_bits,) zeros and ones.

        Raises:
            MessageError: The message is empty or does not fit.
        """
        kind, content = self._filled(layout(message_bits))
        return np.concatenate([to_bits(kind, KIND_BITS), content])

    @classmethod
    def decode(cls, bits: NDArray[np.integer | np.bool_]) -> "Message | None":
        """The message in (KIND_BITS + content_bits,) zeros and ones; None if `encode` would not make them."""
        given = np.asarray(bits).astype(np.uint8)
        room = Layout(len(given) - KIND_BITS)
        content = _content(int(given[:KIND_BITS] @ (4, 2, 1)), given[KIND_BITS:], room)
        if content is None:
            return None
        # Only the canonical bits are accepted: other encodings of the message would raise the false-alarm rate.
        kind, canonical = cls(content)._filled(room)
        return cls(content) if np.array_equal(np.append(to_bits(kind, KIND_BITS), canonical), given) else None

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


def message_mac(data: bytes, label: bytes, key: bytes) -> bytes:
    """The 32 bytes that authenticate `data` under a key, for the purpose `label`."""
    return hmac.digest(derive(key, label), data, hashlib.sha256)


def to_bits(value: int, width: int) -> NDArray[np.uint8]:
    """An integer as (width,) zeros and ones, the highest first."""
    return np.array([value >> place & 1 for place in reversed(range(width))], np.uint8)
