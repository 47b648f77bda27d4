"""Arrays as users give them: one channel or several, floats or integer PCM.

Inside, everything is `(n, channels)` float64, because that holds 32-bit PCM exactly: a sample that
the mark does not touch comes back with the same bits.
"""

import numbers

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.errors import AudioError

MIN_RATE, MAX_RATE = 8_000, 192_000
"""Sampling rates that are taken, in Hz."""

MAX_CHANNELS = 16

MIN_SECONDS = 1.0
"""One segment: the least that can carry a mark."""

SILENCE = -80.0
"""Level over the whole, in dBFS, below which there is nothing to hide a mark under."""

LOUDEST = 1e10
"""The largest sample that is taken, where 1 is full scale: more than integers of 32 bits as floats have."""

_EMPTY = "there are no samples; at least 1 s is needed"
_OFFSETS = {"uint8": 128, "int8": 0, "int16": 0, "int32": 0}
_FLOATS = ("float16", "float32", "float64")


def as_float(samples: ArrayLike) -> NDArray[np.float64]:
    """`(n,)` or `(n, channels)` floats or integers, as `(n, channels)` float64; integers scaled to [-1, 1)."""
    array = np.asarray(samples)
    if array.ndim not in (1, 2):
        raise AudioError(f"the samples have {array.ndim} dimensions; give (samples,) or (samples, channels)")
    kind = array.dtype.name
    columns = array[:, None] if array.ndim == 1 else array
    if kind in _FLOATS:
        return columns.astype(np.float64)
    if kind in _OFFSETS:
        return (columns.astype(np.float64) - _OFFSETS[kind]) / _full_scale(array.dtype)
    raise AudioError(f"samples of type {kind} are not audio; give float32, float64, int16, int32, int8 or uint8")


def restore(floats: NDArray[np.floating], like: ArrayLike) -> NDArray:
    """`(n, channels)` floats in the shape and type of `like`.

    Integers are rounded and saturated. Floats are kept within [-1, 1] wherever `like` was within
    it; a sample that went beyond it already is the caller's own and is left to go there.
    """
    original = np.asarray(like)
    values = floats.reshape(original.shape)
    kind = original.dtype.name
    if kind in _OFFSETS:
        info = np.iinfo(original.dtype)
        steps = np.rint(values * _full_scale(original.dtype)) + _OFFSETS[kind]
        return np.clip(steps, info.min, info.max).astype(original.dtype)
    inside = np.abs(original) <= 1
    return np.where(inside, np.clip(values, -1, 1), values).astype(original.dtype)


def check(floats: NDArray[np.floating], rate: float) -> None:
    """Whether `(n, channels)` floats at `rate` Hz can be marked or searched; raises `AudioError` if not.

    Silence passes, since a search in it has an answer; before marking, call `check_not_silent` too.
    """
    check_rate(rate)
    if floats.ndim != 2:
        raise AudioError(f"the samples have {floats.ndim} dimensions; give (samples, channels)")
    length, channels = floats.shape
    if floats.size == 0:
        raise AudioError(_EMPTY)
    if length <= MAX_CHANNELS < channels:
        raise AudioError(f"the samples have shape {floats.shape}, which looks transposed; give (samples, channels)")
    check_channels(channels)
    check_length(length, rate)
    check_finite(floats)


def check_rate(rate: float) -> None:
    """Raises `AudioError` if `rate` is not a whole number of Hz that is taken."""
    if not isinstance(rate, numbers.Real) or not MIN_RATE <= rate <= MAX_RATE or rate != int(rate):
        raise AudioError(f"a rate of {rate} Hz cannot be used; give a whole number from {MIN_RATE} to {MAX_RATE} Hz")


def check_channels(channels: int) -> None:
    """Raises `AudioError` if there are more channels than are taken."""
    if channels > MAX_CHANNELS:
        raise AudioError(f"{channels} channels are too many; give 1 to {MAX_CHANNELS}")


def check_length(length: int, rate: float) -> None:
    """Raises `AudioError` if so many samples at `rate` Hz are too few to carry a mark."""
    if length == 0:
        raise AudioError(_EMPTY)
    if length < MIN_SECONDS * rate:
        seconds = np.floor(100 * length / rate) / 100
        raise AudioError(f"the audio is {seconds:g} s long; at least {MIN_SECONDS:g} s is needed")


def check_finite(floats: NDArray[np.floating]) -> None:
    """Raises `AudioError` if some samples are not finite, or so large that their squares would not be."""
    if not np.isfinite(floats).all():
        raise AudioError("some samples are NaN or infinite; replace them, for instance with numpy.nan_to_num")
    if np.abs(floats).max(initial=0) > LOUDEST:
        raise AudioError(f"some samples are beyond {LOUDEST:g}, where 1 is full scale; scale them down")


def check_not_silent(power: float) -> None:
    """Raises `AudioError` if audio of this mean square is too quiet to hide a mark under."""
    if power == 0:
        raise AudioError("the audio is silent: all samples are zero; a mark needs sound to hide under")
    level = 10 * np.log10(power)
    if level < SILENCE:
        raise AudioError(f"the audio is silent ({level:.0f} dBFS); a mark needs at least {SILENCE:.0f} dBFS")


def _full_scale(dtype: np.dtype) -> float:
    return 2.0 ** (8 * dtype.itemsize - 1)
