"""Reed–Solomon over GF(256): from k blocks of bytes as many as 256, of which any k give back the others.

Byte by byte, blocks are the values of one polynomial of degree below k at the points 0, 1, 2 …; the first k are the
data. Blocks that are missing follow from any k that are there, by Lagrange's formula.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

MODULUS = 0x11D
"""x⁸ + x⁴ + x³ + x² + 1, for which x generates all elements but 0."""


def values_at(wanted: NDArray[np.integer], points: NDArray[np.integer], blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(wanted, bytes): the blocks at `wanted` points, from (k, bytes) at k different `points`, all from 0 to 255."""
    powers, logarithms, products = _tables()
    # In GF(256) differences are sums and both are XOR. A factor of 0 is left out here and seen to below.
    differences = logarithms[wanted[:, None] ^ points]
    among = logarithms[points[:, None] ^ points]
    exponents = differences.sum(-1, keepdims=True) - differences - among.sum(-1)
    weights = powers[exponents % 255]
    same = wanted[:, None] == points
    weights[same.any(-1)] = same[same.any(-1)]
    return np.asarray(np.bitwise_xor.reduce(products[weights[:, :, None], blocks], axis=1))


@cache
def _tables() -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """Powers of x (255,), their logarithms (256,) with 0 in place of that of 0, and all products (256, 256)."""
    powers, logarithms = np.zeros(255, np.uint8), np.zeros(256, np.int64)
    element = 1
    for exponent in range(255):
        powers[exponent], logarithms[element] = element, exponent
        element = element << 1 ^ (MODULUS if element & 0x80 else 0)
    products = powers[(logarithms[:, None] + logarithms) % 255]
    products[0], products[:, 0] = 0, 0
    return powers, logarithms, products
