"""Audibility of slow changes of loudness: how far an added modulation is above what is just heard.

Noise measures (SNR, noise to mask, PESQ) judge what is added as noise; a mark that makes bands louder and softer is
heard, if at all, as modulation. Gammatone channels 1 ERB apart, their Hilbert envelopes, and the modulation filters and
thresholds of `audio/modulation.py`, in the manner of the speech envelope power model (Jørgensen, Ewert and Dau 2013). A
cell is one modulation filter of one channel in 50 ms; at 0 dB its change is just heard by itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.modulation import INAUDIBLE_LEVEL_DB, POWER_RATE_HZ, modulation_powers, smooth, thresholds

ENVELOPE_RATE_HZ = 200
"""Rate of envelopes."""

LOWEST_CHANNEL_HZ, HIGHEST_CHANNEL_HZ = 120.0, 7_000.0
"""Centres of the outer channels."""

GAMMATONE_ORDER = 4
"""Order of the filters."""

SMOOTHING_HZ = 90.0
"""Frequency at which an envelope's fluctuation is lowered by a factor of e: the fine structure is no modulation."""

EDGE_SECONDS = 0.25
"""Seconds at both ends that are not judged, since their windows are not whole."""

MAX_BLOCK_SAMPLES = 60 * SAMPLE_RATE
"""Samples that are analysed at once, about."""

TYPICAL_PERCENTILE = 99.0
"""Percentile of audible cells that is reported beside the worst."""


@dataclass(frozen=True)
class ModulationAudibility:
    """dB of added modulation over what is just heard; 0 dB is just heard.

    Attributes:
        percentile_99: of the audible cells.
        worst: the highest cell.
        share_heard: of audible cells, those above 0 dB.
    """

    percentile_99: float
    worst: float
    share_heard: float


def modulation_audibility(original: NDArray[np.floating], changed: NDArray[np.floating]) -> ModulationAudibility:
    """Measure what was changed in `(n,)` audio at 16 kHz, of half a second or more."""
    parts = max(1, round(len(original) / MAX_BLOCK_SAMPLES))
    pairs = zip(np.array_split(original, parts), np.array_split(changed, parts), strict=True)
    cells = np.concatenate([_excess(*pair).ravel() for pair in pairs])
    if not cells.size:
        return ModulationAudibility(-np.inf, -np.inf, 0.0)
    return ModulationAudibility(
        float(np.percentile(cells, TYPICAL_PERCENTILE)), float(cells.max()), float((cells > 0).mean())
    )


def _excess(original: NDArray[np.floating], changed: NDArray[np.floating]) -> NDArray[np.float32]:
    """dB over what is just heard in every audible cell of `(n,)` audio that can be held in memory."""
    host, other = _envelopes(original), _envelopes(changed)
    step = ENVELOPE_RATE_HZ // POWER_RATE_HZ
    levels = smooth(host.reshape(len(host), -1, step).mean(-1), POWER_RATE_HZ)
    floor = np.percentile(np.sqrt(np.square(levels).sum(0)), 95) * 10 ** (INAUDIBLE_LEVEL_DB / 20)
    limits = thresholds(modulation_powers(host, ENVELOPE_RATE_HZ), np.hypot(levels, floor))
    excess = 10 * np.log10(modulation_powers(other - host, ENVELOPE_RATE_HZ) / np.maximum(limits, 1e-30) + 1e-9)
    edge = int(EDGE_SECONDS * POWER_RATE_HZ)
    return np.asarray(excess[..., edge:-edge][:, (levels > floor)[:, edge:-edge]])


def _erb(hertz: NDArray[np.floating]) -> NDArray[np.float64]:
    """Equivalent rectangular bandwidth in Hz (Glasberg and Moore 1990)."""
    return np.asarray(24.7 * (4.37 * hertz / 1000 + 1))


def _centres() -> NDArray[np.float64]:
    """Frequencies 1 ERB apart."""
    low, high = (21.4 * np.log10(4.37 * hertz / 1000 + 1) for hertz in (LOWEST_CHANNEL_HZ, HIGHEST_CHANNEL_HZ))
    return np.asarray((10 ** (np.arange(low, high) / 21.4) - 1) / 4.37 * 1000)


def _envelopes(samples: NDArray[np.floating]) -> NDArray[np.float32]:
    """(n,) → (channels, m) Hilbert envelopes at ENVELOPE_RATE_HZ, a whole number of cells of POWER_RATE_HZ."""
    seconds = -(-len(samples) // SAMPLE_RATE) + 1  # whole ones: bins lie on whole fractions of a Hz; 1 against wrapping
    spectrum = np.fft.rfft(samples, seconds * SAMPLE_RATE)
    hertz = np.arange(ENVELOPE_RATE_HZ * seconds // 2 + 1) / seconds
    smoothing = np.exp(-((hertz / SMOOTHING_HZ) ** 4))
    kept = int(len(samples) / SAMPLE_RATE * POWER_RATE_HZ) * (ENVELOPE_RATE_HZ // POWER_RATE_HZ)
    rows = []
    for centre in _centres():
        width = _erb(centre)
        low, high = int(max(0.0, centre - 5 * width) * seconds), int(min(SAMPLE_RATE / 2, centre + 5 * width) * seconds)
        offsets = np.arange(low, high) / seconds - centre
        band = spectrum[low:high] * (1 + 1j * offsets / (1.019 * width)) ** -GAMMATONE_ORDER
        rate = max(2 * (high - low) // seconds + 2, 2 * ENVELOPE_RATE_HZ)  # of the envelope, without aliasing
        envelope = np.abs(np.fft.ifft(band, rate * seconds)) * (2 * rate / SAMPLE_RATE)
        slow = np.fft.rfft(envelope)[: len(smoothing)] * smoothing
        rows.append(np.fft.irfft(slow, ENVELOPE_RATE_HZ * seconds)[:kept] * (ENVELOPE_RATE_HZ / rate))
    return np.maximum(np.stack(rows), 0).astype(np.float32)
