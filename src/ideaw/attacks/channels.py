"""Helpers of attacks on arrays: refuse a strength, go channel by channel, fit a length."""

from collections.abc import Callable

import numpy as np

from ideaw.errors import IdeawError


def require(ok: bool, line: str) -> None:
    """Raise `IdeawError` with the text `line` unless a strength is acceptable."""
    if not ok:
        raise IdeawError(line)


def per_channel(samples: np.ndarray, attack: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply `attack` to each channel (n,) of (n,) or (n, channels) in double precision; the dtype stays."""
    channels = [samples] if samples.ndim == 1 else list(samples.T)
    attacked = [attack(channel.astype(np.float64)) for channel in channels]
    return (attacked[0] if samples.ndim == 1 else np.stack(attacked, axis=1)).astype(samples.dtype)


def fit_length(samples: np.ndarray, length: int) -> np.ndarray:
    """Truncate or zero-pad to `length` samples."""
    return np.pad(samples[:length], [(0, max(0, length - len(samples)))] + [(0, 0)] * (samples.ndim - 1))
