"""The masking curve of a spectrum, after Johnston: what is softer than that beside it is not heard.

Energies in bands of half a Bark spread to the bands around; so far below that as a noise-like or a tone-like masker
asks for, nothing is heard. Written for arrays of numpy and of torch alike: the measure and the network share it.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE

PER_BARK = 2
"""Bands in a Bark."""

TONE = 60.0
"""dB of the arithmetic over the geometric mean of a spectrum that is all tones."""

EMPTY = 1e-6
"""Share of the mean power below which a bin is empty, and says nothing about tone or noise."""

LEAST = 1e-6
"""A power that is nothing, whether 1 is audio of level 1 or what is just heard. (ONNX takes 1e-12 for 0.)"""


@dataclass(frozen=True)
class Bands:
    """Bands of a spectrum, as arrays of one kind; `hertz` and `bark`, (bands,) each, are where their middles are."""

    inside: Any
    """(bands, bins) of zeros and ones; every bin is in one band."""
    hertz: Any
    bark: Any
    spreading: Any
    """(bands, bands): how much of the energy of the second masks in the first; of even energies as much as they are."""

    @classmethod
    @cache
    def of(cls, window: int, bins: int) -> "Bands":
        """The bands of the first `bins` of a spectrum of `window` samples at 16 kHz, in numpy."""
        hertz = np.arange(bins) * SAMPLE_RATE / window
        number = np.floor(_bark(hertz) * PER_BARK)
        inside = np.array([number == band for band in np.unique(number)], float)
        middles = inside @ hertz / inside.sum(1)
        bark = _bark(middles)
        apart = bark[:, None] - bark + 0.474
        spread = 10 ** ((15.81 + 7.5 * apart - 17.5 * np.sqrt(1 + np.square(apart))) / 10)
        parts = inside, middles, bark, spread / spread.sum(1, keepdims=True)
        return cls(*(part.astype(np.float32) for part in parts))

    def each(self, convert: Callable[[Any], Any]) -> "Bands":
        """The same with other arrays."""
        return Bands(*(convert(getattr(self, part.name)) for part in fields(self)))


def curve(power: Any, bands: Bands, log10: Callable[[Any], Any]) -> Any:
    """(…, bins) powers → (…, bands): the energy in each band below which nothing is heard."""
    # Bins that are empty are left out: noise up to 4 kHz is as noise-like as noise up to 8.
    full = power / (power + EMPTY * power.mean(-1)[..., None] + LEAST)
    count = full.sum(-1) + LEAST
    flatness = 10 * log10((full * power).sum(-1) / count + LEAST) - (full * 10 * log10(power + LEAST)).sum(-1) / count
    tonal = (flatness / TONE).clip(0, 1)[..., None]
    offset = tonal * (14.5 + bands.bark) + (1 - tonal) * 5.5
    return power @ bands.inside.T @ bands.spreading.T * 10 ** (offset / -10)


def _bark(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    return 13 * np.arctan(0.00076 * hertz) + 3.5 * np.arctan(np.square(hertz / 7500))
