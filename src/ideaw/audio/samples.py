"""The samples of a caller: what they must be, and how they become the float64 that is processed and come back.

Everything inside is `(n, channels)` float64, because that holds 32-bit PCM exactly: a sample that the mark does not
touch comes back with the same bits. Arrays, files and streams share these checks, so that each wrong input gives the
same one line everywhere.
"""

import numbers
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.errors import AudioError, TooLongError

MIN_RATE_HZ, MAX_RATE_HZ = 8_000, 192_000
"""Accepted sampling rates."""

MAX_CHANNELS = 16
"""Most channels that are accepted."""

MIN_SECONDS = 0.5
"""The least that can carry a mark, of any model: half of what the network marks at once."""

MIN_LEVEL_DBFS = -80.0
"""RMS level over everything below which there is nothing to hide a mark under."""

MAX_ABS_SAMPLE = 1e10
"""Largest accepted magnitude, full scale 1: above that of 32-bit integers given as floats."""

_NO_SAMPLES = f"there are no samples; at least {MIN_SECONDS:g} s is needed"

_ZERO_CODES = {"uint8": 128, "int8": 0, "int16": 0, "int32": 0}
"""Integer types that are accepted, and the value that stands for zero in each."""

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


def restore(floats: NDArray[np.floating], before: NDArray[np.floating], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert floats back to the dtype of the caller's samples.

    Integers are rounded and saturated. Floats are clipped to [-1, 1] wherever they were within it before; a sample that
    was beyond full scale already is the caller's own and may stay there.

    Args:
        floats: `(…)`, full scale 1.
        before: `(…)`, what `as_float` made of the caller's samples.
        dtype: theirs.
    """
    if dtype.name in _ZERO_CODES:
        info = np.iinfo(dtype)
        codes = np.rint(floats * _full_scale(dtype)) + _ZERO_CODES[dtype.name]
        return np.asarray(np.clip(codes, info.min, info.max), dtype)
    return np.where(np.abs(before) <= 1, np.clip(floats, -1, 1), floats).astype(dtype)


def quantisation_step(dtype: np.dtype[Any]) -> float:
    """Distance of two neighbouring values of an integer type, where 1 is full scale; 0 for floats."""
    return 1 / _full_scale(dtype) if dtype.kind in "iu" else 0.0


def as_integers(samples: NDArray[np.floating], bits: int) -> NDArray[np.int64]:
    """Round floats of full scale 1 to the nearest value of signed `bits`-bit PCM, saturating beyond full scale."""
    scale = 2.0 ** (bits - 1)
    return np.asarray(np.clip(np.rint(samples * scale), -scale, scale - 1), np.int64)


def _full_scale(dtype: np.dtype[Any]) -> float:
    return float(2.0 ** (8 * dtype.itemsize - 1))


def check_samples(floats: NDArray[np.floating], rate: float) -> int:
    """The rate as an integer, if this audio can be marked or searched.

    Silence passes, since a search in it has an answer; before marking, call `check_not_silent` too.

    Args:
        floats: `(n, channels)`, full scale 1.
        rate: sampling rate in Hz.

    Raises:
        AudioError: the rate, shape, length or a value is not accepted.
    """
    checked_rate = integer_rate(rate)
    if floats.ndim != 2:
        raise AudioError(f"the samples have {floats.ndim} dimensions; give (samples, channels)")
    length, channels = floats.shape
    if floats.size == 0:
        raise AudioError(_NO_SAMPLES)
    if length <= MAX_CHANNELS < channels:
        raise AudioError(f"the samples have shape {floats.shape}, which looks transposed; give (samples, channels)")
    check_channels(channels)
    check_length(length, rate)
    check_finite(floats)
    return checked_rate


def check_source(rate: float, channels: int, length: int | None, longest: float | None = None) -> None:
    """Check whether what the header of a file says can be marked or searched.

    Args:
        rate: sampling rate in Hz.
        channels: number of channels.
        length: samples per channel, if it is known.
        longest: seconds that are taken at most (None: any).

    Raises:
        AudioError: one of them is not accepted.
    """
    integer_rate(rate)
    check_channels(channels)
    if length is not None:
        check_length(length, rate, longest)


def integer_rate(rate: float) -> int:
    """An accepted rate in Hz as an integer, so that 44100.0 is 44100; raise `AudioError` for any other."""
    accepted = f"give a whole number from {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz"
    if not isinstance(rate, numbers.Real):
        raise AudioError(f"a rate that is {type(rate).__name__} {rate!r} cannot be used; {accepted}")
    if not MIN_RATE_HZ <= rate <= MAX_RATE_HZ or rate != int(rate):
        raise AudioError(f"a rate of {rate} Hz cannot be used; {accepted}")
    return int(rate)


def check_channels(channels: int) -> None:
    """Raise `AudioError` if there are more channels than are accepted."""
    if channels > MAX_CHANNELS:
        raise AudioError(f"{channels} channels are too many; give 1 to {MAX_CHANNELS}")


def check_length(length: float, rate: float, longest: float | None = None, least: float = MIN_SECONDS) -> None:
    """Raise `AudioError` if `length` samples at `rate` Hz are less than `least` seconds, or more than `longest`."""
    if longest is not None and length > longest * rate:
        raise TooLongError(f"the audio is longer than the {longest:g} s that are taken at most; allow more, or cut it")
    if length == 0:
        raise AudioError(_NO_SAMPLES)
    if length < least * rate:
        seconds = np.floor(100 * length / rate) / 100
        raise AudioError(f"the audio is {seconds:g} s long; at least {least:g} s is needed")


def check_finite(floats: NDArray[np.floating]) -> None:
    """Raise `AudioError` if a sample is not finite, or so large that its square might not be."""
    if not np.isfinite(floats).all():
        raise AudioError("some samples are NaN or infinite; replace them, for instance with numpy.nan_to_num")
    if np.abs(floats).max(initial=0) > MAX_ABS_SAMPLE:
        raise AudioError(f"some samples are beyond {MAX_ABS_SAMPLE:g}, where 1 is full scale; scale them down")


def check_blocks(blocks: Any) -> Iterable[ArrayLike]:
    """The blocks of a stream; raise `AudioError` for what is no sequence of them."""
    if isinstance(blocks, np.ndarray) or not isinstance(blocks, Iterable):
        raise AudioError(f"a stream is a sequence of blocks, not {type(blocks).__name__}; give [samples] for one block")
    return blocks


class StreamCheck:
    """Checks blocks that are to continue each other.

    Args:
        one_type: whether they must be of one type too.
    """

    def __init__(self, one_type: bool = False) -> None:
        self._one_type = one_type
        self._first: NDArray[Any] | None = None

    def check(self, block: ArrayLike) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """A block as it is and as `(n, channels)` floats.

        Raises:
            AudioError: it is no audio, has too many channels or others than the first, is of another type, or is not
                finite.
        """
        array = np.asarray(block)
        floats = as_float(array)
        first = array[:0] if self._first is None else self._first
        known = 1 if first.ndim == 1 else first.shape[1]
        check_channels(floats.shape[1])
        if floats.shape[1] != known:
            raise AudioError(
                f"a block has {floats.shape[1]} channels and the stream began with {known}; keep one number"
            )
        if self._one_type and array.dtype != first.dtype:
            raise AudioError(f"a block is of type {array.dtype} and the stream began with {first.dtype}; keep one type")
        check_finite(floats)
        self._first = first
        return array, floats


def check_stream(blocks: Iterable[ArrayLike]) -> Iterator[tuple[NDArray[Any], NDArray[np.float64]]]:
    """Yield the blocks of a stream, each as it is and as `(n, channels)` floats, once it is known to be accepted.

    Raises:
        AudioError: a block is no audio, has too many channels or others than the first, or is not finite.
    """
    yield from map(StreamCheck().check, check_blocks(blocks))


def check_latency(latency: int, least: int) -> None:
    """Raise `AudioError` unless a latency is a whole number of seconds, and no less than `least`."""
    if not isinstance(latency, int) or latency < least:
        raise AudioError(f"a latency of {latency!r} s cannot be kept; give {least} s or more, in whole seconds")


def check_not_silent(power: float) -> None:
    """Raise `AudioError` if audio of this mean square (full scale 1) is too quiet to hide a mark under."""
    if power == 0:
        raise AudioError("the audio is silent: all samples are zero; a mark needs sound to hide under")
    level = 10 * np.log10(power)
    if level < MIN_LEVEL_DBFS:
        raise AudioError(f"the audio is silent ({level:.0f} dBFS); a mark needs at least {MIN_LEVEL_DBFS:.0f} dBFS")
