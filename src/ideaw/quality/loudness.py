"""Slow changes of loudness apart from noise: what a mark in the loudness of bands does, and what else was added.

Measures of noise judge all that differs as noise. Where bands only get louder or softer for a while it is not heard as
that, but as modulation, which `modulation.py` measures. Here the gain of every mel band is estimated from the pair; the
original with these gains is what noise is to be measured against.
"""

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.deep.bands import (
    CELL_HOP_SAMPLES,
    HALF_WINDOW_SAMPLES,
    NUM_MEL_BANDS,
    analyse,
    gain_bands,
    powers,
    synthesise,
)
from ideaw.deep.evidence import TINY_POWER
from ideaw.deep.gains import bin_gains
from ideaw.quality.masking import Masking, masking

SMOOTHING_WEIGHTS = (0.25, 0.5, 0.25)
"""Of the 10 ms before, at and after a frame, over which its gains are estimated: tiles of 50 ms are followed, and noise
is not."""

MAX_CHANGE_DB = 6.0
"""Largest gain that is taken for a change of loudness: what is gone is not softer, but gone."""

ESTIMATION_ROUNDS = 3
"""Times that gains are estimated: windows overlap, so the first estimate is smoother than what was done."""

BLOCK_SAMPLES, MARGIN_SAMPLES = 30 * SAMPLE_RATE, SAMPLE_RATE // 10
"""Samples that are held in memory at once, and on either side of them, which are seen and not given."""


def masking_of_rest(original: NDArray[np.floating], changed: NDArray[np.floating]) -> Masking:
    """What differs besides slow changes of loudness, against what `(n,)` audio at 16 kHz masks.

    Of all that differs, where that is less: strong noise looks like gains of its own.
    """
    both = (masking(reference, changed) for reference in (follow_loudness(original, changed), original))
    return min(both, key=lambda measured: measured.ratio)


def follow_loudness(original: NDArray[np.floating], changed: NDArray[np.floating]) -> NDArray[np.float32]:
    """(n,) `original` at 16 kHz with the slow gains of bands that `changed` shows against it."""
    pieces = []
    for start in range(0, len(original), BLOCK_SAMPLES):
        first, stop = max(start - MARGIN_SAMPLES, 0), start + BLOCK_SAMPLES + MARGIN_SAMPLES
        followed = _follow(original[first:stop], changed[first:stop])
        pieces.append(followed[start - first : start - first + BLOCK_SAMPLES])
    return np.concatenate(pieces)


def _follow(original: NDArray[np.floating], changed: NDArray[np.floating]) -> NDArray[np.float32]:
    """The same of what is short enough to be held in memory."""
    missing = -len(original) % CELL_HOP_SAMPLES + HALF_WINDOW_SAMPLES
    host, other = (
        analyse(np.pad(audio.astype(np.float32), (HALF_WINDOW_SAMPLES, missing))) for audio in (original, changed)
    )
    weights, most = gain_bands().T, 10 ** (MAX_CHANGE_DB / 20)
    gains, followed = np.zeros((len(host), NUM_MEL_BANDS), np.float32), host
    for left in reversed(range(ESTIMATION_ROUNDS)):
        own = _smooth(powers(followed) @ weights)
        shared = _smooth((followed.real * other.real + followed.imag * other.imag) @ weights)
        missing = 20 * np.log10(np.clip((shared + TINY_POWER) / (own + TINY_POWER), 1 / most, most))
        gains = np.clip(gains + missing, -MAX_CHANGE_DB, MAX_CHANGE_DB).astype(np.float32)
        samples = synthesise(host * bin_gains(gains))
        if left:
            followed = analyse(samples)
    return samples[HALF_WINDOW_SAMPLES : HALF_WINDOW_SAMPLES + len(original)]


def _smooth(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """(frames, bands) averaged over neighbouring frames."""
    padded = np.pad(values, ((1, 1), (0, 0)), "edge")
    shifted = (padded[place : place + len(values)] for place in range(len(SMOOTHING_WEIGHTS)))
    return np.asarray(sum(np.float32(weight) * part for weight, part in zip(SMOOTHING_WEIGHTS, shifted, strict=True)))
