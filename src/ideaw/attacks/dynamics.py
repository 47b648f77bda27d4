"""Compressors, limiters and expanders: a gain that follows the level of the audio, all channels alike."""

from collections.abc import Callable

import numpy as np

FRAME = 0.001
"""Seconds for which the level is taken at once."""

QUIETEST = 1e-5
"""Levels below this amplitude count as this."""


def follow(
    samples: np.ndarray, rate: int, rise: float, fall: float, change: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """(n,) or (n, channels) times the gain in dB that `change` gives for levels in dBFS.

    The level rises and falls to 63 % of the way in `rise` and `fall` seconds.
    """
    hop = max(1, round(FRAME * rate))
    peaks = abs(samples).reshape(len(samples), -1).max(1)
    framed = np.pad(peaks, (0, -len(peaks) % hop)).reshape(-1, hop).max(1)
    up, down = (float(np.exp(-hop / rate / max(seconds, 1e-6))) for seconds in (rise, fall))
    level, levels = 0.0, np.empty(len(framed))
    for k, peak in enumerate(framed.tolist()):
        keep = up if peak > level else down
        level = keep * level + (1 - keep) * peak
        levels[k] = level
    gains = 10 ** (change(20 * np.log10(levels.clip(QUIETEST))) / 20)
    every = np.interp(np.arange(len(samples)), (np.arange(len(gains)) + 0.5) * hop, gains)
    return (samples * every.reshape(-1, *[1] * (samples.ndim - 1))).astype(samples.dtype)
