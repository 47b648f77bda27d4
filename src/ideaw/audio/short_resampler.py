"""Sampling-rate conversion that waits for four milliseconds: for live streams, where soxr's blocks would wait for 60.

A windowed sinc, as short as the band between the mark's highest bin and the first frequency that folds onto it allows.
A period of the conversion is a matrix product, so this is for rates with a short period to 16 kHz: all usual ones.
"""

from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import SampleBuffer, fit_length
from ideaw.audio.grid import SAMPLE_RATE

FILTER_SECONDS = 0.0078
"""Length of the filter: with a Kaiser window of 80 dB its transition is 640 Hz wide, from 7.68 to 8.32 kHz."""

KAISER_BETA = 7.86
"""Shape of a Kaiser window with 80 dB of stopband attenuation."""

MIN_PERIOD_SAMPLES = 128
"""Short periods are taken several at a time, up to so many samples of output: a matrix product costs less then."""

MAX_PERIOD_SECONDS = 0.04
"""Longest period that is converted this way: rates that share a divisor of 25 Hz with 16 kHz."""


def has_short_period(rate: int) -> bool:
    """Whether `ShortResampler` converts between this rate and 16 kHz."""
    return gcd(rate, SAMPLE_RATE) * MAX_PERIOD_SECONDS >= 1


class ShortResampler:
    """Conversion of `(n, channels)` from `source` to `target` Hz, of which so much is taken as is asked for.

    Output sample k stands for the moment of input sample k · source / target. Before the first and after the last
    sample of the input there is silence. What `take` gives depends on where it was called up to, never on how the input
    was cut.
    """

    def __init__(self, source: int, target: int, channels: int) -> None:
        self._source, self._target = source, target
        self._reach = 0 if source == target else _reach(source)
        self._input = SampleBuffer(channels)
        self._input.append(np.zeros((self._reach, channels), np.float32))
        self._empty = np.empty((0, channels), np.float32)
        self._taken = 0

    @property
    def delay_seconds(self) -> float:
        """Most that an output waits for, once its own moment is there."""
        return (self._reach + (self._source != self._target)) / self._source

    @property
    def available(self) -> int:
        """Samples of output that are final, from the beginning of the audio."""
        known = self._input.end - 2 * self._reach  # of the input, with all that its outputs reach
        return max(-(-known * self._target // self._source), 0)

    def push(self, samples: NDArray[np.floating]) -> None:
        """Feed the next samples."""
        self._input.append(samples.astype(np.float32, copy=False))

    def take(self, stop: int) -> NDArray[np.float32]:
        """The samples of output from where the last call ended up to before `stop`, which are to be `available`."""
        first, self._taken = self._taken, max(stop, self._taken)
        if self._source == self._target:
            return np.asarray(self._input.pop(self._taken - first))
        if self._taken == first:
            return self._empty
        matrix, step_in, step_out = _period_matrix(self._source, self._target)
        rows = range(first // step_out, -(-self._taken // step_out))
        begin = rows.start * step_in
        held = self._input.get(begin, rows.stop * step_in + 2 * self._reach)
        missing = len(rows) * step_in + 2 * self._reach - len(held)
        columns = np.pad(held, ((0, missing), (0, 0))).T
        windows = np.lib.stride_tricks.sliding_window_view(columns, len(matrix), 1)[:, ::step_in]
        converted = np.matmul(np.ascontiguousarray(windows), matrix).reshape(len(columns), -1).T
        self._input.drop_before(self._taken // step_out * step_in)
        return np.asarray(converted[first - rows.start * step_out :][: self._taken - first])

    def finish(self, length: int) -> NDArray[np.float32]:
        """End the input, and take all that is missing to `length` samples of output."""
        self._input.append(np.zeros((2 * self._reach + 1, self._empty.shape[1]), np.float32))
        taken = self._taken
        return fit_length(self.take(min(length, self.available)), length - taken)


def _reach(source: int) -> int:
    """Samples of input on either side of an output that it depends on."""
    return round(FILTER_SECONDS / 2 * source) + 1


@lru_cache(maxsize=16)
def _period_matrix(source: int, target: int) -> tuple[NDArray[np.float32], int, int]:
    """The (samples of input, samples of output) matrix of some periods, reach included, and how long they are."""
    divisor = gcd(source, target)
    periods = -(-MIN_PERIOD_SAMPLES * divisor // target)
    step_in, step_out = periods * source // divisor, periods * target // divisor
    reach = _reach(source)
    inputs = (np.arange(step_in + 2 * reach) - reach)[:, None] / source
    seconds = inputs - np.arange(step_out) / target
    cutoff = min(source, target)  # twice the highest frequency that both rates have
    inside = np.clip(1 - np.square(2 * seconds / FILTER_SECONDS), 0, None)
    window = np.i0(KAISER_BETA * np.sqrt(inside)) / np.i0(KAISER_BETA) * (inside > 0)
    matrix = cutoff / source * np.sinc(cutoff * seconds) * window
    return (matrix / matrix.sum(0)).astype(np.float32), step_in, step_out
