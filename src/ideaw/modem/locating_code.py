"""The locating code: the bits that a detector looks for before it reads anything."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from ideaw.keys import PUBLIC, derive

LABEL = b"locating code"


def locating_code(bits: int, key: bytes = PUBLIC) -> NDArray[np.uint8]:
    """The code that belongs to a key: `(bits,)` zeros and ones."""
    return np.unpackbits(np.frombuffer(derive(key, LABEL), np.uint8))[:bits]


def scrambler(code: NDArray[np.integer], generator: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(…, bits) of a code → (…, slots) of −1 and +1: which slots of a message the code turns over.

    So these say the code's bits too, each in about half of them. Whoever knows the code loses nothing by that; whoever
    does not has a second source. Slots that are the message's bits themselves, as its `generator` tells, are left
    alone: they are understood even where the code is not.
    """
    bits, slots = code.shape[-1], generator.shape[1]
    drawn = np.frombuffer(hashlib.shake_256(b"ideaw mask of the code").digest(-(-bits * slots // 8)), np.uint8)
    rows = np.unpackbits(drawn)[: bits * slots].reshape(bits, slots) & (generator.sum(0) > 1)
    return 1 - 2 * (code.astype(np.uint8) @ rows & 1).astype(np.float32)
