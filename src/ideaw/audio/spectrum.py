"""What the network sees of audio: its spectrum, at a level of 1.

The network sees audio divided by its level, and its residual is multiplied by it again, so quiet passages are marked
exactly as loud ones are. The level is the RMS over a second centred on each hop (less at the ends), linearly
interpolated between hops.

STFT frame k is centred on hop k, so n hops of samples give n frames. Audio of another tempo is analysed at another hop:
its frames are those of the original tempo, at the same pitch. Analysis and synthesis windows are periodic Hann, whose
squares add up to 1.5 at a hop of a quarter window. Dividing by that constant everywhere, also at the ends, makes
a residual fade in and out there by itself. `nets/stft.py` and `nets/level.py` are the same in torch.
"""

import numpy as np

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, WINDOW_SAMPLES

LEVEL_FLOOR = 1e-4
"""Lowest level, −80 dBFS: what is quieter is not amplified further."""

LEVEL_CONTEXT_HOPS = FRAMES_PER_SECOND // 2 + 1
"""Hops on either side of a sample that its level depends on."""

SPECTRUM_CONTEXT_HOPS = LEVEL_CONTEXT_HOPS + 2
"""Hops around a frame that its spectrum depends on: STFT windows reach out, and the level there looks around."""

HANN_WINDOW = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW_SAMPLES) / WINDOW_SAMPLES)).astype(np.float32)
"""The analysis and synthesis window, (WINDOW_SAMPLES,)."""

WINDOW_POWER_SUM = 1.5
"""Sum of the squared windows over every sample at a hop of a quarter window."""

SPECTRUM_SCALE = np.float32(1 / np.sqrt(WINDOW_SAMPLES))
"""Spectra are divided by √WINDOW_SAMPLES, so that white noise of variance 1 gives coefficients of order 1."""


def level(samples: np.ndarray, hop_samples: int = HOP_SAMPLES) -> np.ndarray:
    """(..., hops · hop_samples) samples → the level at each of them, the same shape, at least LEVEL_FLOOR."""
    hops = samples.shape[-1] // hop_samples
    power = np.square(samples, dtype=np.float64).reshape(*samples.shape[:-1], hops, hop_samples).mean(-1)
    total = np.concatenate([np.zeros_like(power[..., :1]), np.cumsum(power, -1)], -1)
    first = np.maximum(np.arange(hops) - FRAMES_PER_SECOND // 2, 0)
    last = np.minimum(np.arange(hops) + FRAMES_PER_SECOND // 2 + 1, hops)
    around = np.sqrt((total[..., last] - total[..., first]) / (last - first)).clip(LEVEL_FLOOR)
    centres = (np.arange(hops) + 0.5) * hop_samples - 0.5
    moments = np.arange(hops * hop_samples)
    rows = [np.interp(moments, centres, row) for row in around.reshape(-1, hops)]
    return np.stack(rows).reshape(samples.shape).astype(np.float32)


def stft(samples: np.ndarray, hop_samples: int = HOP_SAMPLES) -> np.ndarray:
    """(..., hops · hop_samples) samples → (..., hops, NUM_BINS) complex64; silence is assumed around them."""
    edges = WINDOW_SAMPLES - hop_samples
    padding = [(0, 0)] * (samples.ndim - 1) + [(edges // 2, edges - edges // 2)]
    return frame_spectra(np.pad(samples.astype(np.float32, copy=False), padding), hop_samples)


def frame_spectra(padded: np.ndarray, hop_samples: int = HOP_SAMPLES) -> np.ndarray:
    """(..., (hops − 1) · hop_samples + WINDOW_SAMPLES) float32 → (..., hops, NUM_BINS): the windows that lie within."""
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW_SAMPLES, axis=-1)[..., ::hop_samples, :]
    return np.fft.rfft(frames * (HANN_WINDOW * SPECTRUM_SCALE), axis=-1).astype(np.complex64)


def level_spectrum(samples: np.ndarray, hop_samples: int = HOP_SAMPLES) -> np.ndarray:
    """(..., hops · hop_samples) samples → (..., hops, NUM_BINS): their spectrum at level 1, as the network sees it."""
    return stft(samples / level(samples, hop_samples), hop_samples)


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
