"""Sampling-rate conversion between a file's rate and the network's 16 kHz, and the mono mix.

Linear-phase resampling and fixed lengths on both ways, so that a residual computed at 16 kHz lies
exactly under the samples that it was computed from.
"""

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE

SOXR_QUALITY = "HQ"
"""soxr's name of filters with 20 bits of precision."""

RESAMPLE_DELAY_SECONDS = 0.15
"""Most that a streaming conversion to or from 16 kHz lags behind; 0.13 s is the most measured at any rate."""


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
    """Streaming sampling-rate conversion whose output does not depend on how the input is split."""

    def __init__(self, source: float, target: float, channels: int) -> None:
        """Convert `(n, channels)` from `source` Hz to `target` Hz, either of which may be fractional."""
        self._stream = None if source == target else soxr.ResampleStream(source, target, channels, quality=SOXR_QUALITY)
        self._empty = np.empty((0, channels), np.float32)
        self._num_returned = 0

    def push(self, samples: NDArray[np.floating]) -> NDArray[np.float32]:
        """Feed `(n, channels)` samples; returns those that are final: all but the last RESAMPLE_DELAY_SECONDS."""
        columns = np.ascontiguousarray(samples, np.float32)
        resampled = columns if self._stream is None else self._stream.resample_chunk(columns)
        self._num_returned += len(resampled)
        return resampled

    def finish(self, length: int) -> NDArray[np.float32]:
        """Flush; truncated or zero-padded so that `length` samples were returned in all."""
        tail = self._empty if self._stream is None else self._stream.resample_chunk(self._empty, last=True)
        return _fit_length(tail, length - self._num_returned)


def mix(samples: NDArray[np.floating]) -> NDArray[np.floating]:
    """The mono mix `(n,)` of `(n, channels)`: the mean of the channels."""
    return np.asarray(np.asarray(sum(samples.T)) / samples.shape[1])  # many times as fast as along rows of two or three


def _resample(columns: NDArray[np.float32], source: int, target: int, length: int) -> NDArray[np.float32]:
    """`(n, channels)` from one rate to another, truncated or zero-padded to `length` samples."""
    if source != target:
        columns = soxr.resample(columns, source, target, quality=SOXR_QUALITY)
    return _fit_length(columns, length)


def _fit_length(columns: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """`(n, channels)`, truncated or zero-padded to `length` samples."""
    missing = length - len(columns)
    return np.pad(columns, ((0, missing), (0, 0))) if missing > 0 else columns[:length]
