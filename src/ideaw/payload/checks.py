"""Checks of payloads and bodies: CRCs under the public key, truncated HMAC-SHA-256 under any other.

They detect decoding errors: a random payload passes an 11-bit check once in 2,048 times. A keyed check also makes wrong
keys fail and stops casual forgery, no more: 11 bits can be guessed, and payloads of a key can be copied from its marks.
"""

import hashlib
import hmac
import zlib

import numpy as np
from numpy.typing import NDArray

from ideaw.keys import PUBLIC, derive

CRC_POLYNOMIALS = {2: 0x3, 3: 0x3, 4: 0x3, 5: 0x05, 6: 0x03, 7: 0x09, 8: 0x1D, 9: 0x011, 10: 0x009, 11: 0x385}
"""Width in bits → generator polynomial; each has two terms at least, so that single bit errors are detected."""

BODY_CHECK_BYTES = 4
"""Length of the check over the body of a long message."""


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
    return np.unpackbits(np.frombuffer(_mac(data, b"check of a frame", key), np.uint8))[:width]


def body_check(data: bytes, key: bytes = PUBLIC) -> bytes:
    """Compute the check of the body of a long message: CRC-32, or as many bytes of an HMAC."""
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
    """An integer as (width,) zeros and ones, the highest first."""
    return np.array([value >> place & 1 for place in reversed(range(width))], np.uint8)
