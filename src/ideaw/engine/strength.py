"""How strong a mark is, by construction: every second keeps its SNR, and the gain has no steps.

Each second has a limit, which depends on nothing but itself. The gain reaches it in the middle of the second, and the
smaller of two limits at the border between them, and is linear in between: it exceeds the limit of no second. A weaker
residual never rounds to a stronger one, so a limit that was found with rounding holds under any gain below it.
"""

import numpy as np
from numpy.typing import NDArray

ROUNDS = 10
"""How often a second that rounding made too strong is tried more quietly, before it is left unmarked."""

SPARE = 0.998
"""How much lower than needed a second try is, since fewer steps round down than the gain promises."""

ROUNDING = 1e-4
"""dB that marks are fainter than asked where floats are rounded, so that single precision breaks no promise."""


def fit_to_grid(
    residual: NDArray[np.floating], audio: NDArray[np.floating], snr: float, second: int, step: float
) -> NDArray[np.floating]:
    """`(n, …)` residual, weakened where it must be to keep `snr` dB in every second of `second` samples.

    The result is in whole multiples of `step` (0: any value).
    """
    curve = Curve(second)
    gains = []
    for start in range(0, len(audio), second):
        part = slice(start, start + second)
        gains.append(curve.push(limit_on_grid(residual[part], audio[part], snr, step, np.float64(1))))
    return on_grid(residual * np.concatenate([*gains, curve.finish()])[: len(audio)], step)


class Curve:
    """The gain of a mark, from limits `(…)` that come second by second; each settles it up to the middle of its second.

    Before the first middle and after the last the gain stays as it is there.
    """

    def __init__(self, second: int) -> None:
        moments = (np.arange(second) + 0.5) / second
        half = second // 2
        self._rise, self._fall = 2 * moments[:half], 2 - 2 * moments[half:]
        self._last: NDArray[np.float64] | None = None

    def push(self, limits: NDArray[np.float64]) -> NDArray[np.float64]:
        """The limits of the next second → the gain `(n, …)` from the middle before to its own."""
        if self._last is None:
            gains = _line(limits, limits, self._rise)
        else:
            border = np.minimum(self._last, limits)
            gains = np.concatenate([_line(border, self._last, self._fall), _line(border, limits, self._rise)])
        self._last = limits
        return gains

    def finish(self) -> NDArray[np.float64]:
        """The gain from the last middle to the end of its second."""
        assert self._last is not None
        return _line(self._last, self._last, self._fall)


def limit(residual: NDArray[np.floating], audio: NDArray[np.floating], snr: float) -> NDArray[np.float64]:
    """The gain `(…)` that brings a second `(n, …)` of residual to `snr` dB below the audio.

    It is 0 where either is silent: nothing needs a gain there, and the seconds beside it fade towards it.
    """
    allowed, present = _allowed(audio, snr), energy(residual)
    return np.sqrt(np.divide(allowed, present, out=np.zeros_like(present), where=present > 0))


def limit_on_grid(
    residual: NDArray[np.floating],
    audio: NDArray[np.floating],
    snr: float,
    step: float,
    most: NDArray[np.float64] | np.float64,
) -> NDArray[np.float64]:
    """The gain `(…)`, at most `most`, with which a second `(n, …)` of residual keeps `snr` dB in multiples of `step`.

    Rounding to integer PCM makes a residual of about one step stronger; quiet seconds are held to their SNR too.
    """
    if not step:
        return np.minimum(limit(residual, audio, snr + ROUNDING), most)
    gains, allowed = np.minimum(limit(residual, audio, snr), most), _allowed(audio, snr)
    for attempt in range(ROUNDS):
        present = energy(on_grid(residual * gains, step))
        loud = present > allowed
        if not loud.any():
            break
        weaker = SPARE * np.sqrt(allowed / np.where(loud, present, 1)) if attempt < ROUNDS - 1 else 0
        gains = np.where(loud, gains * weaker, gains)
    return gains


def on_grid(residual: NDArray[np.floating], step: float) -> NDArray[np.floating]:
    """The residual in whole multiples of `step`; as it is for 0."""
    return np.rint(residual / step) * step if step else residual


def energy(samples: NDArray[np.floating]) -> NDArray[np.float64]:
    """The energy `(…)` of `(n, …)` samples."""
    return np.square(samples.T, dtype=np.float64, order="C").sum(-1)  # ten times as fast along rows as along columns


def _allowed(audio: NDArray[np.floating], snr: float) -> NDArray[np.float64]:
    """The energy `(…)` that a residual may have."""
    return energy(audio) * 10 ** (-snr / 10)


def _line(start: NDArray[np.float64], end: NDArray[np.float64], way: NDArray[np.float64]) -> NDArray[np.float64]:
    """`(n, …)` values between two `(…)`, at each of `(n,)` shares of the way."""
    return start + np.multiply.outer(way, end - start)
