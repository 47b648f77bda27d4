"""At which speed audio may have been played: a matched filter on log-magnitudes, tried at hundreds of speeds at once.

A mark repeats its locating code every second, so what the code adds to magnitudes has a line spectrum along time: at
harmonics of 1 Hz, or of another frequency in audio that was played faster or slower, whose bins lie higher or lower by
the same factor. So the audio is analysed once, and for each speed only the lines are read where they then are.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES
from ideaw.engine.correlate import remove_local_mean
from ideaw.engine.response import log_magnitudes

MAGNITUDE_CLIP = 1.0
"""Log-magnitudes beyond this (8.7 dB from their mean over a second) are clipped: they are the host's own."""

HARMONICS = 15
"""Lines of the code that are read: up to the first zero, at 16 Hz, of the spectrum of a tile of 62 ms."""

LINES_PER_HERTZ = 64
"""Resolution of the spectrum along time: in 10 s the phase of a line is then right within a quarter of a radian."""

TINY_DEVIATION = 1e-9
"""Least divisor, so that silence does not divide by zero."""

PHASES = 4 * FRAMES_PER_SECOND
"""Places of the second that a code is tried at."""


def line_spectrum(audio: NDArray[np.float32]) -> NDArray[np.complex64]:
    """(n, channels) at 16 kHz → (lines, NUM_BINS): the spectrum along time of its log-magnitudes, channels added up.

    Audio beyond LINES_PER_HERTZ seconds does not count.
    """
    padded = np.pad(audio, ((0, -len(audio) % HOP_SAMPLES), (0, 0)))
    evidence = sum(
        np.clip(remove_local_mean(log_magnitudes(channel)), -MAGNITUDE_CLIP, MAGNITUDE_CLIP) for channel in padded.T
    )
    return np.asarray(np.fft.rfft(evidence, LINES_PER_HERTZ * FRAMES_PER_SECOND, axis=0), np.complex64)


def scan_speeds(
    spectrum: NDArray[np.complex64], templates: Sequence[NDArray[np.float32]], speeds: Sequence[float]
) -> NDArray[np.float64]:
    """How well locating codes fit at each speed, at their best place: in standard deviations without a mark.

    Args:
        spectrum: (lines, NUM_BINS), as `line_spectrum` gives it.
        templates: (FRAMES_PER_SECOND, bins) of each key.
        speeds: as many times as fast as the mark was made.

    Returns:
        (speeds, keys).
    """
    lines = np.fft.fft(np.stack(templates), axis=1)[:, 1 : HARMONICS + 1].conj().astype(np.complex64)
    powers = np.square(lines.real) + np.square(lines.imag)
    places = np.arange(1, HARMONICS + 1) * LINES_PER_HERTZ
    scores, spread = np.zeros((2, len(speeds), len(templates)))
    for row, speed in enumerate(speeds):
        at = np.arange(lines.shape[2]) * speed
        at = at[at < spectrum.shape[1] - 1]
        below = at.astype(np.int64)
        share = (at - below).astype(np.float32)
        read = spectrum[np.rint(places * speed).astype(np.int64)]
        read = read[:, below] * (1 - share) + read[:, below + 1] * share
        sums = np.einsum("hb,khb->kh", read, lines[:, :, : len(at)])
        energy = np.square(read.real) + np.square(read.imag)
        deviation = np.sqrt(2 * np.einsum("hb,khb->k", energy, powers[:, :, : len(at)])).clip(TINY_DEVIATION)
        scores[row] = np.fft.irfft(np.pad(sums, ((0, 0), (1, 0))), PHASES, axis=1).max(1) * PHASES / deviation
        spread[row] = 2 * (np.square(sums.real) + np.square(sums.imag)).sum(1) / np.square(deviation)
    # Neighbouring bins of a host are alike, so sums are larger than of independent values: as much at wrong speeds.
    return np.asarray(scores / np.sqrt(np.median(spread, 0)).clip(TINY_DEVIATION))


def accident_p(score: float, tried: int) -> float:
    """The probability that the best of so many scores is as high without a mark: normal, at independent places."""
    return min(1.0, 2 * HARMONICS * tried * math.exp(-(max(score, 0.0) ** 2) / 2))
