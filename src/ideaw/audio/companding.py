"""A-law and µ-law: the 256 values that a sample can have, close to zero near each other and far apart where it is loud.

libsndfile rounds floats on their way to these laws to fewer bits first, so that near zero a value does not even come
back as itself. What is a value of the law already, given as 16-bit PCM, does.
"""

import io
from functools import cache

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

COMPANDED_SUBTYPES = ("ALAW", "ULAW")
"""libsndfile's names of the two laws."""

_PCM_SCALE = 1 << 15


@cache
def companded_values(subtype: str) -> NDArray[np.float64]:
    """The values of a law in ascending order, full scale 1: `(256,)`, or one fewer where zero has two codes."""
    codes = io.BytesIO(bytes(range(256)))
    values, _ = sf.read(codes, format="RAW", subtype=subtype, samplerate=8_000, channels=1, dtype="float64")
    return np.unique(values)


def nearest_values(samples: NDArray[np.floating], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each sample the nearest of some ascending values."""
    return np.asarray(values[np.searchsorted((values[1:] + values[:-1]) / 2, samples)])


def as_companded_pcm(samples: NDArray[np.floating], subtype: str) -> NDArray[np.int16]:
    """Samples as 16-bit PCM that libsndfile writes as the nearest values of a law."""
    return np.ascontiguousarray(np.rint(nearest_values(samples, companded_values(subtype)) * _PCM_SCALE), np.int16)


def on_companded_values(
    audio: NDArray[np.floating], residual: NDArray[np.floating], values: NDArray[np.float64], block_samples: int
) -> NDArray[np.float64]:
    """A residual that leads from values to values, in no block with more energy than it was meant to have.

    Where the values are far apart, a rounded residual is nothing here and a whole step there, which would be louder
    than the residual itself. So of the steps those stay that are worth most: the ones that are rounded least.

    Args:
        audio: (n, channels) of samples that have these values.
        residual: (n, channels) to be added to it.
        values: ascending, full scale 1.
        block_samples: samples over which energies are compared.
    """
    steps = nearest_values(audio + residual, values) - audio
    for start in range(0, len(steps), block_samples):
        block, meant = steps[start : start + block_samples], residual[start : start + block_samples]
        costs = np.square(block)
        worth = np.divide(np.abs(meant), np.abs(block), out=np.zeros_like(block), where=block != 0)
        order = np.argsort(-worth, 0, kind="stable")
        spent = np.cumsum(np.take_along_axis(costs, order, 0), 0)
        kept = np.zeros(block.shape, bool)
        np.put_along_axis(kept, order, spent <= np.square(meant).sum(0), 0)
        block[~kept] = 0
    return steps
