"""What of a difference lies before onsets out of near-silence, where an ear hears it best, and in digital silence.

A residual made in windows of 62 ms spreads to before a sound, and backward masking lasts only some milliseconds: in
frames of 32 ms (`masking.py`) such a pre-echo is averaged with the sound that follows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NEAR_SILENCE_DBFS = -60.0
"""RMS below which the host is near-silent: 45 dB SPL for a listener who plays a sine at full scale at 102 dB SPL, about
the noise of a quiet room, which masks little."""

ONSET_DBFS = -40.0
"""RMS that the host must reach after near-silence: 65 dB SPL, as loud as a conversation. The mark of what is fainter,
28 dB or more below it, is near-silent too."""

MIN_RISE_DB = 30.0
"""dB from near-silence to what follows: with less, a mark 28 dB or more below that lies under the host's own noise."""

SILENCE_MS, RISE_MS, RESIDUAL_MS = 30, 20, 20
"""Milliseconds of near-silence before an onset: half an STFT window, as far as a residual spreads; after it, within
which the host must be loud; and before it, in which the difference is measured."""

WINDOW_MS = 5
"""Milliseconds over which levels are taken: about as far as backward masking reaches."""

MIN_DIGITAL_SILENCE_MS = 1
"""Milliseconds of exact zeros from which on they are digital silence, and not a sound on its way through zero."""


@dataclass(frozen=True)
class Onsets:
    """What lies before the onsets of a host.

    Attributes:
        count: onsets out of near-silence.
        level: highest RMS of the difference just before any of them, in dBFS (full scale 1); −inf where nothing
            differs, NaN without onsets.
        seconds: centre of the window of that level; NaN without onsets.
        silence_changed: whether the copy differs in a sample of digital silence, in any channel.
    """

    count: int
    level: float
    seconds: float
    silence_changed: bool


def onsets(host: NDArray[np.floating], marked: NDArray[np.floating], rate: int) -> Onsets:
    """Measure `marked - host` where the host is about to start.

    An onset is the millisecond in which the host rises over NEAR_SILENCE_DBFS after SILENCE_MS below it, if within
    RISE_MS it reaches ONSET_DBFS and is MIN_RISE_DB over what was before. The loudest channel counts, of host and of
    difference: in near-silence all channels are near-silent.

    Args:
        host: (n,) or (n, channels) at `rate` Hz, 1 kHz or more, full scale 1.
        marked: the same with a mark, or any other change, in it.
        rate: in Hz.
    """
    if host.ndim == 1:
        host, marked = host[:, None], marked[:, None]
    difference = marked.astype(np.float64) - host
    silence_changed = any(_is_silence_changed(*pair, rate) for pair in zip(host.T, difference.T, strict=True))
    bounds = np.arange(len(host) * 1000 // rate + 1) * rate // 1000
    power, noise = (_power_by_millisecond(samples, bounds) for samples in (host, difference))
    found = _find_onsets(power)
    if not len(found):
        return Onsets(0, float("nan"), float("nan"), silence_changed)
    levels = _window_means(noise, WINDOW_MS).max(1)
    windows = found[:, None] - RESIDUAL_MS + np.arange(RESIDUAL_MS - WINDOW_MS + 1)
    loudest = int(windows.flat[levels[windows].argmax()])
    centre = (loudest + WINDOW_MS / 2) / 1000
    return Onsets(len(found), float(_decibels(levels[loudest])), centre, silence_changed)


def _find_onsets(power: NDArray[np.float64]) -> NDArray[np.int64]:
    """(milliseconds, channels) mean squares → milliseconds in which an onset begins."""
    if len(power) < SILENCE_MS + RISE_MS:
        power = np.pad(power, ((0, SILENCE_MS + RISE_MS - len(power)), (0, 0)))
    quiet = (power < 10 ** (NEAR_SILENCE_DBFS / 10)).all(1)
    starts = np.flatnonzero(~quiet)
    starts = starts[np.diff(starts, prepend=-1) > SILENCE_MS]  # nothing but near-silence in between
    after = _window_means(np.pad(power, ((0, RISE_MS), (0, 0))), WINDOW_MS).max(1)
    loudest = np.lib.stride_tricks.sliding_window_view(after, RISE_MS - WINDOW_MS + 1).max(1)[starts]
    before = _window_means(power, SILENCE_MS).max(1)[starts - SILENCE_MS]
    loud = loudest >= 10 ** (ONSET_DBFS / 10)
    return np.asarray(starts[loud & (loudest >= before * 10 ** (MIN_RISE_DB / 10))])


def _power_by_millisecond(samples: NDArray[np.floating], bounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n, channels) → (milliseconds, channels) mean squares between bounds; an incomplete millisecond is left out."""
    if len(bounds) < 2:
        return np.zeros((0, samples.shape[1]))
    squares = np.square(samples[: bounds[-1]], dtype=np.float64)
    return np.asarray(np.add.reduceat(squares, bounds[:-1], 0) / np.diff(bounds)[:, None])


def _window_means(power: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """(milliseconds, channels) → (milliseconds − length + 1, channels), means of the `length` from each on."""
    return np.asarray(np.lib.stride_tricks.sliding_window_view(power, length, 0).mean(-1))


def _is_silence_changed(host: NDArray[np.floating], difference: NDArray[np.floating], rate: int) -> bool:
    """Whether `(n,)` samples differ in MIN_DIGITAL_SILENCE_MS or more of exact zeros."""
    silent = host == 0
    edges = np.flatnonzero(np.diff(silent, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    changed = np.flatnonzero(silent & (difference != 0))
    runs = np.searchsorted(starts, changed, "right") - 1
    return bool((ends[runs] - starts[runs] >= MIN_DIGITAL_SILENCE_MS * rate / 1000).any())


def _decibels(power: np.float64) -> np.float64:
    with np.errstate(divide="ignore"):
        return np.float64(10 * np.log10(power))
