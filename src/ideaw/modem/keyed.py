"""What words of a key look like to others: signs drawn from the key, and a cipher for a few bits.

SHAKE-256 that begins with 32 secret bytes, which HMAC-SHA-256 derives from the key for each purpose, is a pseudo-random
function of what follows. The cipher is a Feistel network of it: without the key, a word says nothing about its bits,
and a changed word nothing about what it will say.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from ideaw.keys import derive

NUM_ROUNDS = 10
"""Rounds of the cipher: as many as the standard for small blocks has (NIST SP 800-38G, FF1)."""

CIPHER_LABEL = b"wire format 1: cipher"
"""Purpose under which the cipher's secret is derived."""


def keyed_signs(key: bytes, label: bytes, shape: tuple[int, ...], data: bytes = b"") -> NDArray[np.float32]:
    """Signs ±1 of this shape that belong to a key, a purpose and `data`; a bit that is set gives −1."""
    count = int(np.prod(shape))
    drawn = hashlib.shake_256(derive(key, label) + data).digest(-(-count // 8))
    bits = np.unpackbits(np.frombuffer(drawn, np.uint8))[:count]
    return 1 - 2 * bits.astype(np.float32).reshape(shape)


def keyed_numbers(key: bytes, label: bytes, count: int) -> NDArray[np.uint64]:
    """So many numbers of 64 bits that belong to a key and a purpose."""
    return np.frombuffer(hashlib.shake_256(derive(key, label)).digest(8 * count), "<u8")


def word_bytes(word: NDArray[np.uint8]) -> bytes:
    """(n,) zeros and ones as bytes: n in two bytes, the highest first, then the bits, filled up with zeros."""
    return len(word).to_bytes(2, "big") + np.packbits(word).tobytes()


def encipher(bits: NDArray[np.uint8], key: bytes) -> NDArray[np.uint8]:
    """(n,) zeros and ones → as many, a permutation of all words of this length."""
    secret, left, right = derive(key, CIPHER_LABEL), *np.split(bits, [len(bits) // 2])
    for number in range(NUM_ROUNDS):
        left, right = right, left ^ _round(secret, number, right, len(left))
    return np.concatenate([left, right])


def decipher(bits: NDArray[np.uint8], key: bytes) -> NDArray[np.uint8]:
    """What `encipher` made (n,) zeros and ones of."""
    secret, left, right = derive(key, CIPHER_LABEL), *np.split(bits, [len(bits) // 2])
    for number in reversed(range(NUM_ROUNDS)):
        left, right = right ^ _round(secret, number, left, len(right)), left
    return np.concatenate([left, right])


def _round(secret: bytes, number: int, half: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """The (count,) bits that one half adds to the other in a round."""
    drawn = hashlib.shake_256(secret + bytes([number, count & 1]) + word_bytes(half)).digest(-(-count // 8))
    return np.unpackbits(np.frombuffer(drawn, np.uint8))[:count]
