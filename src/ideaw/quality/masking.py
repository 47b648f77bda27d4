"""Noise-to-mask ratio of a mark: how far it lies above the masking curve of its host, at a listener's loudness.

Measured band by band in frames of 32 ms. Below the threshold in quiet nothing is audible either, so pauses without
noise count as masked. The curve is the engine's own (`audio/hearing.py`), here in frames that overlap by half.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.hearing import MASKING_HOP_SAMPLES, MASKING_WINDOW_SAMPLES, band_energies
from ideaw.audio.masking import POWER_FLOOR, BarkBands

MAX_BLOCK_FRAMES = 1_000
"""Frames whose spectra are held in memory at once."""


@dataclass(frozen=True)
class Masking:
    """Levels of host, masking curve and difference.

    Attributes:
        hertz: (bands,) centre frequencies.
        host, curve, noise: (frames, bands) in dB SPL.
        silent: (frames,) whether the host is digital silence, all zeros.
    """

    hertz: NDArray[np.float32]
    host: NDArray[np.float32]
    curve: NDArray[np.float32]
    noise: NDArray[np.float32]
    silent: NDArray[np.bool_]

    @property
    def seconds(self) -> NDArray[np.float64]:
        """(frames,) times of the frames' centres, in seconds."""
        starts = np.arange(len(self.silent)) * MASKING_HOP_SAMPLES
        return (starts + MASKING_WINDOW_SAMPLES / 2) / SAMPLE_RATE

    @property
    def excess(self) -> NDArray[np.float32]:
        """(frames, bands) noise-to-mask ratio in dB; positive where something may be audible."""
        return self.noise - self.curve

    @property
    def frame_ratios(self) -> NDArray[np.float64]:
        """(frames,) noise-to-mask ratio in dB, the mean over bands."""
        return np.asarray(10 * np.log10(np.mean(10 ** (self.excess / 10), axis=1, dtype=np.float64)))

    @property
    def ratio(self) -> float:
        """Mean noise-to-mask ratio over frames and bands, in dB.

        Frames of digital silence do not count, unless there are no others: they carry no mark, and would make any mark
        look fainter.
        """
        ratios = 10 ** (self.frame_ratios / 10)
        return float(10 * np.log10(ratios.mean() if self.silent.all() else ratios[~self.silent].mean()))

    @property
    def masked(self) -> float:
        """Share of frames and bands in which the noise lies below the curve.

        Frames of digital silence count: they are masked where nothing differs.
        """
        return float(np.mean(self.excess <= 0))

    @property
    def most_audible(self) -> int:
        """The frame with the highest mean noise-to-mask ratio, of digital silence too."""
        return int(self.frame_ratios.argmax())

    def over_time(self, most: int) -> NDArray[np.float64]:
        """(at most `most`,) noise-to-mask ratio in dB of the most audible frame in each of equally long stretches."""
        frames = len(self.silent)
        count = min(most, frames)
        return np.asarray(np.maximum.reduceat(self.frame_ratios, np.arange(count) * frames // count))


def masking(host: NDArray[np.floating], marked: NDArray[np.floating]) -> Masking:
    """Compare `marked - host` with what the host masks.

    Args:
        host: (n,) mono audio at 16 kHz, full scale 1.
        marked: the same with a mark, or any other change, in it.
    """
    frames = max(-(-(len(host) - MASKING_WINDOW_SAMPLES) // MASKING_HOP_SAMPLES), 0) + 1
    difference = marked.astype(np.float64) - host
    levels, silent = [], []
    for first in range(0, frames, MAX_BLOCK_FRAMES):
        last = min(first + MAX_BLOCK_FRAMES, frames)
        pieces = _frames(host, first, last), _frames(difference, first, last)
        levels.append([10 * np.log10(energy + POWER_FLOOR) for energy in band_energies(*pieces)])
        silent.append(~pieces[0].any(1))
    host_level, curve, noise = (np.concatenate(part).astype(np.float32) for part in zip(*levels, strict=True))
    hertz = BarkBands.for_window(MASKING_WINDOW_SAMPLES, MASKING_WINDOW_SAMPLES // 2 + 1).hertz
    return Masking(hertz, host_level, curve, noise, np.concatenate(silent))


def _frames(audio: NDArray[np.floating], first: int, last: int) -> NDArray[np.floating]:
    """(n,) → (last − first, MASKING_WINDOW_SAMPLES), these frames; zeros follow the end."""
    part = audio[first * MASKING_HOP_SAMPLES : (last - 1) * MASKING_HOP_SAMPLES + MASKING_WINDOW_SAMPLES]
    padded = np.pad(part, (0, (last - first - 1) * MASKING_HOP_SAMPLES + MASKING_WINDOW_SAMPLES - len(part)))
    return np.lib.stride_tricks.sliding_window_view(padded, MASKING_WINDOW_SAMPLES)[::MASKING_HOP_SAMPLES]
