"""Between a file's own rate and the network's 16 kHz, and between channels and their mix.

Linear-phase resampling and fixed lengths on both ways, so that a residual computed at 16 kHz lies
exactly under the samples that it was computed from.
"""

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE

QUALITY = "HQ"
"""soxr's name for filters that keep 20 bits."""

DELAY = 0.15
"""Seconds that resampling to or from 16 kHz in pieces keeps back at most; 0.13 is the most measured at any rate."""


def network_length(length: int, rate: int) -> int:
    """Samples at 16 kHz that cover `length` samples at `rate` Hz."""
    return -(-length * SAMPLE_RATE // rate)


def to_network(samples: NDArray[np.floating], rate: int) -> NDArray[np.float32]:
    """`(n, channels)` at `rate` Hz as `(channels, network_length(n, rate))` float32 at 16 kHz."""
    resampled = _resample(samples.astype(np.float32), rate, SAMPLE_RATE, network_length(len(samples), rate))
    return np.ascontiguousarray(resampled.T)


def from_network(residual: NDArray[np.floating], rate: int, length: int) -> NDArray[np.float32]:
    """`(channels, m)` at 16 kHz as `(length, channels)` float32 at `rate` Hz."""
    columns = np.ascontiguousarray(residual.T, dtype=np.float32)
    return _resample(columns, SAMPLE_RATE, rate, length)


class Resampler:
    """`(n, channels)` float32 from one rate to another, piece by piece; together just what the whole at once gives."""

    def __init__(self, source: float, target: float, channels: int) -> None:
        self._stream = None if source == target else soxr.ResampleStream(source, target, channels, quality=QUALITY)
        self._nothing = np.empty((0, channels), np.float32)
        self._given = 0

    def push(self, samples: NDArray[np.floating]) -> NDArray[np.float32]:
        """The samples that come next → those that are certain by now: all but DELAY."""
        columns = np.ascontiguousarray(samples, np.float32)
        resampled = columns if self._stream is None else self._stream.resample_chunk(columns)
        self._given += len(resampled)
        return resampled

    def finish(self, length: int) -> NDArray[np.float32]:
        """The rest, cut or filled with zeros so that there are `length` samples in all."""
        rest = self._nothing if self._stream is None else self._stream.resample_chunk(self._nothing, last=True)
        return _sized(rest, length - self._given)


def mix(samples: NDArray[np.floating]) -> NDArray[np.floating]:
    """The mono mix `(n,)` of `(n, channels)`: the mean of the channels."""
    return np.asarray(sum(samples.T)) / samples.shape[1]  # many times as fast as along rows of two or three


def _resample(columns: NDArray[np.float32], source: int, target: int, length: int) -> NDArray[np.float32]:
    """`(n, channels)` from one rate to another, cut or filled with zeros to `length` samples."""
    if source != target:
        columns = soxr.resample(columns, source, target, quality=QUALITY)
    return _sized(columns, length)


def _sized(columns: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """`(n, channels)`, cut or filled with zeros to `length` samples."""
    missing = length - len(columns)
    return np.pad(columns, ((0, missing), (0, 0))) if missing > 0 else columns[:length]
