"""Checks: what tells a message from a misreading, and with a secret key from a forgery.

Under the public key they are CRCs. Under any other they are as many bits of an HMAC-SHA-256, so that nobody
without the key can make a frame, or tell whether one is right.
"""

import hashlib
import hmac
import zlib

import numpy as np
from numpy.typing import NDArray

from ideaw.keys import PUBLIC, derive

CRC_POLYNOMIALS = {2: 0x3, 3: 0x3, 4: 0x3, 5: 0x05, 6: 0x03, 7: 0x09, 8: 0x1D, 9: 0x011, 10: 0x009, 11: 0x385}
"""Bits of a CRC → its polynomial; every one has two terms at least, so no flipped bit goes unseen."""

BODY_CHECK_BYTES = 4
"""Of the check over a message that is spread over seconds."""


def payload_check(bits: NDArray[np.uint8], width: int, key: bytes = PUBLIC) -> NDArray[np.uint8]:
    """The check `(width,)` of the other bits of a frame. The CRC starts from ones: zeros alone are never right."""
    if key == PUBLIC:
        return _crc(bits, width)
    said = bytes([len(bits), width]) + np.packbits(bits).tobytes()
    return np.unpackbits(np.frombuffer(_mac(said, b"check of a frame", key), np.uint8))[:width]


def body_check(data: bytes, key: bytes = PUBLIC) -> bytes:
    """The check of a message that is spread over seconds: CRC-32, or the beginning of a MAC."""
    if key == PUBLIC:
        return zlib.crc32(data).to_bytes(BODY_CHECK_BYTES, "big")
    return _mac(data, b"check of a long message", key)[:BODY_CHECK_BYTES]


def _mac(data: bytes, label: bytes, key: bytes) -> bytes:
    return hmac.digest(derive(key, label), data, hashlib.sha256)


def _crc(bits: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    register, top = (1 << width) - 1, width - 1
    for bit in bits:
        feedback = register >> top & 1 ^ int(bit)
        register = (register << 1 & (1 << width) - 1) ^ (CRC_POLYNOMIALS[width] if feedback else 0)
    return to_bits(register, width)


def to_bits(value: int, width: int) -> NDArray[np.uint8]:
    """An integer as `(width,)` bits, the highest first."""
    return np.array([value >> place & 1 for place in reversed(range(width))], np.uint8)
