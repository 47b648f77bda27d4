"""Objective quality of marked audio against its host: SNR, PESQ, STOI, ViSQOL.

PESQ, STOI and ViSQOL come from their own packages, in the extra `bench`; without it they raise `MissingExtraError`.
"""

from functools import cache
from typing import Any

import numpy as np

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.errors import MissingExtraError


def snr(host: np.ndarray, marked: np.ndarray) -> float:
    """Signal-to-noise ratio in dB over everything, (n,) or (n, channels); infinite for equal arrays."""
    noise = float(np.square(marked.astype(np.float64) - host).sum())
    return float("inf") if noise == 0 else 10 * float(np.log10(np.square(host, dtype=np.float64).sum() / noise))


def align(before: np.ndarray, after: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Both `(n,)` where they overlap once `after` is moved by the delay, of `most` samples, at which they correlate
    best, whatever its polarity."""
    size = len(before) + len(after)
    spectrum = np.fft.rfft(after, size) * np.conj(np.fft.rfft(before, size))
    correlation = np.fft.irfft(spectrum, size)
    delays = np.arange(-most, most + 1)
    delay = int(delays[np.argmax(abs(correlation[delays]))])
    length = min(len(before), len(after)) - abs(delay)
    return before[max(0, -delay) :][:length], after[max(0, delay) :][:length]


def si_snr(host: np.ndarray, marked: np.ndarray) -> float:
    """Scale-invariant SNR in dB, (n,): the projection of the marked audio on its host over the rest."""
    reference, estimate = (x.astype(np.float64) - x.mean(dtype=np.float64) for x in (host, marked))
    target = reference * (estimate @ reference / max(float(reference @ reference), 1e-20))
    return snr(target, estimate)


def lowest_snr(host: np.ndarray, marked: np.ndarray, rate: int) -> float:
    """The lowest SNR in dB of any whole second that is not silent."""
    seconds = len(host) // rate
    with np.errstate(divide="ignore"):
        values = [snr(host[k * rate : (k + 1) * rate], marked[k * rate : (k + 1) * rate]) for k in range(seconds)]
    return min((value for value in values if value > -np.inf), default=float("inf"))


def pesq(host: np.ndarray, marked: np.ndarray) -> float:
    """Wide-band PESQ (MOS-LQO, 1 to 4.64) of 16 kHz mono audio, (n,); NaN where it detects no speech."""
    try:
        from pesq import NoUtterancesError
        from pesq import pesq as measure
    except ImportError:
        raise MissingExtraError('PESQ is not installed; install it with: pip install "ideaw[bench]"') from None
    try:
        return float(measure(SAMPLE_RATE, host, marked, "wb"))
    except NoUtterancesError:
        return float("nan")


def stoi(host: np.ndarray, marked: np.ndarray) -> float:
    """Short-time objective intelligibility (0 to 1) of 16 kHz mono audio, (n,)."""
    try:
        from pystoi import stoi as measure
    except ImportError:
        raise MissingExtraError('STOI is not installed; install it with: pip install "ideaw[bench]"') from None
    return float(measure(host, marked, SAMPLE_RATE))


@cache
def _visqol() -> Any:
    """The ViSQOL model, which takes seconds to load."""
    try:
        from visqol import VisqolApi
    except ImportError:
        raise MissingExtraError('ViSQOL is not installed; install it with: pip install "ideaw[bench]"') from None
    measure = VisqolApi()
    measure.create("speech", use_lattice_model=False)
    return measure


def visqol(host: np.ndarray, marked: np.ndarray) -> float:
    """ViSQOL in its speech mode (MOS-LQO, 1 to 5) of 16 kHz mono audio, (n,)."""
    return float(_visqol().measure_from_arrays(host.astype(np.float64), marked.astype(np.float64), SAMPLE_RATE).moslqo)
