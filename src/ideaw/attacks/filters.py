"""Filters by their frequency response, on signals of any length.

`butterworth` uses operators and methods that numpy arrays and torch tensors both have: one definition serves
the files (numpy, any rate) and the training on the GPU (torch, 16 kHz).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

MIN_BILINEAR_ANGLE = 1e-9
MAX_BILINEAR_ANGLE = math.pi / 2 - 1e-4
"""Range in radians of the bilinear transform's argument, so that its tangent stays finite in single precision."""

FFT_BLOCK_SAMPLES = 1 << 18
"""Samples filtered at once, with half as many zeros on each side for the tails of the response."""


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


def pass_response(frequency: np.ndarray, rate: int, cutoff: float, order: int, high: bool = False) -> np.ndarray:
    """Complex response of a digital Butterworth low-pass (or high-pass) at frequencies in Hz."""
    angle = (frequency * (math.pi / rate)).clip(MIN_BILINEAR_ANGLE, MAX_BILINEAR_ANGLE)
    return np.asarray(butterworth(np.tan(angle) / math.tan(math.pi * cutoff / rate), order, high))


def respond(x: np.ndarray, rate: int, response: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """(n,) through a response, a function of frequency in Hz, block by block; nothing wraps, tails are cut off."""
    tail = FFT_BLOCK_SAMPLES // 2
    length = 2 * FFT_BLOCK_SAMPLES if len(x) > FFT_BLOCK_SAMPLES else fast_length(len(x) + 2 * tail)
    gains = response(np.fft.rfftfreq(length, 1 / rate))
    y = np.zeros(len(x) + length)
    for start in range(0, len(x), FFT_BLOCK_SAMPLES):
        piece = np.fft.irfft(np.fft.rfft(x[start : start + FFT_BLOCK_SAMPLES], length) * gains, length)
        y[start : start + length] += np.roll(piece, tail)
    return y[tail : tail + len(x)]


def convolve(x: np.ndarray, taps: np.ndarray) -> np.ndarray:
    """(n,) through an impulse response (taps,), block by block; the tail is cut off."""
    length = fast_length(min(len(x), FFT_BLOCK_SAMPLES) + len(taps) - 1)
    spectrum = np.fft.rfft(taps, length)
    y = np.zeros(len(x) + length)
    for start in range(0, len(x), FFT_BLOCK_SAMPLES):
        y[start : start + length] += np.fft.irfft(
            np.fft.rfft(x[start : start + FFT_BLOCK_SAMPLES], length) * spectrum, length
        )
    return y[: len(x)]
