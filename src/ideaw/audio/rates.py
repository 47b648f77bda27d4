"""Between a file's own rate and the network's 16 kHz, and between channels and their mix.

Linear-phase resampling and fixed lengths on both ways, so that a residual computed at 16 kHz lies
exactly under the samples that it was computed from.
"""

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import RATE


def network_length(length: int, rate: int) -> int:
    """Samples at 16 kHz that cover `length` samples at `rate` Hz."""
    return -(-length * RATE // rate)


def to_network(samples: NDArray[np.floating], rate: int) -> NDArray[np.float32]:
    """`(n, channels)` at `rate` Hz as `(channels, network_length(n, rate))` float32 at 16 kHz."""
    resampled = _resample(samples.astype(np.float32), rate, RATE, network_length(len(samples), rate))
    return np.ascontiguousarray(resampled.T)


def from_network(residual: NDArray[np.floating], rate: int, length: int) -> NDArray[np.float32]:
    """`(channels, m)` at 16 kHz as `(length, channels)` float32 at `rate` Hz."""
    columns = np.ascontiguousarray(residual.T, dtype=np.float32)
    return _resample(columns, RATE, rate, length)


def mix(samples: NDArray[np.floating]) -> NDArray[np.floating]:
    """The mono mix `(n,)` of `(n, channels)`: the mean of the channels."""
    return samples.mean(axis=1)


def _resample(columns: NDArray[np.float32], source: int, target: int, length: int) -> NDArray[np.float32]:
    """`(n, channels)` from one rate to another, cut or filled with zeros to `length` samples."""
    if source != target:
        columns = soxr.resample(columns, source, target, quality="HQ")
    missing = length - len(columns)
    return np.pad(columns, ((0, missing), (0, 0))) if missing > 0 else columns[:length]
