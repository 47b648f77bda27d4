"""Simultaneous masking after Johnston (1988): the energy in each half Bark below which nothing is audible.

Band energies are spread over neighbouring bands and lowered by an offset that depends on how tonal the spectrum is.
Written with operators that numpy arrays and torch tensors share: the quality measure and the network use one curve.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE

BANDS_PER_BARK = 2
"""Bands in a Bark."""

TONAL_FLATNESS_DB = 60.0
"""Arithmetic over geometric mean of a power spectrum, in dB, from which on it counts as purely tonal."""

EMPTY_BIN_SHARE = 1e-6
"""Share of the mean power below which a bin is empty, and does not count in the flatness."""

POWER_FLOOR = 1e-6
"""Added to powers before logarithms and divisions. (ONNX Runtime takes 1e-12 for 0.)"""


@dataclass(frozen=True)
class BarkBands:
    """Half-Bark bands of a spectrum, as arrays of numpy or of torch.

    Attributes:
        inside: (bands, bins) of zeros and ones; every bin is in one band.
        hertz: (bands,) centre frequencies.
        bark: (bands,) the same in Bark.
        spreading: (bands, bands) spreading function from the second to the first; rows sum to 1.
    """

    inside: Any
    hertz: Any
    bark: Any
    spreading: Any

    @classmethod
    @cache
    def for_window(cls, window: int, bins: int) -> "BarkBands":
        """The bands of the first `bins` bins of an FFT of `window` samples at 16 kHz, in numpy."""
        hertz = np.arange(bins) * SAMPLE_RATE / window
        index = np.floor(_bark(hertz) * BANDS_PER_BARK)
        inside = np.array([index == band for band in np.unique(index)], float)
        centres = inside @ hertz / inside.sum(1)
        bark = _bark(centres)
        distance = bark[:, None] - bark + 0.474
        spread = 10 ** ((15.81 + 7.5 * distance - 17.5 * np.sqrt(1 + np.square(distance))) / 10)
        parts = inside, centres, bark, spread / spread.sum(1, keepdims=True)
        return cls(*(part.astype(np.float32) for part in parts))

    def map_arrays(self, convert: Callable[[Any], Any]) -> "BarkBands":
        """The same bands with every array converted."""
        return BarkBands(*(convert(getattr(self, part.name)) for part in fields(self)))


def masking_curve(power: Any, bands: BarkBands, log10: Callable[[Any], Any]) -> Any:
    """Energy in each band below which noise is masked.

    Args:
        power: (…, bins) power spectra.
        bands: arrays of the same library as `power`.
        log10: that library's logarithm.

    Returns:
        (…, bands) energies, in the unit of `power`.
    """
    # Empty bins are left out of the flatness: noise up to 4 kHz is as noise-like as noise up to 8.
    occupied = power / (power + EMPTY_BIN_SHARE * power.mean(-1)[..., None] + POWER_FLOOR)
    count = occupied.sum(-1) + POWER_FLOOR
    flatness = (
        10 * log10((occupied * power).sum(-1) / count + POWER_FLOOR)
        - (occupied * 10 * log10(power + POWER_FLOOR)).sum(-1) / count
    )
    tonal = (flatness / TONAL_FLATNESS_DB).clip(0, 1)[..., None]
    offset = tonal * (14.5 + bands.bark) + (1 - tonal) * 5.5
    return power @ bands.inside.T @ bands.spreading.T * 10 ** (offset / -10)


def _bark(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    return 13 * np.arctan(0.00076 * hertz) + 3.5 * np.arctan(np.square(hertz / 7500))
