"""What of a difference can be heard: its energy in bands and frames, over the masking curve or the threshold in quiet.

One definition for the engine, which sets a mark's level by it, and for the measure of quality. It supposes a listener
who plays a sine at full scale at FULL_SCALE_DB_SPL.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.masking import BarkBands, masking_curve

MASKING_WINDOW_SAMPLES = 512
"""Samples of a frame at 16 kHz: 32 ms."""

MASKING_HOP_SAMPLES = MASKING_WINDOW_SAMPLES // 2
"""Samples from a frame to the next."""

FULL_SCALE_DB_SPL = 102.0
"""dB SPL of a sine at full scale: speech of -26 dBov is then played at 79 dB SPL, as ITU-T P.862 does."""

MIN_AUDIBILITY_DB, MAX_AUDIBILITY_DB, DEFAULT_AUDIBILITY_DB = -40.0, 20.0, -3.0
"""Noise-to-mask ratios that can be asked for, and the one of models whose card gives none: below MP3 at 128 kbit/s."""

AUDIBILITY_MEANING = (
    "energy of the mark over what the audio masks, the mean over half-Bark bands and frames of 32 ms, which every half "
    "second is brought to; 0 is as loud as what is masked, lower is quieter"
)
"""What a card says of its noise-to-mask ratio in dB."""


def band_energies(
    host: NDArray[np.floating], difference: NDArray[np.floating]
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
    """Host, masking curve and difference in bands: (…, bands) each, on a scale where 1 is 0 dB SPL.

    The curve is nowhere below the threshold in quiet.

    Args:
        host: (…, MASKING_WINDOW_SAMPLES) frames at 16 kHz, full scale 1.
        difference: the same of what was added to it.
    """
    bands = BarkBands.for_window(MASKING_WINDOW_SAMPLES, MASKING_WINDOW_SAMPLES // 2 + 1)
    power, noise = (_power_spectra(frames) for frames in (host, difference))
    curve = np.maximum(masking_curve(power, bands, np.log10), quiet_energies(MASKING_WINDOW_SAMPLES))
    return power @ bands.inside.T, curve, noise @ bands.inside.T


@cache
def quiet_energies(window: int) -> NDArray[np.float32]:
    """(bands,) the threshold in quiet (Terhardt), on a scale where 1 is 0 dB SPL, in the bands of a window."""
    hertz = BarkBands.for_window(window, window // 2 + 1).hertz
    kilo = np.maximum(hertz, 20) / 1000
    threshold = 3.64 * kilo**-0.8 - 6.5 * np.exp(-0.6 * np.square(kilo - 3.3)) + 1e-3 * kilo**4
    return np.asarray(10 ** (threshold / 10), np.float32)


def spl_scale(window: NDArray[np.floating]) -> float:
    """What powers of an FFT under this window are multiplied by, so that a sine at full scale has FULL_SCALE_DB_SPL."""
    return float(10 ** (FULL_SCALE_DB_SPL / 10) * 2 / (len(window) / 2 * np.square(window).sum()))


_WINDOW = np.hanning(MASKING_WINDOW_SAMPLES + 1)[:-1].astype(np.float32)
_SCALE = np.float32(spl_scale(_WINDOW))


def _power_spectra(frames: NDArray[np.floating]) -> NDArray[np.floating]:
    spectrum = np.fft.rfft(frames.astype(np.float32) * _WINDOW)
    return np.asarray((np.square(spectrum.real) + np.square(spectrum.imag)) * _SCALE)
