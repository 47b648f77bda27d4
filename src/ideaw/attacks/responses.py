"""Frequency responses and frame positions that attacks on arrays and on batches share (filters: `filters.py`).

The functions use operators and methods that numpy arrays and torch tensors both have, so one definition serves files
(numpy, any rate) and training (torch, 16 kHz).
"""

from typing import Any

import numpy as np

VOCODER_WINDOW_SAMPLES = 2048
"""Samples of the phase vocoder's window; the hop is a quarter of it."""

RESAMPLER_PASSBAND = 0.932
RESAMPLER_TRANSITION = 0.05
"""Passband edge and transition width of soxr's filter (HQ), relative to the lower of the two Nyquist frequencies:
`lowpass_taper` fitted to its impulse response."""

FIR_TRANSITION_HZ = 400.0
"""Width in Hz of the transition of the steep low-pass, as a windowed sinc of 0.2 s would have it at 16 kHz."""

BARK_CENTRES_HZ = (
    *(50, 150, 250, 350, 450, 570, 700, 840, 1_000, 1_170, 1_370, 1_600),
    *(1_850, 2_150, 2_500, 2_900, 3_400, 4_000, 4_800, 5_800, 7_000, 8_500, 10_500, 13_500),
)
"""Centres of the critical bands (Bark, after Zwicker), in Hz."""


def lowpass_taper(frequency: Any, start: Any, end: Any) -> Any:
    """Zero-phase response that falls smoothly from 1 at `start` to 0 at `end` (same unit as `frequency`)."""
    t = ((frequency - start) / (end - start)).clip(0, 1)
    return 1 - t * t * (3 - 2 * t)


def tilt(frequency: Any, exponent: Any, knee: float = 50.0) -> Any:
    """Amplitude response of noise whose power falls with f^-exponent above `knee` Hz: 1 is pink, 2 brown."""
    return (frequency.clip(knee, None) / knee) ** (-exponent / 2)


def equaliser(frequency: np.ndarray, decibels: np.ndarray) -> np.ndarray:
    """Zero-phase response of an equaliser with a gain in dB for each band of BARK_CENTRES_HZ."""
    gains = np.interp(np.log(frequency.clip(1, None)), np.log(BARK_CENTRES_HZ), decibels)
    return np.asarray(10 ** (gains / 20))


def num_stretched_frames(frames: int, rate: float) -> int:
    """Frames that a phase vocoder makes of `frames` when it plays `rate` times as fast."""
    return len(np.arange(0, frames, rate))
