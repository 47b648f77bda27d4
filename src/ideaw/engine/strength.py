"""How strong a mark is, by construction: every second keeps its SNR, and the gain has no steps.

The gain of second k reaches its own limit in the middle of the second and the smaller of two limits
at the border between them, and is linear in between. So it exceeds the limit of no second.
"""

import numpy as np
from numpy.typing import NDArray

ROUNDS = 10
"""How often a second that rounding made too strong is tried more quietly, before it is left unmarked."""

SPARE = 0.998
"""How much lower than needed a second try is, since fewer steps round down than the gain promises."""

ROUNDING = 1e-4
"""dB that marks are fainter than asked where floats are rounded, so that single precision breaks no promise."""


def fit(
    residual: NDArray[np.floating], audio: NDArray[np.floating], snr: float, second: int, most: float = np.inf
) -> NDArray[np.float64]:
    """`(n,)` residual at `snr` dB or more below `(n,)` audio in every second of `second` samples; silence gets nothing.

    `most` is the largest gain: 1 only ever weakens.
    """
    limits = np.minimum(_limits(residual, audio, snr, second), most)
    return residual * _curve(limits, second, len(audio))


def fit_to_grid(
    residual: NDArray[np.floating], audio: NDArray[np.floating], snr: float, second: int, step: float
) -> NDArray[np.float64]:
    """`(n,)` residual, weakened where it must be to keep `snr` dB, in whole multiples of `step` (0: any value).

    Rounding to integer PCM makes a residual of about one step stronger; quiet seconds are held to their SNR too.
    """
    if not step:
        return fit(residual, audio, snr + ROUNDING, second, most=1)
    fitted = fit(residual, audio, snr, second, most=1)
    gains = np.ones(-(-len(audio) // second))
    for attempt in range(ROUNDS + 1):
        rounded = np.rint(fitted * _curve(gains, second, len(audio)) / step) * step
        missing = _limits(rounded, audio, snr, second)
        loud = (missing < 1) & (_energy(rounded, second) > 0)
        if not loud.any():
            break
        gains[loud] *= SPARE * missing[loud] if attempt < ROUNDS - 1 else 0
    return rounded


def _limits(
    residual: NDArray[np.floating], audio: NDArray[np.floating], snr: float, second: int
) -> NDArray[np.float64]:
    """The gain `(seconds,)` that brings each second's residual to `snr` dB; 0 in silence, ∞ where there is none."""
    allowed = np.sqrt(_energy(audio, second)) * 10 ** (-snr / 20)
    present = np.sqrt(_energy(residual, second))
    return np.divide(allowed, present, out=np.where(allowed > 0, np.inf, 0.0), where=present > 0)


def _energy(samples: NDArray[np.floating], second: int) -> NDArray[np.float64]:
    """The energy `(seconds,)` of each second; the last may be shorter."""
    return np.add.reduceat(np.square(samples, dtype=np.float64), np.arange(0, len(samples), second))


def _curve(limits: NDArray[np.float64], second: int, length: int) -> NDArray[np.float64]:
    """The gain at each of `length` samples."""
    free = np.isinf(limits)
    finite = np.where(free, np.max(limits, initial=0.0, where=~free), limits)
    middles = (np.arange(len(limits)) + 0.5) * second - 0.5
    borders = np.arange(1, len(limits)) * second - 0.5
    places = np.concatenate([middles, borders])
    gains = np.concatenate([finite, np.minimum(finite[:-1], finite[1:])])
    order = np.argsort(places)
    return np.interp(np.arange(length), places[order], gains[order])
