"""How strong a mark is, by construction: every second keeps its SNR, and the gain has no steps.

Each second has a limit, which depends on nothing but itself. The gain reaches it in the middle of the second and the
smaller of two limits at the border between them, and is linear in between: it exceeds the limit of no second. A weaker
residual never rounds to a stronger one, so a limit that was found with rounding holds under any gain below it.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.hearing import MAX_AUDIBILITY_DB, MIN_AUDIBILITY_DB
from ideaw.errors import IdeawError

MarkLevel: TypeAlias = tuple[float | None, float | None]
"""How strong a mark is: an SNR in dB, or a noise-to-mask ratio in dB to which hearing sets it; the other is None."""

MIN_SNR_DB, MAX_SNR_DB = 0.0, 100.0
"""SNRs that can be asked for."""

SHORT_SECONDS, MIN_UNREAD_SECONDS = 2.0, 1.0
"""Less audio than the first has little evidence: a mark in it is read back, and made stronger if need be. Less than the
second is refused where even that does not help."""

SHORT_BOOSTS_DB = (0.0, 3.0, 6.0)
"""dB by which the mark of short audio is made stronger, one after the other, until it is read back (E88)."""

OPENING_SECONDS, OPENING_BOOST_DB = 1.0, 3.0
"""The beginning of a live stream that is marked more strongly by so many dB, since the stream may end then (E88)."""

MAX_ATTEMPTS = 10
"""How often the gain of a second that rounding made too strong is lowered, before the second is left unmarked."""

BACKOFF = 0.998
"""Additional factor of such an attempt: the rounded residual weakens less than its gain does."""

FLOAT_HEADROOM_DB = 1e-4
"""dB that marks are fainter than asked where samples are floats, so that single precision breaks no promise."""


def check_snr(snr: float | None, usual: float) -> float:
    """An SNR in dB as a float (None: the `usual` one).

    Raises:
        IdeawError: it is no number, or out of range.
    """
    wanted = usual if snr is None else snr
    if not isinstance(wanted, int | float | np.number) or not MIN_SNR_DB <= wanted <= MAX_SNR_DB:
        raise IdeawError(f"an SNR of {wanted!r} cannot be kept; give {MIN_SNR_DB:g} to {MAX_SNR_DB:g} dB")
    return float(wanted)


def check_level(snr: float | None, audibility: float | None, usual_audibility: float) -> MarkLevel:
    """What was asked for, in floats; the `usual_audibility` where nothing was.

    Args:
        snr: in dB, if it was asked for.
        audibility: noise to mask in dB, if it was asked for.
        usual_audibility: noise to mask in dB.

    Raises:
        IdeawError: one is no number or out of range, or both are given.
    """
    if audibility is not None and snr is not None:
        raise IdeawError("the level of a mark is given by its audibility or by its SNR; give one of them")
    if snr is not None:
        return check_snr(snr, snr), None
    if audibility is None:
        return None, usual_audibility
    if not isinstance(audibility, int | float | np.number) or not MIN_AUDIBILITY_DB <= audibility <= MAX_AUDIBILITY_DB:
        accepted = f"give {MIN_AUDIBILITY_DB:g} to {MAX_AUDIBILITY_DB:g} dB of noise to mask"
        raise IdeawError(f"an audibility of {audibility!r} cannot be kept; {accepted}")
    return None, float(audibility)


def describe_level(snr: float | None, audibility: float | None) -> str:
    """How strong a mark is, in a few words."""
    return f"{audibility:g} dB noise to mask" if snr is None else f"{snr:g} dB SNR"


class GainEnvelope:
    """The gain of a mark, from limits `(…)` that come second by second; each settles it up to the middle of its second.

    Before the first middle and after the last the gain stays as it is there.

    Args:
        second: samples of a second.
    """

    def __init__(self, second: int) -> None:
        moments = (np.arange(second) + 0.5) / second
        half = second // 2
        self._rise, self._fall = 2 * moments[:half], 2 - 2 * moments[half:]
        self._last: NDArray[np.float64] | None = None

    def push(self, limits: NDArray[np.float64], last: bool = False) -> NDArray[np.float64]:
        """(seconds, …) limits → the gain `(n, …)` from the middle before these seconds to the middle of their last.

        If they are the last, it goes on to their end.
        """
        gains = []
        for value in limits:
            if self._last is None:
                gains.append(interpolate(value, value, self._rise))
            else:
                border = np.minimum(self._last, value)
                gains += [interpolate(border, self._last, self._fall), interpolate(border, value, self._rise)]
            self._last = value
        if last:
            assert self._last is not None
            gains.append(interpolate(self._last, self._last, self._fall))
        return np.concatenate(gains)


class SecondBudget:
    """Holds a mark that comes piece by piece to an SNR in every second, counted from the beginning of the audio.

    At the end of each piece the mark's energy since the second began is at most its share of the audio's. Where a piece
    must be weakened, the gain falls within it, and is back to 1 at the end of the next that need not be.

    Args:
        second: samples of a second.
        channels: number of channels.
        snr: in dB.
        step: marks are in whole multiples of this (0: any value).
    """

    def __init__(self, second: int, channels: int, snr: float, step: float) -> None:
        self._second, self._step, self._position = second, step, 0
        self._share = 10 ** (-(snr if step else snr + FLOAT_HEADROOM_DB) / 10)
        self._allowed, self._gain = np.zeros(channels), np.ones(channels)

    def fit(self, residual: NDArray[np.floating], audio: NDArray[np.floating]) -> NDArray[np.floating]:
        """The next (n, channels) of a residual, as strong as the audio under it allows."""
        to_border = -self._position % self._second
        places = range(to_border, len(audio) + 1, self._second)
        parts = zip(np.split(residual, places), np.split(audio, places), strict=True)
        return np.concatenate([self._fit_part(*part) for part in parts])

    def _fit_part(self, residual: NDArray[np.floating], audio: NDArray[np.floating]) -> NDArray[np.floating]:
        """The same of a part of one second."""
        if self._position % self._second == 0:
            self._allowed[:] = 0
        self._position += len(audio)
        self._allowed += self._share * energy(audio)
        moments, end = (np.arange(len(audio)) + 1) / max(len(audio), 1), np.ones_like(self._gain)
        for attempt in range(MAX_ATTEMPTS + 1):
            fitted = on_grid(residual * interpolate(self._gain, end, moments), self._step)
            present = energy(fitted)
            too_strong = present > self._allowed
            if not too_strong.any():
                break
            factor = BACKOFF * np.sqrt(self._allowed / np.where(too_strong, present, 1)) * (attempt < MAX_ATTEMPTS - 1)
            end[too_strong] *= np.square(factor[too_strong])
            if attempt >= MAX_ATTEMPTS // 2:  # the end alone does not help
                self._gain[too_strong] *= factor[too_strong]
        self._allowed -= present
        self._gain = end
        return fitted


def fit_to_grid(
    residual: NDArray[np.floating], audio: NDArray[np.floating], snr: float, second: int, step: float
) -> NDArray[np.floating]:
    """A residual, weakened where it must be to keep its SNR in every second after rounding.

    Args:
        residual: `(n, …)`, what is to be added.
        audio: `(n, …)`, what it is added to.
        snr: in dB.
        second: samples of a second.
        step: the result is in whole multiples of this (0: any value).
    """
    parts = [slice(start, start + second) for start in range(0, len(audio), second)]
    limits = [limit_on_grid(residual[part], audio[part], snr, step, np.float64(1)) for part in parts]
    return on_grid(residual * GainEnvelope(second).push(np.stack(limits), last=True)[: len(audio)], step)


def limit(residual: NDArray[np.floating], audio: NDArray[np.floating], snr: float) -> NDArray[np.float64]:
    """The gain `(…)` that brings a second `(n, …)` of residual to `snr` dB below the audio.

    It is 0 where either is silent: nothing needs a gain there, and the seconds beside it fade towards it.
    """
    allowed, present = _allowed_energy(audio, snr), energy(residual)
    return np.sqrt(np.divide(allowed, present, out=np.zeros_like(present), where=present > 0))


def limit_on_grid(
    residual: NDArray[np.floating],
    audio: NDArray[np.floating],
    snr: float,
    step: float,
    highest: NDArray[np.float64] | np.float64,
) -> NDArray[np.float64]:
    """The gain `(…)`, at most `highest`, with which a second `(n, …)` of residual keeps its SNR in multiples of `step`.

    Rounding to integer PCM makes a residual of about one step stronger; quiet seconds are held to their SNR too.
    """
    if not step:
        return np.minimum(limit(residual, audio, snr + FLOAT_HEADROOM_DB), highest)
    gains, allowed = np.minimum(limit(residual, audio, snr), highest), _allowed_energy(audio, snr)
    for attempt in range(MAX_ATTEMPTS):
        present = energy(on_grid(residual * gains, step))
        too_strong = present > allowed
        if not too_strong.any():
            break
        factor = BACKOFF * np.sqrt(allowed / np.where(too_strong, present, 1)) if attempt < MAX_ATTEMPTS - 1 else 0
        gains = np.where(too_strong, gains * factor, gains)
    return gains


def bound_on_grid(
    residual: NDArray[np.floating],
    audio: NDArray[np.floating],
    snr: float,
    step: float,
    wanted: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Gains `(…)` with which a second `(n, …)` of residual keeps its SNR in multiples of `step`.

    Rounding adds at most half a step to each sample. Where that leaves room for gains up to twice those that are
    `wanted`, it is allowed for instead of tried out.
    """
    if not step:
        return limit_on_grid(residual, audio, snr, step, np.float64(np.inf))
    allowed, present = np.sqrt(_allowed_energy(audio, snr)), np.sqrt(energy(residual))
    room = np.maximum(allowed - step / 2 * np.sqrt(len(residual)), 0)
    bounds = np.divide(room, present, out=np.zeros_like(present), where=present > 0)
    near = bounds < 2 * wanted
    return (
        np.where(near, limit_on_grid(residual, audio, snr, step, np.float64(np.inf)), bounds) if near.any() else bounds
    )


def on_grid(residual: NDArray[np.floating], step: float) -> NDArray[np.floating]:
    """The residual in whole multiples of `step`; as it is for 0."""
    return np.rint(residual / step) * step if step else residual


def energy(samples: NDArray[np.floating]) -> NDArray[np.float64]:
    """The energy `(…)` of `(n, …)` samples."""
    squares = np.square(
        np.moveaxis(samples, 0, -1), dtype=np.float64, order="C"
    )  # ten times as fast along rows as along columns
    return np.asarray(squares.sum(-1))


def interpolate(
    start: NDArray[np.float64], end: NDArray[np.float64], positions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`(n, …)` values between two `(…)`, at `(n,)` relative positions from 0 to 1."""
    return start + np.multiply.outer(positions, end - start)


def _allowed_energy(audio: NDArray[np.floating], snr: float) -> NDArray[np.float64]:
    return energy(audio) * 10 ** (-snr / 10)
