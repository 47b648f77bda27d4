"""Automatic gain control before the network: the short-time RMS level of audio.

The network sees audio divided by this level, and its residual is multiplied by it again, so quiet passages are marked
exactly as loud ones are. The level is the RMS over a second centred on each hop (less at the ends), linearly
interpolated between hops; `nets/level.py` is the same in torch.
"""

import numpy as np

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES

LEVEL_FLOOR = 1e-4
"""Lowest level, −80 dBFS: what is quieter is not amplified further."""

LEVEL_CONTEXT_HOPS = FRAMES_PER_SECOND // 2 + 1
"""Hops on either side of a sample that its level depends on."""


def level(samples: np.ndarray) -> np.ndarray:
    """(..., hops · HOP_SAMPLES) samples → the level at each of them, the same shape, at least LEVEL_FLOOR."""
    hops = samples.shape[-1] // HOP_SAMPLES
    power = np.square(samples, dtype=np.float64).reshape(*samples.shape[:-1], hops, HOP_SAMPLES).mean(-1)
    total = np.concatenate([np.zeros_like(power[..., :1]), np.cumsum(power, -1)], -1)
    first = np.maximum(np.arange(hops) - FRAMES_PER_SECOND // 2, 0)
    last = np.minimum(np.arange(hops) + FRAMES_PER_SECOND // 2 + 1, hops)
    around = np.sqrt((total[..., last] - total[..., first]) / (last - first)).clip(LEVEL_FLOOR)
    centres = (np.arange(hops) + 0.5) * HOP_SAMPLES - 0.5
    moments = np.arange(hops * HOP_SAMPLES)
    rows = [np.interp(moments, centres, row) for row in around.reshape(-1, hops)]
    return np.stack(rows).reshape(samples.shape).astype(np.float32)
