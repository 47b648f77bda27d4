"""The locating code: the bits that a detector looks for before it reads anything."""

import numpy as np
from numpy.typing import NDArray

from ideaw.payload.keys import PUBLIC, derived

LABEL = b"locating code"


def locating_code(bits: int, key: bytes = PUBLIC) -> NDArray[np.uint8]:
    """The code that belongs to a key: `(bits,)` zeros and ones."""
    return np.unpackbits(np.frombuffer(derived(key, LABEL), np.uint8))[:bits]
