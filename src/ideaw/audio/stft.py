"""STFT and its inverse in numpy, as the engine uses them; `nets/stft.py` is the same in torch.

Frame k is centred on hop k, so n hops of samples give n frames. Analysis and synthesis windows are periodic Hann,
whose squares add up to 1.5 at a hop of a quarter window. Dividing by that constant everywhere, also at the ends, makes
a residual fade in and out there by itself.
"""

import numpy as np

from ideaw.audio.grid import EDGE_SAMPLES, HOP_SAMPLES, WINDOW_SAMPLES

HANN_WINDOW = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW_SAMPLES) / WINDOW_SAMPLES)).astype(np.float32)
"""The analysis and synthesis window, (WINDOW_SAMPLES,)."""

WINDOW_POWER_SUM = 1.5
"""Sum of the squared windows over every sample at a hop of a quarter window."""

SPECTRUM_SCALE = np.float32(1 / np.sqrt(WINDOW_SAMPLES))
"""Spectra are divided by √WINDOW_SAMPLES, so that white noise of variance 1 gives coefficients of order 1."""


def stft(samples: np.ndarray) -> np.ndarray:
    """(..., hops · HOP_SAMPLES) samples → (..., hops, NUM_BINS) complex64; silence is assumed around them."""
    padding = [(0, 0)] * (samples.ndim - 1) + [(EDGE_SAMPLES, EDGE_SAMPLES)]
    padded = np.pad(samples.astype(np.float32, copy=False), padding)
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW_SAMPLES, axis=-1)[..., ::HOP_SAMPLES, :]
    return np.fft.rfft(frames * (HANN_WINDOW * SPECTRUM_SCALE), axis=-1).astype(np.complex64)


def istft(spectrum: np.ndarray) -> np.ndarray:
    """(..., hops, NUM_BINS) → (..., hops · HOP_SAMPLES + 2 · EDGE_SAMPLES) float32: overlap-added, edges included."""
    frames = np.fft.irfft(spectrum, WINDOW_SAMPLES, axis=-1).astype(np.float32) * (
        HANN_WINDOW / (WINDOW_POWER_SUM * SPECTRUM_SCALE)
    )
    *batch, hops, _ = frames.shape
    quarters = frames.reshape(*batch, hops, WINDOW_SAMPLES // HOP_SAMPLES, HOP_SAMPLES)
    out = np.zeros((*batch, hops + WINDOW_SAMPLES // HOP_SAMPLES - 1, HOP_SAMPLES), np.float32)
    for quarter in range(WINDOW_SAMPLES // HOP_SAMPLES):
        out[..., quarter : quarter + hops, :] += quarters[..., quarter, :]
    return out.reshape(*batch, -1)
