"""At which speed or tempo audio may have been played: a matched filter on log-magnitudes, tried at hundreds at once.

A mark repeats its locating code every second, so what the code adds to magnitudes has a line spectrum along time: at
harmonics of 1 Hz, or of another frequency in audio that was played faster or slower, whose bins lie higher or lower by
the same factor, or as they were if tempo alone was changed. So the audio is analysed once, and for each speed and tempo
only the lines are read where they then are.
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
    spectrum: NDArray[np.complex64],
    templates: Sequence[NDArray[np.float32]],
    speeds: Sequence[float],
    tempos: Sequence[float] = (),
) -> NDArray[np.float64]:
    """How well locating codes fit at each speed and tempo, at their best place: in standard deviations without a mark.

    Args:
        spectrum: (lines, NUM_BINS), as `line_spectrum` gives it.
        templates: (FRAMES_PER_SECOND, bins) of each key.
        speeds: as many times as fast as the mark was made, and as high.
        tempos: as many times as fast, at the same pitch.

    Returns:
        (speeds and then tempos, keys).
    """
    lines = np.fft.fft(np.stack(templates), axis=1)[:, 1 : HARMONICS + 1].conj().astype(np.complex64)
    places = np.arange(1, HARMONICS + 1) * LINES_PER_HERTZ

    def read(faster: NDArray[np.float64]) -> NDArray[np.complex64]:
        return spectrum[np.rint(faster[:, None] * places).astype(np.int64)]

    bins = lines.shape[2]
    parts = [_fit(_lower(read(np.array([speed])), bins, speed), lines) for speed in speeds]
    if tempos:
        parts.append(_fit(read(np.array(tempos))[..., :bins], lines))
    scores, spread = (np.concatenate(values) for values in zip(*parts, strict=True))
    # Neighbouring bins of a host are alike, so sums are larger than of independent values: as much at wrong speeds.
    return np.asarray(scores / np.sqrt(np.median(spread, 0)).clip(TINY_DEVIATION))


def _lower(read: NDArray[np.complex64], bins: int, speed: float) -> NDArray[np.complex64]:
    """(…, NUM_BINS) → (…, up to bins): where these bins lie in audio that was played so many times as fast."""
    at = np.arange(bins) * speed
    at = at[at < read.shape[-1] - 1]
    below = at.astype(np.int64)
    share = (at - below).astype(np.float32)
    return np.asarray(read[..., below] * (1 - share) + read[..., below + 1] * share)


def _fit(read: NDArray[np.complex64], lines: NDArray[np.complex64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How well (steps, HARMONICS, bins) of audio fit to those of keys at the best place, and how widely they vary.

    Both are (steps, keys), relative to what independent values of the audio's energies would give.
    """
    steps, keys, lines = len(read), len(lines), lines[..., : read.shape[-1]]
    sums = (read.swapaxes(0, 1) @ lines.transpose(1, 2, 0)).transpose(1, 2, 0)
    energy, powers = (np.square(values.real) + np.square(values.imag) for values in (read, lines))
    deviation = np.sqrt(2 * energy.reshape(steps, -1) @ powers.reshape(keys, -1).T).clip(TINY_DEVIATION)
    best = np.fft.irfft(np.pad(sums, ((0, 0), (0, 0), (1, 0))), PHASES).max(-1) * PHASES
    return best / deviation, 2 * (np.square(sums.real) + np.square(sums.imag)).sum(-1) / np.square(deviation)


def accident_p(score: float, tried: int) -> float:
    """The probability that the best of so many scores is as high without a mark: normal, at independent places."""
    return min(1.0, 2 * HARMONICS * tried * math.exp(-(max(score, 0.0) ** 2) / 2))
