"""Conversion between the caller's sample types and the float64 that is processed.

Everything inside is `(n, channels)` float64, because that holds 32-bit PCM exactly: a sample that the mark does not
touch comes back with the same bits.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.errors import AudioError

_ZERO_CODES = {"uint8": 128, "int8": 0, "int16": 0, "int32": 0}
"""Integer types that are accepted, and the code that stands for zero in each."""

_FLOATS = ("float16", "float32", "float64")


def as_float(samples: ArrayLike) -> NDArray[np.float64]:
    """Convert samples to float64.

    Args:
        samples: `(n,)` or `(n, channels)` of float16, float32, float64, int8, uint8, int16 or int32.

    Returns:
        `(n, channels)` float64; integers are scaled to [-1, 1), floats keep their values.

    Raises:
        AudioError: the array has other dimensions or another dtype.
    """
    array = np.asarray(samples)
    if array.ndim not in (1, 2):
        raise AudioError(f"the samples have {array.ndim} dimensions; give (samples,) or (samples, channels)")
    name = array.dtype.name
    columns = array[:, None] if array.ndim == 1 else array
    if name in _FLOATS:
        return columns.astype(np.float64)
    if name in _ZERO_CODES:
        return (columns.astype(np.float64) - _ZERO_CODES[name]) / _full_scale(array.dtype)
    raise AudioError(f"samples of type {name} are not audio; give float32, float64, int16, int32, int8 or uint8")


def restore(floats: NDArray[np.floating], like: ArrayLike) -> NDArray[Any]:
    """Convert floats back to the shape and dtype of the caller's samples.

    Integers are rounded and saturated. Floats are clipped to [-1, 1] wherever `like` was within it; a sample that
    was beyond full scale already is the caller's own and may stay there.

    Args:
        floats: `(n, channels)`, full scale 1.
        like: the `(n,)` or `(n, channels)` samples that `as_float` was given.
    """
    original = np.asarray(like)
    values = floats.reshape(original.shape)
    name = original.dtype.name
    if name in _ZERO_CODES:
        info = np.iinfo(original.dtype)
        codes = np.rint(values * _full_scale(original.dtype)) + _ZERO_CODES[name]
        return np.asarray(np.clip(codes, info.min, info.max), original.dtype)
    inside = np.abs(original) <= 1
    return np.where(inside, np.clip(values, -1, 1), values).astype(original.dtype)


def quantisation_step(dtype: np.dtype[Any]) -> float:
    """Distance of two neighbouring values of an integer type, where 1 is full scale; 0 for floats."""
    return 1 / _full_scale(dtype) if dtype.kind in "iu" else 0.0


def as_integers(samples: NDArray[np.floating], bits: int) -> NDArray[np.int64]:
    """Round floats of full scale 1 to the nearest code of signed `bits`-bit PCM, saturating beyond full scale."""
    scale = 2.0 ** (bits - 1)
    return np.asarray(np.clip(np.rint(samples * scale), -scale, scale - 1), np.int64)


def _full_scale(dtype: np.dtype[Any]) -> float:
    return float(2.0 ** (8 * dtype.itemsize - 1))
