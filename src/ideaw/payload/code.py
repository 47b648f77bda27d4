"""The locating code: the bits that a detector looks for before it reads anything.

Derived from a label by HMAC-SHA-256, so that a secret key can take the place of the public one.
"""

import hashlib
import hmac

import numpy as np
from numpy.typing import NDArray

PUBLIC = b"ideaw public key 1"
"""The key of marks that anyone may find."""

LABEL = b"locating code"


def locating_code(bits: int, key: bytes = PUBLIC) -> NDArray[np.uint8]:
    """The code that belongs to a key: `(bits,)` zeros and ones."""
    digest = hmac.digest(key, LABEL, hashlib.sha256)
    return np.unpackbits(np.frombuffer(digest, np.uint8))[:bits]
