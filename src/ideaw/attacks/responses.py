"""The mathematics that both forms of an attack share: filter responses and frame positions.

The functions that take arrays use operators and methods that numpy arrays and torch tensors both have,
so one definition serves the files (numpy, any rate) and the training on the GPU (torch, 16 kHz).
"""

import math
from typing import Any

import numpy as np

LOWEST_ANGLE = 1e-9
HIGHEST_ANGLE = math.pi / 2 - 1e-4
"""Where the tangent of the bilinear transform is cut, so that single precision stays finite."""

STRETCH_WINDOW = 2048
"""Samples of the phase vocoder's window; the hop is a quarter of it."""

RESAMPLER_PASS = 0.932
RESAMPLER_WIDTH = 0.05
"""Where soxr's filter (HQ) begins to fall and how far on it reaches zero, in parts of the lower of the two Nyquist
frequencies: `fall` fitted to its impulse response."""

FIR_TRANSITION = 400.0
"""Width in Hz of the transition of the steep low-pass, as a windowed sinc of 0.2 s would have it at 16 kHz."""


def fast_length(samples: int) -> int:
    """The smallest length of at least `samples` with no prime factor above 5: what FFTs are fast at."""
    length = max(1, samples)
    while True:
        rest = length
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
        length += 1


def butterworth(ratio: Any, order: int, high: bool = False) -> Any:
    """Complex response of a causal Butterworth low-pass, or with `high` high-pass, of gain 1.

    `ratio` is tan(πf/rate) / tan(π·cutoff/rate), of any shape: the bilinear transform's frequency over
    its cutoff.
    """
    s = -1j / ratio if high else 1j * ratio
    response = 1 / (s + 1) if order % 2 else 0 * s + 1
    for k in range(order // 2):
        response = response / (s * s + 2 * math.sin(math.pi * (2 * k + 1) / (2 * order)) * s + 1)
    return response


def fall(frequency: Any, start: Any, end: Any) -> Any:
    """Zero-phase response that falls smoothly from 1 at `start` to 0 at `end` (same unit as `frequency`)."""
    t = ((frequency - start) / (end - start)).clip(0, 1)
    return 1 - t * t * (3 - 2 * t)


def tilt(frequency: Any, exponent: Any, knee: float = 50.0) -> Any:
    """Amplitude response of noise whose power falls with f^-exponent above `knee` Hz: 1 is pink, 2 brown."""
    return (frequency.clip(knee, None) / knee) ** (-exponent / 2)


def stretched_frames(frames: int, rate: float) -> int:
    """Frames that a phase vocoder makes of `frames` when it plays `rate` times as fast."""
    return len(np.arange(0, frames, rate))
