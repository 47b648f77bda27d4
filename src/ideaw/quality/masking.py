"""Noise-to-mask ratio of a mark: how far it lies above the masking curve of its host, at a listener's loudness.

Measured band by band in frames of 32 ms. Below the threshold in quiet nothing is audible either, so pauses without
noise count as masked.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.masking import POWER_FLOOR, BarkBands, masking_curve

MASKING_WINDOW_SAMPLES, MASKING_HOP_SAMPLES = 512, 256
"""Samples of a frame and from one to the next, at 16 kHz."""

MAX_BLOCK_FRAMES = 1_000
"""Frames whose spectra are held in memory at once."""

FULL_SCALE_DB_SPL = 96.0
"""dB SPL of a sine at full scale: how loud the listener plays."""


@dataclass(frozen=True)
class Masking:
    """Levels of host, masking curve and difference.

    Attributes:
        hertz: (bands,) centre frequencies.
        host, curve, noise: (frames, bands) in dB SPL.
    """

    hertz: NDArray[np.float32]
    host: NDArray[np.float32]
    curve: NDArray[np.float32]
    noise: NDArray[np.float32]

    @property
    def excess(self) -> NDArray[np.float32]:
        """(frames, bands) noise-to-mask ratio in dB; positive where something may be audible."""
        return self.noise - self.curve

    @property
    def ratio(self) -> float:
        """Mean noise-to-mask ratio over frames and bands, in dB."""
        return float(10 * np.log10(np.mean(10 ** (self.excess / 10), dtype=np.float64)))

    @property
    def masked(self) -> float:
        """Share of frames and bands in which the noise lies below the curve."""
        return float(np.mean(self.excess <= 0))

    @property
    def most_audible(self) -> int:
        """The frame with the highest mean noise-to-mask ratio."""
        return int((10 ** (self.excess / 10)).mean(1).argmax())


def masking(host: NDArray[np.floating], marked: NDArray[np.floating]) -> Masking:
    """Compare `marked - host` with what the host masks.

    Args:
        host: (n,) mono audio at 16 kHz, full scale 1.
        marked: the same with a mark, or any other change, in it.
    """
    bands = BarkBands.for_window(MASKING_WINDOW_SAMPLES, MASKING_WINDOW_SAMPLES // 2 + 1)
    frames = max(-(-(len(host) - MASKING_WINDOW_SAMPLES) // MASKING_HOP_SAMPLES), 0) + 1
    difference = marked.astype(np.float64) - host
    levels = []
    for first in range(0, frames, MAX_BLOCK_FRAMES):
        last = min(first + MAX_BLOCK_FRAMES, frames)
        power, noise = (_power_spectra(signal, first, last) for signal in (host, difference))
        energies = power @ bands.inside.T, masking_curve(power, bands, np.log10), noise @ bands.inside.T
        levels.append([10 * np.log10(energy + POWER_FLOOR) for energy in energies])
    host_level, mask_level, noise_level = (
        np.concatenate(part).astype(np.float32) for part in zip(*levels, strict=True)
    )
    return Masking(bands.hertz, host_level, np.maximum(mask_level, _threshold_in_quiet(bands.hertz)), noise_level)


def frame_centre_seconds(frame: int) -> float:
    """Time of the centre of a frame, in seconds."""
    return (frame * MASKING_HOP_SAMPLES + MASKING_WINDOW_SAMPLES / 2) / SAMPLE_RATE


def _power_spectra(audio: NDArray[np.floating], first: int, last: int) -> NDArray[np.float64]:
    """(n,) → (last − first, bins) of these frames: powers that add up to FULL_SCALE_DB_SPL for a sine at full scale."""
    part = audio[first * MASKING_HOP_SAMPLES : (last - 1) * MASKING_HOP_SAMPLES + MASKING_WINDOW_SAMPLES].astype(
        np.float64
    )
    padded = np.pad(part, (0, (last - first - 1) * MASKING_HOP_SAMPLES + MASKING_WINDOW_SAMPLES - len(part)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, MASKING_WINDOW_SAMPLES)[::MASKING_HOP_SAMPLES]
    window = np.hanning(MASKING_WINDOW_SAMPLES + 1)[:-1]
    full_scale = 10 ** (FULL_SCALE_DB_SPL / 10) * 2 / (MASKING_WINDOW_SAMPLES / 2 * np.square(window).sum())
    return np.asarray(np.square(np.abs(np.fft.rfft(frames * window))) * full_scale)


def _threshold_in_quiet(hertz: NDArray[np.float32]) -> NDArray[np.float32]:
    """The threshold in quiet in dB SPL (Terhardt)."""
    kilo = np.maximum(hertz, 20) / 1000
    return np.asarray(3.64 * kilo**-0.8 - 6.5 * np.exp(-0.6 * np.square(kilo - 3.3)) + 1e-3 * kilo**4)
