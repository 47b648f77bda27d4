"""What a locating code does to log-magnitudes: nearly the same to any host, and linear in the code's stream.

The network marks audio by raising and lowering the magnitudes of its bins. On average over hosts that is a convolution
of the stream with a response, the same in every band, which is measured when a model is exported (`train/response.py`).
Correlating magnitudes with it finds a mark without running the network, at any speed (`speed_scan.py`).
"""

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.audio.spectrum import level_spectrum
from ideaw.modem.carriers import TILE_BINS

RESPONSE_FRAMES = 4
"""Frames to each side that a response reaches: beyond them there is less than what measuring leaves of noise."""

ENVELOPE_SUMS = (3, 7)
"""Bins of the two moving averages, one after the other, that give the spectral envelope: 144 Hz together."""

MAGNITUDE_POWER_FLOOR = 1e-6
"""Power that is added to every envelope, relative to audio of level 1: silence has no magnitudes."""

MAGNITUDE_LOG_OFFSET = 0.05
"""Power relative to the envelope that is added before the logarithm: deeper gaps all look alike."""


def log_magnitudes(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """(hops · HOP_SAMPLES,) at 16 kHz → (hops, NUM_BINS) relative to the spectral envelope, in nepers; 0 in silence."""
    spectrum = level_spectrum(samples)
    power = np.square(spectrum.real) + np.square(spectrum.imag)
    smooth = power
    for width in ENVELOPE_SUMS:
        smooth = _moving_mean(smooth, width)
    logs = 0.5 * np.log(power / (smooth + MAGNITUDE_POWER_FLOOR) + MAGNITUDE_LOG_OFFSET)
    return np.asarray(logs * power.any(-1, keepdims=True), np.float32)


def code_template(response: NDArray[np.float32], stream: NDArray[np.float32]) -> NDArray[np.float32]:
    """The log-magnitudes that a locating code adds to a second.

    Args:
        response: (frames, tiles of a band, bins of a band), of the network.
        stream: (FRAMES_PER_SECOND, bins), the ring of the code's stream.

    Returns:
        (FRAMES_PER_SECOND, bins), without its mean over time.
    """
    frames, tiles, bins = response.shape
    inputs = neighbours(stream[:, ::TILE_BINS].reshape(FRAMES_PER_SECOND, -1, tiles))
    template = (inputs @ response.reshape(frames * tiles, bins)).reshape(stream.shape)
    return np.asarray(template - template.mean(0), np.float32)


def neighbours(ring: NDArray[np.float32]) -> NDArray[np.float32]:
    """(frames, bands, tiles) of a ring → (frames, bands, (2 · RESPONSE_FRAMES + 1) · tiles): the frames around each."""
    shifts = range(-RESPONSE_FRAMES, RESPONSE_FRAMES + 1)
    return np.concatenate([np.roll(ring, -shift, 0) for shift in shifts], -1)


def _moving_mean(values: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """(hops, NUM_BINS) → the mean over so many bins around each; beyond the ends are zeros."""
    padded = np.pad(values, ((0, 0), (width // 2, width // 2)))
    total = padded[:, : values.shape[1]].copy()
    for place in range(1, width):
        total += padded[:, place : place + values.shape[1]]
    return np.asarray(total / width, np.float32)
