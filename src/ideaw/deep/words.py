"""What the deep layer says: a short message itself in 2, 3 or 4 bytes, or a tag of 16 bits of any other message.

The bytes are enciphered, so that a combination of known words is a word at random. Each is then one of the Reed-Muller
code RM(1, 7): 128 symbols, 256 words, any two of them orthogonal or opposite. The kind of the message (text, bytes,
bits, tag) scrambles the symbols of the first byte, and the last tiles of a period carry signs that only the key and the
whole word give, which check it. A message has one word, so a detector that is given the message can look for this word
alone.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ideaw.deep.signs import NUM_CHECK_TILES, NUM_CONTENT_TILES, SYMBOLS_PER_BLOCK, KeyPattern
from ideaw.modem.keyed import decipher, encipher, keyed_signs
from ideaw.payload.message import BITS_KIND, FULL_BITS_KIND, LONG_KIND, TEXT_KIND, Message, message_mac

TAG_BYTES = 2
"""Bytes of a tag."""

KINDS_OF_BYTES = {
    2: (TEXT_KIND, 1, 2, BITS_KIND, FULL_BITS_KIND, LONG_KIND),
    3: (TEXT_KIND, 3, BITS_KIND, FULL_BITS_KIND),
    4: (TEXT_KIND, 4, BITS_KIND, FULL_BITS_KIND),
}
"""Bytes of a word → the kinds of messages that are written in so many; 1 to 4 are that many bytes, LONG_KIND is a
tag."""

MIN_SECONDS_OF_BYTES = {2: 0.0, 3: 8.0, 4: 11.0}
"""Seconds of audio from which on a word of so many bytes is written; in shorter audio its tag is."""

WORDS_PER_BLOCK = 2 * SYMBOLS_PER_BLOCK
"""Values of a byte."""


CHECK_LABEL = b"deep check"
"""Purpose under which the signs that check a word are drawn."""


@dataclass(frozen=True)
class Word:
    """What is written: a kind and 2 to 4 enciphered bytes."""

    kind: int
    data: bytes

    @classmethod
    def of(cls, message: Message, key: bytes, seconds: float = np.inf) -> "Word":
        """The word of a message in audio of so many seconds."""
        for count in KINDS_OF_BYTES:
            if message.fits_content(8 * count) and seconds >= MIN_SECONDS_OF_BYTES[count]:
                kind, bits = message.content_bits(8 * count)
                return cls(kind, np.packbits(encipher(bits, key)).tobytes())
        return cls.tag(message, key)

    @classmethod
    def tag(cls, message: Message, key: bytes) -> "Word":
        """The tag of a message of any length."""
        kind = {str: b"text", bytes: b"bytes", tuple: b"bits"}[type(message.content)]
        count = len(message.content).to_bytes(8, "big")
        return cls(LONG_KIND, message_mac(kind + count + message.data, b"deep tag", key)[:TAG_BYTES])

    def message(self, key: bytes) -> Message | None:
        """The message; None of a tag, and of a word that no message has."""
        if self.kind == LONG_KIND:
            return None
        message = Message.of_content(self.kind, decipher(np.unpackbits(np.frombuffer(self.data, np.uint8)), key))
        return message if message is not None and Word.of(message, key) == self else None

    def symbols(self, pattern: KeyPattern) -> NDArray[np.float32]:
        """(NUM_TILES,) of −1 and +1: the content again and again, then what checks it."""
        return np.concatenate([np.resize(self.content(pattern), NUM_CONTENT_TILES), self.check(pattern.key)])

    def content(self, pattern: KeyPattern) -> NDArray[np.float32]:
        """(len(data) · SYMBOLS_PER_BLOCK,) of −1 and +1."""
        blocks = np.stack([reed_muller()[byte] for byte in self.data])
        blocks[0] *= pattern.kind_masks[self.kind]
        return blocks.ravel()

    def check(self, key: bytes) -> NDArray[np.float32]:
        """(NUM_CHECK_TILES,) of −1 and +1 that only the key and the whole word give."""
        return keyed_signs(key, CHECK_LABEL, (NUM_CHECK_TILES,), bytes([self.kind]) + self.data)


def count_words(num_bytes: int) -> int:
    """How many words of so many bytes are told apart."""
    return int(len(KINDS_OF_BYTES[num_bytes]) * WORDS_PER_BLOCK**num_bytes)


@cache
def reed_muller() -> NDArray[np.float32]:
    """(WORDS_PER_BLOCK, SYMBOLS_PER_BLOCK) of −1 and +1: the rows of a Hadamard matrix, and their opposites."""
    rows = np.ones((1, 1), np.float32)
    while len(rows) < SYMBOLS_PER_BLOCK:
        rows = np.block([[rows, rows], [rows, -rows]])
    return np.concatenate([rows, -rows])
