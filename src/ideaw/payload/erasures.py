"""Reed–Solomon erasure code over GF(256): k data blocks become up to 256, any k of which give back the others.

Byte by byte, blocks are the values of one polynomial of degree below k at the points 0, 1, 2 …; the first k are the
data (systematic). Erased blocks follow from any k others by Lagrange interpolation.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

MODULUS = 0x11D
"""x⁸ + x⁴ + x³ + x² + 1; it is primitive, so x generates all elements but 0."""


def values_at(wanted: NDArray[np.integer], points: NDArray[np.integer], blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Interpolate blocks.

    Args:
        wanted: (n,) points from 0 to 255.
        points: (k,) different points from 0 to 255.
        blocks: (k, bytes) at these points.

    Returns:
        (n, bytes), the blocks at `wanted`.
    """
    powers, logarithms, products = _tables()
    # In GF(256) differences are sums and both are XOR. A 0 has no logarithm; given points are copied below.
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
