"""The locating code: the known bits that a detector correlates with before it decodes anything."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from ideaw.keys import PUBLIC, derive

LOCATING_CODE_LABEL = b"locating code"
"""Purpose under which a key's locating code is derived."""


def locating_code(bits: int, key: bytes = PUBLIC) -> NDArray[np.uint8]:
    """The locating code of a key: (bits,) zeros and ones; at most 256 bits."""
    return np.unpackbits(np.frombuffer(derive(key, LOCATING_CODE_LABEL), np.uint8))[:bits]


def scrambler(code: NDArray[np.integer], generator: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Signs by which the locating code scrambles the slots of a message.

    Scrambled slots carry the locating code's bits too, each in about half of them: a receiver that knows the locating
    code loses nothing, one that does not has a second observation of it. Systematic slots are not scrambled, so that
    they can be decoded without it.

    Args:
        code: (…, bits) zeros and ones of the locating code.
        generator: (message bits, slots) of the FEC; a column of weight 1 is a systematic slot.

    Returns:
        (…, slots) of −1 and +1.
    """
    bits, slots = code.shape[-1], generator.shape[1]
    stream = np.frombuffer(hashlib.shake_256(b"ideaw mask of the code").digest(-(-bits * slots // 8)), np.uint8)
    rows = np.unpackbits(stream)[: bits * slots].reshape(bits, slots) & (generator.sum(0) > 1)
    parity = code.astype(np.uint8) @ rows & 1
    return np.asarray(1 - 2 * parity.astype(np.float32))
