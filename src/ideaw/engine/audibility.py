"""The level of a mark by hearing: held down in every band and every few milliseconds, and set second by second.

The network adapts its residual to the host, but only at the resolution of its window of 62 ms. Here a band is lowered
where it would rise out of the mask (`limit_bands`), a moment where the host is soft just before or after it is loud
(`temporal_mask`), and every second gets the gain with which the noise-to-mask ratio that is left reaches its target.
"""

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import HOP_SAMPLES, NUM_BINS, WINDOW_SAMPLES
from ideaw.audio.hearing import (
    MASKING_WINDOW_SAMPLES,
    band_energies,
    quiet_energies,
    spl_scale,
)
from ideaw.audio.masking import BarkBands, masking_curve
from ideaw.audio.spectrum import HANN_WINDOW, SPECTRUM_SCALE
from ideaw.engine.gain import limit

MIN_SNR_BY_EAR_DB, MAX_SNR_BY_EAR_DB = 26.0, 50.0
"""Bounds of the SNR of a second whose level is set by hearing: louder the network was not trained, fainter it could
hardly be found."""

BAND_HEADROOM_DB = 45.0
"""dB above the masking curve that a band of the network's residual may have, before the gain: it has 44 on average."""

FORWARD_MASK_CELLS = 64
"""Cells after a sound in which it masks: 100 ms. Before it, it masks nothing here."""

CELL_SAMPLES = HOP_SAMPLES // 10
"""Samples whose power is taken together in time: 1.6 ms."""

FORWARD_MASK_DB_PER_CELL = 1.4
"""dB by which the mask falls in every cell after a sound: 27 dB in 30 ms."""

MIN_HEARD_POWER = 10**-9.0
"""Mean square, −90 dBFS, from which on a frame counts in the noise-to-mask ratio of a second."""

_BANDS = BarkBands.for_window(WINDOW_SAMPLES, NUM_BINS)
_BAND_OF_BIN = _BANDS.inside.argmax(0)
_SPL_OF_SPECTRUM = spl_scale(HANN_WINDOW) / SPECTRUM_SCALE**2
_WINDOW_POWER = np.square(HANN_WINDOW).reshape(-1, CELL_SAMPLES).mean(1)
_SPREAD = np.convolve(_WINDOW_POWER, _WINDOW_POWER) / _WINDOW_POWER.sum() ** 2
"""(79,) shares of a host's power in the cells of a residual: two windows spread it, of analysis and of synthesis."""


def limit_bands(
    host: NDArray[np.complex64], residual: NDArray[np.complex64], loudness: NDArray[np.floating]
) -> NDArray[np.complex64]:
    """The residual, with every band of every frame at most BAND_HEADROOM_DB above the masking curve of the host.

    Args:
        host: (frames, NUM_BINS), at level 1.
        residual: (frames, NUM_BINS), as it leaves the network.
        loudness: (frames,), the level that the host was divided by.
    """
    power, noise = (np.square(spectrum.real) + np.square(spectrum.imag) for spectrum in (host, residual))
    quiet = quiet_energies(WINDOW_SAMPLES) / (_SPL_OF_SPECTRUM * np.square(loudness))[:, None]
    allowed = np.maximum(masking_curve(power, _BANDS, np.log10), quiet) * np.float32(10 ** (BAND_HEADROOM_DB / 10))
    energies = noise @ _BANDS.inside.T
    gains = np.sqrt(allowed / np.maximum(energies, allowed))
    return np.asarray(residual * gains.astype(np.float32)[:, _BAND_OF_BIN])


def temporal_mask(audio: NDArray[np.floating]) -> NDArray[np.float32]:
    """(n,) host at 16 kHz, n a multiple of HOP_SAMPLES → (n,) gains up to 1 for a residual under it.

    A residual is as loud as the host is under the windows of analysis and synthesis. Where the host's own power, or
    what it has just masked, is below that, so is the gain.
    """
    power = np.square(audio.reshape(-1, CELL_SAMPLES)).mean(1)
    spread = np.convolve(power, _SPREAD)[len(_SPREAD) // 2 :][: len(power)]
    mask, lag = power.copy(), 1
    while lag < FORWARD_MASK_CELLS:  # the decaying maximum over 2, 4, 8 … cells
        mask[lag:] = np.maximum(mask[lag:], mask[:-lag] * np.float32(10 ** (-lag * FORWARD_MASK_DB_PER_CELL / 10)))
        lag *= 2
    gains = np.sqrt(mask / np.maximum(np.maximum(spread, mask), np.finfo(np.float32).tiny))
    # Between two cells the gain is that of the softer one of the two before, so that it rises only after a sound began.
    before = np.concatenate([gains[:1], gains[:1], gains])
    borders = np.minimum(before[:-1], before[1:])
    moments = (np.arange(CELL_SAMPLES, dtype=np.float32) + 0.5) / CELL_SAMPLES
    return np.asarray(borders[:-1, None] + np.diff(borders)[:, None] * moments, np.float32).ravel()


def gain_by_ear(
    residual: NDArray[np.floating], audio: NDArray[np.floating], noise_to_mask: float
) -> NDArray[np.float64]:
    """The gain `(…)` that brings a second `(n, …)` of residual at 16 kHz to a noise-to-mask ratio.

    Args:
        residual: what is to be added.
        audio: what it is added to.
        noise_to_mask: in dB, the mean over bands and over frames that hold sound.
    """
    host, difference = (
        np.lib.stride_tricks.sliding_window_view(samples.reshape(len(samples), -1), MASKING_WINDOW_SAMPLES, 0)[
            :: MASKING_WINDOW_SAMPLES // 2
        ]
        for samples in (audio, residual)
    )
    _, curve, noise = band_energies(host, difference)
    ratios = (noise / curve).mean(-1, dtype=np.float64)
    counted = np.square(host).mean(-1) >= MIN_HEARD_POWER
    counted |= ~counted.any(0)
    ratio = (ratios * counted).sum(0) / counted.sum(0)
    wanted = np.sqrt(10 ** (noise_to_mask / 10) / np.maximum(ratio, 1e-30)).reshape(audio.shape[1:])
    softest, loudest = (limit(residual, audio, snr) for snr in (MAX_SNR_BY_EAR_DB, MIN_SNR_BY_EAR_DB))
    return np.asarray(np.minimum(np.maximum(wanted, softest), loudest))
