"""Modulation masking: which slow changes of loudness are heard in sound that changes by itself.

A bank of modulation filters after Dau, Kollmeier and Kohlrausch (1997) and Ewert and Dau (2000). In each, an added
modulation is just heard where its power equals a share of the host's own modulation there (masking) plus the threshold
at which amplitude modulation of a steady tone is just heard (Viemeister 1979; Kohlrausch, Fassel and Dau 2000: -25 to
-28 dB). A steady tone thus has next to no room, noise and speech have more. One definition for the engine, which sets
gains by it on mel bands, and for the measure of quality, on gammatone channels.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

MODULATION_HZ = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Centres of the modulation filters, each of quality factor 1."""

JUST_HEARD_DEPTH_DB = (-25.0, -28.0, -28.0, -28.0, -26.0)
"""Depth of a sine's amplitude modulation, 20 lg m, that is just heard at each centre."""

MASKING_DB = -3.0
"""Power of an added modulation that is just heard, over the host's own in the same filter."""

MODULATION_WINDOW_SECONDS = 0.5
"""Length of the Hann window over which power is taken."""

POWER_RATE_HZ = 20
"""Rate at which powers are given."""

INAUDIBLE_LEVEL_DB = -55.0
"""Level of a channel, over the loudest level of all together, below which nothing in it is heard."""

INAUDIBLE_DB = -30.0
"""Excess over the threshold that stands for what is not heard at all."""


def modulation_powers(envelopes: NDArray[np.floating], rate: int) -> NDArray[np.float32]:
    """Power of envelopes in every modulation filter, around each moment.

    Args:
        envelopes: (channels, n) amplitudes, n · POWER_RATE_HZ a multiple of `rate`.
        rate: Hz, a multiple of POWER_RATE_HZ.

    Returns:
        (filters, channels, n · POWER_RATE_HZ / rate).
    """
    length = envelopes.shape[-1]
    spectrum = np.fft.rfft(_mirrored(envelopes), axis=-1)
    step = rate // POWER_RATE_HZ
    powers = []
    for response in _filters(2 * length, rate):
        filtered = np.fft.irfft(spectrum * response, 2 * length, axis=-1)[..., :length]
        cells = np.square(filtered).reshape(*filtered.shape[:-1], -1, step).mean(-1)
        powers.append(smooth(cells, POWER_RATE_HZ))
    return np.stack(powers)


def smooth(values: NDArray[np.floating], rate: int) -> NDArray[np.float32]:
    """(..., n) averaged over MODULATION_WINDOW_SECONDS around each, over what there is at the ends."""
    size = int(MODULATION_WINDOW_SECONDS * rate) | 1
    window = np.hanning(size + 2)[1:-1].astype(np.float32)
    half = size // 2
    padded = np.pad(values.astype(np.float32, copy=False), [(0, 0)] * (values.ndim - 1) + [(half, half)])
    total = np.lib.stride_tricks.sliding_window_view(padded, size, axis=-1) @ window
    inside = np.convolve(np.ones(values.shape[-1], np.float32), window)[half : half + values.shape[-1]]
    return np.asarray(total / inside)


def thresholds(host_powers: NDArray[np.floating], levels: NDArray[np.floating]) -> NDArray[np.float32]:
    """(filters, channels, n) power of an added modulation that is just heard.

    Args:
        host_powers: (filters, channels, n) of the host, as `modulation_powers` gives them.
        levels: (channels, n) the host's mean amplitude around each moment.
    """
    depth = np.float32(10.0) ** (np.array(JUST_HEARD_DEPTH_DB, np.float32)[:, None, None] / 10)
    return np.asarray(10 ** (MASKING_DB / 10) * host_powers + depth / 2 * np.square(levels))


def _mirrored(envelopes: NDArray[np.floating]) -> NDArray[np.float32]:
    """(channels, n) → (channels, 2 n) without steps where the end meets the beginning, and without mean."""
    centred = envelopes - envelopes.mean(-1, keepdims=True)
    return np.concatenate([centred, centred[:, ::-1]], -1).astype(np.float32)


@cache
def _filters(length: int, rate: int) -> NDArray[np.float32]:
    """(filters, length // 2 + 1) magnitudes."""
    hertz = np.maximum(np.fft.rfftfreq(length, 1 / rate), 1e-6)
    centres = np.array(MODULATION_HZ)[:, None]
    return np.asarray(1 / np.sqrt(1 + np.square(hertz / centres - centres / hertz)), np.float32)
