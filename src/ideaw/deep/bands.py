"""How loud each mel band is, every 10 ms: what speech codecs and vocoders keep when they draw everything else anew.

The grid of the deep layer. Bands have flat tops where gains are put on and triangles where loudness is measured, on the
same centres. Windows overlap so that audio that was not touched comes back as it was.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE

CELL_HOP_SAMPLES, CELL_WINDOW_SAMPLES = 160, 480
"""Samples between two frames, 10 ms, and of the window of each, 30 ms."""

CELLS_PER_SECOND = SAMPLE_RATE // CELL_HOP_SAMPLES
"""Frames in a second."""

CELL_BINS = CELL_WINDOW_SAMPLES // 2 + 1
"""Frequency bins of a frame, 33 Hz apart."""

NUM_MEL_BANDS, LOWEST_HZ, HIGHEST_HZ = 20, 150.0, 7_000.0
"""Bands, evenly spaced in mel between two frequencies: as many as a codec of 3 kbit/s tells apart."""

HALF_WINDOW_SAMPLES = CELL_WINDOW_SAMPLES // 2
"""Frame k is centred on sample k · CELL_HOP_SAMPLES and reaches so far on either side."""

HALF_LOUD_DB = -10.0
"""Level of a tile, over the mean power of its band, at which it is half loud."""

_HANN = np.hanning(CELL_WINDOW_SAMPLES + 1)[:-1]
_ROOT_HANN = np.sqrt(_HANN).astype(np.float32)
_OVERLAP_SUM = float(_HANN.sum() / CELL_HOP_SAMPLES)


@cache
def measuring_bands(pitch: float = 1.0) -> NDArray[np.float32]:
    """(CELL_BINS, NUM_MEL_BANDS) triangles to measure the power of each band of audio played `pitch` times higher."""
    edges = _edges() * pitch
    hertz = np.arange(CELL_BINS)[:, None] * SAMPLE_RATE / CELL_WINDOW_SAMPLES
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (hertz - low) / (centre - low), (high - hertz) / (high - centre)
    return np.asarray(np.clip(np.minimum(rising, falling), 0, None), np.float32)


@cache
def gain_bands() -> NDArray[np.float32]:
    """(NUM_MEL_BANDS, CELL_BINS) weights with flat tops, which sum to 1: how much of each band's gain a bin takes."""
    edges = _mel(_edges())
    step, mel = edges[1] - edges[0], _mel(np.arange(CELL_BINS) * SAMPLE_RATE / CELL_WINDOW_SAMPLES)
    borders = (edges[:-1] + edges[1:]) / 2
    above = np.clip((mel - borders[:, None]) / (step / 2) + 0.5, 0, 1)
    return np.asarray(above[:-1] - above[1:], np.float32)


def analyse(samples: NDArray[np.floating]) -> NDArray[np.complex64]:
    """(..., n) samples → (..., frames, CELL_BINS), a frame from each CELL_WINDOW_SAMPLES that fit."""
    frames = np.lib.stride_tricks.sliding_window_view(samples, CELL_WINDOW_SAMPLES, axis=-1)
    return np.fft.rfft(frames[..., ::CELL_HOP_SAMPLES, :] * _ROOT_HANN, axis=-1).astype(np.complex64)


def synthesise(spectra: NDArray[np.complex64]) -> NDArray[np.float32]:
    """(..., frames, CELL_BINS) → (..., n) samples, overlap-added: the inverse of `analyse` inside."""
    frames = np.fft.irfft(spectra, CELL_WINDOW_SAMPLES, axis=-1).astype(np.float32) * (_ROOT_HANN / _OVERLAP_SUM)
    *batch, count, _ = frames.shape
    parts = CELL_WINDOW_SAMPLES // CELL_HOP_SAMPLES
    pieces = frames.reshape(*batch, count, parts, CELL_HOP_SAMPLES)
    out = np.zeros((*batch, count + parts - 1, CELL_HOP_SAMPLES), np.float32)
    for part in range(parts):
        out[..., part : part + count, :] += pieces[..., part, :]
    return out.reshape(*batch, -1)


def loud_share(power: NDArray[np.floating], mean: NDArray[np.floating]) -> NDArray[np.float32]:
    """How much of a band's power in a tile belongs to what is loud there: 0 to 1, one half at HALF_LOUD_DB.

    Soft tiles do not survive codecs and noise, but are heard: gains and weights follow this share.

    Args:
        power: of tiles, (..., bands).
        mean: of the band over seconds, of a shape that fits.
    """
    return np.asarray(power / (power + mean * np.float32(10 ** (HALF_LOUD_DB / 10)) + np.float32(1e-20)), np.float32)


def powers(spectra: NDArray[np.complex64]) -> NDArray[np.float32]:
    """The power in every bin."""
    return np.square(spectra.real) + np.square(spectra.imag)


def _edges() -> NDArray[np.float64]:
    """(NUM_MEL_BANDS + 2,) frequencies in Hz: a band's centre, with its neighbours' on both sides."""
    mel = np.linspace(_mel(np.array(LOWEST_HZ)), _mel(np.array(HIGHEST_HZ)), NUM_MEL_BANDS + 2)
    return np.asarray(700 * (10 ** (mel / 2595) - 1))


def _mel(hertz: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.asarray(2595 * np.log10(1 + hertz / 700))
