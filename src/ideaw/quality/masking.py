"""What of a difference lies below the masking curve of its host, at the loudness of a listener.

The ratio of noise to mask says how far above the curve it is, band by band in frames of 32 ms. Below the threshold in
quiet nothing is heard either, so pauses without noise count as masked.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.masking import LEAST, Bands, curve

WINDOW, HOP = 512, 256
"""Samples of a frame and from one to the next, at 16 kHz."""

AT_ONCE = 1_000
"""Frames whose spectra are held at once."""

FULL_SCALE = 96.0
"""dB SPL of a sine at full scale: how loud the listener plays."""


@dataclass(frozen=True)
class Masking:
    """Host and difference against the curve, (frames, bands) each, in dB SPL; `hertz` (bands,) are their middles."""

    hertz: NDArray[np.float32]
    host: NDArray[np.float32]
    curve: NDArray[np.float32]
    noise: NDArray[np.float32]

    @property
    def excess(self) -> NDArray[np.float32]:
        """(frames, bands): ratio of noise to mask in dB; positive where something may be heard."""
        return self.noise - self.curve

    @property
    def ratio(self) -> float:
        """The mean ratio of noise to mask over frames and bands, in dB."""
        return float(10 * np.log10(np.mean(10 ** (self.excess / 10), dtype=np.float64)))

    @property
    def masked(self) -> float:
        """Share of frames and bands in which the noise lies below the curve."""
        return float(np.mean(self.excess <= 0))

    @property
    def most_audible(self) -> int:
        """The frame with the most noise to mask."""
        return int((10 ** (self.excess / 10)).mean(1).argmax())


def masking(host: NDArray[np.floating], marked: NDArray[np.floating]) -> Masking:
    """Hold `marked - host` of 16 kHz mono audio, (n,), against what the host masks."""
    bands = Bands.of(WINDOW, WINDOW // 2 + 1)
    frames = max(-(-(len(host) - WINDOW) // HOP), 0) + 1
    difference = marked.astype(np.float64) - host
    levels = []
    for first in range(0, frames, AT_ONCE):
        last = min(first + AT_ONCE, frames)
        power, noise = (_powers(each, first, last) for each in (host, difference))
        energies = power @ bands.inside.T, curve(power, bands, np.log10), noise @ bands.inside.T
        levels.append([10 * np.log10(each + LEAST) for each in energies])
    loudness, below, rest = (np.concatenate(part).astype(np.float32) for part in zip(*levels, strict=True))
    return Masking(bands.hertz, loudness, np.maximum(below, _quiet(bands.hertz)), rest)


def middle(frame: int) -> float:
    """Where the middle of a frame is, in seconds."""
    return (frame * HOP + WINDOW / 2) / SAMPLE_RATE


def _powers(audio: NDArray[np.floating], first: int, last: int) -> NDArray[np.float64]:
    """(n,) → (last − first, bins) of these frames: powers that add up to FULL_SCALE for a sine at full scale."""
    part = audio[first * HOP : (last - 1) * HOP + WINDOW].astype(np.float64)
    whole = np.pad(part, (0, (last - first - 1) * HOP + WINDOW - len(part)))
    frames = np.lib.stride_tricks.sliding_window_view(whole, WINDOW)[::HOP]
    window = np.hanning(WINDOW + 1)[:-1]
    full_scale = 10 ** (FULL_SCALE / 10) * 2 / (WINDOW / 2 * np.square(window).sum())
    return np.square(np.abs(np.fft.rfft(frames * window))) * full_scale


def _quiet(hertz: NDArray[np.float32]) -> NDArray[np.float32]:
    """The threshold in quiet in dB SPL (Terhardt)."""
    kilo = np.maximum(hertz, 20) / 1000
    return np.asarray(3.64 * kilo**-0.8 - 6.5 * np.exp(-0.6 * np.square(kilo - 3.3)) + 1e-3 * kilo**4)
