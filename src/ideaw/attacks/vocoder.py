"""Phase vocoder in numpy: time-scale modification of one channel of any length, in blocks of frames.

Magnitudes are interpolated between frames; phases accumulate the advances between neighbouring frames.
`batch_vocoder.py` is the same in torch.
"""

import math

import numpy as np

from ideaw.attacks import responses
from ideaw.attacks.channels import fit_length

VOCODER_BLOCK_FRAMES = 512
"""Frames that are synthesised at once."""


def change_tempo(x: np.ndarray, speed: float, window_samples: int) -> np.ndarray:
    """Play `x` (n,) `speed` times as fast at the same pitch, by a phase vocoder.

    Args:
        x: one channel.
        speed: above 0.
        window_samples: length of the Hann window, a multiple of 4; the hop is a quarter of it.

    Returns:
        (round(n / speed),) float64.
    """
    hop = window_samples // 4
    window = np.hanning(window_samples + 1)[:-1]
    frames = 1 + len(x) // hop
    num_made = responses.num_stretched_frames(frames, speed)
    padded = np.pad(x, (window_samples // 2, window_samples // 2 + 2 * hop))
    y = np.zeros((num_made - 1) * hop + window_samples)
    weight = np.zeros_like(y)
    phase = np.zeros(window_samples // 2 + 1)
    for first in range(0, num_made, VOCODER_BLOCK_FRAMES):
        steps = np.arange(first, min(first + VOCODER_BLOCK_FRAMES, num_made)) * speed
        left = steps.astype(np.int64)
        share = (steps - left)[:, None]
        taken = np.arange(left[0], left[-1] + 2)
        spectrum = np.fft.rfft(
            padded[np.minimum(taken, frames - 1)[:, None] * hop + np.arange(window_samples)] * window
        )
        spectrum[taken >= frames] = 0.0
        here, there = spectrum[left - left[0]], spectrum[left - left[0] + 1]
        magnitude = (1 - share) * abs(here) + share * abs(there)
        if first == 0:
            phase = np.angle(here[0])
        advance = np.cumsum(np.angle(there) - np.angle(here), axis=0)
        phases = phase + np.concatenate((np.zeros((1, len(phase))), advance[:-1]))
        phase = (phase + advance[-1]) % (2 * math.pi)
        for k, piece in enumerate(np.fft.irfft(magnitude * np.exp(1j * phases), window_samples) * window, first):
            y[k * hop : k * hop + window_samples] += piece
            weight[k * hop : k * hop + window_samples] += window**2
    y /= np.maximum(weight, 1e-6)
    return fit_length(y[window_samples // 2 :], round(len(x) / speed))


def interpolate(x: np.ndarray, length: int) -> np.ndarray:
    """Linear interpolation of `x` at `length` places, evenly over its length."""
    places = (np.arange(length) + 0.5) * (len(x) / length) - 0.5
    return np.asarray(np.interp(places, np.arange(len(x)), x))
