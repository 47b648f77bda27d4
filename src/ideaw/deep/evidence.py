"""From loudness to evidence: what the sign of every tile would be multiplied with. No key is known here.

Log energies of bands are whitened by modulation frequency and quefrency with the spectrum that speech has there,
clipped, weighted by how loud they are, and matched to the shape of a tile; fast and fine patterns count less, because
codecs pass less of them. A small network (`refining.py`) then weighs it by what is around it.
"""

from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from ideaw.deep.bands import CELLS_PER_SECOND, NUM_MEL_BANDS, loud_share
from ideaw.deep.refining import refine
from ideaw.deep.signs import TILE_CELLS

SILENT_DB, ABSENT_DB = 25.0, 50.0
"""dB below a band's mean that is silence in it, and below the loudest band's mean where there is no band at all."""

CLIP_SIGMAS = 2.0
"""Standard deviations at which a whitened value is clipped, so that no moment decides alone."""

MAX_SIGMAS = 3.0
"""The same of what is shown to the network that refines evidence."""

LEAST_DEVIATION = 0.3
"""Share of the median band's standard deviation below which a band's is not taken to be."""

DECAY_HZ, DECAY_QUEFRENCIES = 12.0, 12.0
"""Weights fall by a factor of e for so many Hz of modulation, and for so many quefrencies."""

LOWEST_MODULATION_HZ = 0.3
"""Slower modulation is the audio's own course, and is left out."""

SPEECH_SPECTRUM_FILE = "speech_spectrum.npy"
"""(65, NUM_MEL_BANDS) mean power of speech's log energies by modulation frequency, 0 to 50 Hz, and quefrency; made by
`benchmarks/deep_spectrum.py`."""

TINY_POWER = 1e-20
"""Least power that is divided by, or of which a logarithm is taken."""


def log_energies(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """(frames, NUM_MEL_BANDS) powers → dB, with silence raised to a floor."""
    mean = power.mean(0)
    floor = np.maximum(mean * 10 ** (-SILENT_DB / 10), mean.max() * 10 ** (-ABSENT_DB / 10))
    return np.asarray(10 * np.log10(power + floor + TINY_POWER), np.float32)


def evidence(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """(frames, NUM_MEL_BANDS) powers → evidence for the sign of a tile that is centred on each frame."""
    white, share = whitened(power)
    linear = match(white, share)
    return refine(white, share, linear / (linear.std() + np.finfo(np.float32).tiny))


def linear_evidence(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same without refining: a fraction of the work, for screening."""
    return match(*whitened(power))


def whitened(power: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(frames, NUM_MEL_BANDS) powers → whitened log energies, clipped; and how loud the tile around each frame is."""
    energies = log_energies(power)
    whitening, _ = _filters(_padded_length(energies))
    white = _filter_quefrencies(energies - energies.mean(0), whitening)
    deviation = white.std(0)
    white /= np.maximum(deviation, LEAST_DEVIATION * np.median(deviation)) + np.finfo(np.float32).tiny
    return np.clip(white, -MAX_SIGMAS, MAX_SIGMAS), loud_share(_over_a_tile(power), power.mean(0))


def match(white: NDArray[np.float32], share: NDArray[np.float32]) -> NDArray[np.float32]:
    """Whitened log energies and loudness, (frames, NUM_MEL_BANDS) each, matched to the shape of a tile."""
    _, matched = _filters(_padded_length(white))
    return _filter_quefrencies(np.clip(white, -CLIP_SIGMAS, CLIP_SIGMAS) * share, matched)


def modulation_spectrum(energies: NDArray[np.floating]) -> NDArray[np.float64]:
    """(65, NUM_MEL_BANDS) mean power of log energies (frames, NUM_MEL_BANDS), by modulation frequency and quefrency."""
    window = np.hanning(128)[:, None]
    quefrencies = (energies - energies.mean(0)) @ _cosines().T
    starts = range(0, len(quefrencies) - 127, 64)
    spectra = [np.fft.rfft(quefrencies[start : start + 128] * window, axis=0) for start in starts]
    return np.asarray(np.mean(np.square(np.abs(spectra)), 0) / np.square(window).sum())


def _filter_quefrencies(values: NDArray[np.float32], response: NDArray[np.float32]) -> NDArray[np.float32]:
    """(frames, NUM_MEL_BANDS) with every quefrency filtered by a column of `response` (frequencies, NUM_MEL_BANDS)."""
    cosines, length = _cosines(), _padded_length(values)
    spectrum = np.fft.rfft(values @ cosines.T, length, axis=0) * response
    return np.asarray(np.fft.irfft(spectrum, length, axis=0)[: len(values)] @ cosines, np.float32)


def _padded_length(values: NDArray[np.float32]) -> int:
    """Frames of a transform: what is filtered rings for less than 0.4 s."""
    return -(-(len(values) + 2 * CELLS_PER_SECOND // 5) // 64) * 64


def _over_a_tile(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """(frames, bands) means over TILE_CELLS frames around each."""
    half = TILE_CELLS // 2
    padded = np.pad(power, ((half, half), (0, 0)), "edge")
    return np.asarray(sum(padded[start : start + len(power)] for start in range(TILE_CELLS)) / np.float32(TILE_CELLS))


@cache
def _filters(length: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(length // 2 + 1, NUM_MEL_BANDS) each: what whitens, and the matched filter of a whitened tile."""
    with files("ideaw.deep").joinpath(SPEECH_SPECTRUM_FILE).open("rb") as file:
        table = np.load(file)
    hertz, grid = np.fft.rfftfreq(length, 1 / CELLS_PER_SECOND), np.linspace(0, CELLS_PER_SECOND / 2, len(table))
    speech = np.exp(np.stack([np.interp(hertz, grid, np.log(column)) for column in table.T], 1))
    whitening = np.where(hertz[:, None] < LOWEST_MODULATION_HZ, 0, 1 / np.sqrt(speech))
    pulse = np.sinc(hertz * TILE_CELLS / CELLS_PER_SECOND) * np.exp(-hertz / DECAY_HZ)
    fineness = np.exp(-np.arange(NUM_MEL_BANDS) / DECAY_QUEFRENCIES)
    return whitening.astype(np.float32), (pulse[:, None] * fineness * whitening).astype(np.float32)


@cache
def _cosines() -> NDArray[np.float32]:
    """(NUM_MEL_BANDS, NUM_MEL_BANDS) orthonormal DCT-II: quefrencies from bands."""
    places = np.arange(NUM_MEL_BANDS)
    rows = np.cos(np.pi * places[:, None] * (places + 0.5) / NUM_MEL_BANDS) * np.sqrt(2 / NUM_MEL_BANDS)
    rows[0] /= np.sqrt(2)
    return np.asarray(rows, np.float32)
