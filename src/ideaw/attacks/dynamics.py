"""Compressors, limiters and expanders: one gain for all channels that follows the level of the audio.

The strengths `rise` and `fall` are attack and release time in seconds: until the level has followed by 63 %.
"""

from collections.abc import Callable

import numpy as np

from ideaw.attacks.channels import require

ENVELOPE_STEP_SECONDS = 0.001
"""Time resolution of the level, in seconds."""

MIN_ENVELOPE = 1e-5
"""Least amplitude of the level, full scale 1: −100 dBFS."""


def compress(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    threshold: float = -18.0,
    ratio: float = 4.0,
    rise: float = 0.005,
    fall: float = 0.05,
) -> np.ndarray:
    """A compressor: levels above `threshold` dBFS rise by 1 dB for each `ratio` dB. With a high ratio, a limiter."""
    require(ratio >= 1, f"a compressor's ratio must be at least 1, not {ratio:g}")
    return _apply_gain(samples, rate, rise, fall, lambda level: (1 / ratio - 1) * (level - threshold).clip(0, None))


def expand(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    threshold: float = -12.0,
    ratio: float = 2.0,
    rise: float = 0.005,
    fall: float = 0.05,
) -> np.ndarray:
    """An expander: levels below `threshold` dBFS fall by `ratio` dB for each dB, down to 40 dB less."""
    require(ratio >= 1, f"an expander's ratio must be at least 1, not {ratio:g}")
    return _apply_gain(samples, rate, rise, fall, lambda level: ((ratio - 1) * (level - threshold)).clip(-40.0, 0.0))


def _apply_gain(
    samples: np.ndarray, rate: int, rise: float, fall: float, change: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """(n,) or (n, channels) times the gain in dB that `change` gives for levels in dBFS.

    The level rises and falls to 63 % of the way in `rise` and `fall` seconds.
    """
    hop = max(1, round(ENVELOPE_STEP_SECONDS * rate))
    peaks = abs(samples).reshape(len(samples), -1).max(1)
    framed = np.pad(peaks, (0, -len(peaks) % hop)).reshape(-1, hop).max(1)
    up, down = (float(np.exp(-hop / rate / max(seconds, 1e-6))) for seconds in (rise, fall))
    level, levels = 0.0, np.empty(len(framed))
    for k, peak in enumerate(framed.tolist()):
        keep = up if peak > level else down
        level = keep * level + (1 - keep) * peak
        levels[k] = level
    gains = 10 ** (change(20 * np.log10(levels.clip(MIN_ENVELOPE))) / 20)
    envelope = np.interp(np.arange(len(samples)), (np.arange(len(gains)) + 0.5) * hop, gains)
    return (samples * envelope.reshape(-1, *[1] * (samples.ndim - 1))).astype(samples.dtype)
