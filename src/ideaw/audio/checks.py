"""What audio must be to carry a mark or to be searched: rate, channels, length, finite values, level.

Arrays, files and streams share these checks, so that each wrong input gives the same one line everywhere.
"""

import numbers
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio.pcm import as_float
from ideaw.errors import AudioError

MIN_RATE_HZ, MAX_RATE_HZ = 8_000, 192_000
"""Accepted sampling rates."""

MAX_CHANNELS = 16

MIN_SECONDS = 1.0
"""One segment: the least that can carry a mark."""

MIN_LEVEL_DBFS = -80.0
"""RMS level over everything below which there is nothing to hide a mark under."""

MAX_ABS_SAMPLE = 1e10
"""Largest accepted magnitude, full scale 1: above that of 32-bit integers given as floats."""

_NO_SAMPLES = "there are no samples; at least 1 s is needed"


def check_samples(floats: NDArray[np.floating], rate: float) -> None:
    """Check whether audio can be marked or searched.

    Silence passes, since a search in it has an answer; before marking, call `check_not_silent` too.

    Args:
        floats: `(n, channels)`, full scale 1.
        rate: sampling rate in Hz.

    Raises:
        AudioError: the rate, shape, length or a value is not accepted.
    """
    check_rate(rate)
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


def check_rate(rate: float) -> None:
    """Raise `AudioError` if `rate` is not a whole number of Hz that is accepted."""
    accepted = f"give a whole number from {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz"
    if not isinstance(rate, numbers.Real):
        raise AudioError(f"a rate that is {type(rate).__name__} {rate!r} cannot be used; {accepted}")
    if not MIN_RATE_HZ <= rate <= MAX_RATE_HZ or rate != int(rate):
        raise AudioError(f"a rate of {rate} Hz cannot be used; {accepted}")


def integer_rate(rate: float) -> int:
    """Return an accepted rate in Hz as int, so that 44100.0 is 44100; raise `AudioError` for any other."""
    check_rate(rate)
    return int(rate)


def check_channels(channels: int) -> None:
    """Raise `AudioError` if there are more channels than are accepted."""
    if channels > MAX_CHANNELS:
        raise AudioError(f"{channels} channels are too many; give 1 to {MAX_CHANNELS}")


def check_length(length: int, rate: float, longest: float | None = None) -> None:
    """Raise `AudioError` if `length` samples at `rate` Hz are too few for a mark, or more than `longest` seconds."""
    if longest is not None and length > longest * rate:
        raise AudioError(f"the audio is longer than the {longest:g} s that are searched at most; allow more, or cut it")
    if length == 0:
        raise AudioError(_NO_SAMPLES)
    if length < MIN_SECONDS * rate:
        seconds = np.floor(100 * length / rate) / 100
        raise AudioError(f"the audio is {seconds:g} s long; at least {MIN_SECONDS:g} s is needed")


def check_finite(floats: NDArray[np.floating]) -> None:
    """Raise `AudioError` if a sample is not finite, or so large that its square might not be."""
    if not np.isfinite(floats).all():
        raise AudioError("some samples are NaN or infinite; replace them, for instance with numpy.nan_to_num")
    if np.abs(floats).max(initial=0) > MAX_ABS_SAMPLE:
        raise AudioError(f"some samples are beyond {MAX_ABS_SAMPLE:g}, where 1 is full scale; scale them down")


def check_stream(blocks: Iterable[ArrayLike]) -> Iterator[tuple[NDArray[Any], NDArray[np.float64]]]:
    """Yield the blocks of a stream, each as it is and as `(n, channels)` floats, once it is known to be accepted.

    Raises:
        AudioError: a block is no audio, has too many channels or others than the first, or is not finite.
    """
    channels = None
    for block in blocks:
        array = np.asarray(block)
        floats = as_float(array)
        channels = floats.shape[1] if channels is None else channels
        check_channels(channels)
        if floats.shape[1] != channels:
            raise AudioError(
                f"a block has {floats.shape[1]} channels and the stream began with {channels}; keep one number"
            )
        check_finite(floats)
        yield array, floats


def check_not_silent(power: float) -> None:
    """Raise `AudioError` if audio of this mean square (full scale 1) is too quiet to hide a mark under."""
    if power == 0:
        raise AudioError("the audio is silent: all samples are zero; a mark needs sound to hide under")
    level = 10 * np.log10(power)
    if level < MIN_LEVEL_DBFS:
        raise AudioError(f"the audio is silent ({level:.0f} dBFS); a mark needs at least {MIN_LEVEL_DBFS:.0f} dBFS")
