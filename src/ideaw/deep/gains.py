"""How deep the gain of each tile may be: as the host's own modulation allows there, found by predicting what is added.

The gains of all tiles are put on the host's band powers, the modulation that this adds is compared with what is just
heard, and every tile is corrected; a few rounds settle it. No audio is synthesised for it.
"""

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.modulation import (
    INAUDIBLE_DB,
    INAUDIBLE_LEVEL_DB,
    POWER_RATE_HZ,
    modulation_powers,
    smooth,
    thresholds,
)
from ideaw.deep.bands import CELLS_PER_SECOND, NUM_MEL_BANDS, gain_bands, loud_share, measuring_bands
from ideaw.deep.signs import TILE_CELLS

TARGET_DB = -2.0
"""Excess over what is just heard that every tile is brought to."""

MAX_GAIN_DB = 3.5
"""Largest gain of a tile, where it is loud; ViSQOL falls with it (E80)."""

MAX_MEAN_GAIN_DB = 1.3
"""Largest mean of the gains of a block's tiles, before hearing lowers them: speech has less by its pauses, music that
is loud everywhere would have up to twice as much, and a ViSQOL below 4.85 (E109)."""

ROUNDS = 3
"""Rounds of correction; the last only lowers."""

MAX_RISE_DB, MAX_FALL_DB = 3.0, 8.0
"""Largest correction of a tile's gain in a round."""

DAMPING = 0.8
"""Share of a correction that is made in the rounds before the last."""

_NEPER_PER_DB = np.float32(np.log(10) / 20)
_MIN_AMPLITUDE = np.float32(1e-8)


def tile_gains(
    power: NDArray[np.float32], signs: NDArray[np.float32], target: float = TARGET_DB
) -> NDArray[np.float32]:
    """The gain in dB of every tile, with its sign.

    Args:
        power: (channels, tiles · TILE_CELLS, CELL_BINS) powers of the host; the gains are those of all channels.
        signs: (tiles, NUM_MEL_BANDS) of −1 and +1.
        target: dB over what is just heard.

    Returns:
        (tiles, NUM_MEL_BANDS).
    """
    host = _amplitudes(power)
    levels = smooth(host.reshape(*host.shape[:-1], -1, TILE_CELLS).mean(-1), POWER_RATE_HZ)
    loudest = np.sqrt(np.square(levels).sum(0).max())
    floor = loudest * 10 ** (INAUDIBLE_LEVEL_DB / 20) + _MIN_AMPLITUDE
    limits = thresholds(modulation_powers(host, CELLS_PER_SECOND), np.maximum(levels, floor))
    audible = levels > floor
    most = _largest_gains(power)
    depth = most
    for left in reversed(range(ROUNDS)):
        gains = bin_gains(tile_course(signs * depth))
        added = modulation_powers(_amplitudes(power * np.square(gains)) - host, CELLS_PER_SECOND)
        excess = 10 * np.log10((added / limits).max(0) + np.float32(1e-9))
        excess = np.where(audible, excess, INAUDIBLE_DB).reshape(len(power), -1, len(signs)).max(0).T
        change = np.clip(target - excess, -MAX_FALL_DB, MAX_RISE_DB if left else 0.0) * (DAMPING if left else 1.0)
        depth = np.asarray(np.clip(depth * 10 ** (change / 20), 0, most), np.float32)
    return signs * depth


def tile_course(gains: NDArray[np.float32], first: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """(tiles, bands) dB → (tiles · TILE_CELLS, bands) dB of every frame: half a tile steady, half a raised cosine.

    Args:
        gains: one tile after the other; the last goes on to the end.
        first: (bands,) the tile before them; without it the first begins at once.
    """
    before = gains[:1] if first is None else first[None]
    around = np.concatenate([before, gains, gains[-1:]])
    moments = (np.arange(TILE_CELLS) / TILE_CELLS)[:, None]  # within a tile, from its beginning
    passed = (np.clip((moments - border) / 0.5 + 0.5, 0, 1) for border in (0, 1))
    rise, fall = (np.asarray(0.5 - 0.5 * np.cos(np.pi * share), np.float32) for share in passed)
    own = around[1:-1, None]
    course = around[:-2, None] * (1 - rise) + own * (rise - fall) + around[2:, None] * fall
    return np.asarray(course.reshape(-1, gains.shape[1]))


def bin_gains(course: NDArray[np.float32]) -> NDArray[np.float32]:
    """(frames, bands) dB → (frames, CELL_BINS) factors of amplitude."""
    return np.exp((course * _NEPER_PER_DB) @ gain_bands())


def _largest_gains(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """(channels, frames, CELL_BINS) powers → (tiles, NUM_MEL_BANDS) largest gain in dB of each tile."""
    bands = (power.sum(0) @ measuring_bands()).reshape(-1, TILE_CELLS, NUM_MEL_BANDS).mean(1)
    most = MAX_GAIN_DB * loud_share(bands, bands.mean(0))
    return np.asarray(most * min(1.0, MAX_MEAN_GAIN_DB / max(float(most.mean()), 1e-9)), np.float32)


def _amplitudes(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """(channels, frames, CELL_BINS) powers → (channels · bands, frames) amplitudes of the bands."""
    amplitudes = np.sqrt(power @ measuring_bands())
    return np.asarray(amplitudes.swapaxes(1, 2).reshape(-1, power.shape[1]))
