"""Fingerprints of audio, made as it arrives; `fingerprint.py` compares them.

After Haitsma and Kalker: a bit for each pair of neighbouring bands says whether their difference of energy rises or
falls. Codecs, noise, level and resampling change few of these bits, and other recordings half of them. A second bit
says whether the first one is loud enough to be relied on: noise changes those that are not.
"""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio.blocks import Resampler, SampleBuffer, mix, split_blocks
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.samples import as_float, check_finite
from ideaw.errors import AudioError, RegistryError

FINGERPRINT_FORMAT = 1
"""First byte of a fingerprint; from format 1 on, later versions compare those of earlier ones."""

PRINT_WINDOW_SAMPLES, PRINT_HOP_SAMPLES = 4_096, 512
"""Samples at 16 kHz of a frame, and between two of them: 256 ms, and 32 ms."""

PRINTS_PER_SECOND = SAMPLE_RATE / PRINT_HOP_SAMPLES
"""Frames in a second."""

PRINT_BITS = 32
"""Pairs of neighbouring bands."""

PRINT_LOWEST_HZ, PRINT_HIGHEST_HZ = 150.0, 3_000.0
"""Range of the bands, which are evenly spaced in octaves."""

RISE_FRAMES = 2
"""Frames over which energy rises or falls."""

MIDDLE_SECONDS = (PRINT_WINDOW_SAMPLES + RISE_FRAMES * PRINT_HOP_SAMPLES) / 2 / SAMPLE_RATE
"""From where a frame begins to the middle of what it looks at."""

RELIABLE_DB = -20.0
"""Density of power, over the mean of its surroundings, from which on a band is loud enough."""

SURROUNDING_FRAMES = 62
"""Frames on each side of one that are its surroundings: 2 s."""

QUIET_DB = -30.0
"""Density of the surroundings, over the mean of the recording, below which no band is loud enough."""

SILENT_DENSITY = 1e-12
"""Density of white noise at −80 dB of full scale, below which none is either."""

BATCH_FRAMES = 64
"""Frames that are measured at once: always the same ones, however the audio arrives."""


class Fingerprinter:
    """A fingerprint of audio that arrives in blocks, in bounded memory but for the fingerprint: 250 bytes a second.

    Args:
        rate: sampling rate in Hz, which may be a fraction: audio that is played 1.05 times as fast has `rate / 1.05`.
        tempo: at which it is played at the same pitch: frames follow each other as those of the original do.

    Raises:
        AudioError: the rate or the tempo is no positive number.
    """

    def __init__(self, rate: float, tempo: float = 1.0) -> None:
        if not 0 < rate < np.inf:
            raise AudioError(f"a rate of {rate} Hz cannot be used; give a positive number")
        if not 0 < tempo < np.inf:
            raise AudioError(f"a tempo of {tempo} cannot be used; give a positive number")
        self._rate, self._length = rate, 0
        self._hop_samples = round(PRINT_HOP_SAMPLES / tempo)
        self._resampler = Resampler(rate, SAMPLE_RATE, 1)
        self._audio = SampleBuffer(start=0)
        self._densities = SampleBuffer(PRINT_BITS + 1)
        self._surroundings: list[NDArray[np.float32]] = []
        self._rows: list[NDArray[np.uint8]] = []
        self._made = 0

    def push(self, samples: ArrayLike) -> None:
        """Feed the next samples, `(n,)` or `(n, channels)` of any type of audio; channels are mixed.

        Raises:
            AudioError: they are no audio.
        """
        for block in split_blocks(as_float(samples), SAMPLE_RATE):
            check_finite(block)
            self._length += len(block)
            self._audio.append(self._resampler.push(mix(block)[:, None])[:, 0])
            self._measure(BATCH_FRAMES)

    def finish(self) -> bytes:
        """End the audio; returns its fingerprint, which is empty but for its head if there was less than 0.3 s."""
        self._audio.append(self._resampler.finish(int(self._length * SAMPLE_RATE / self._rate))[:, 0])
        self._measure(1)
        self._make(self._densities.end)
        if not self._rows:
            return bytes([FINGERPRINT_FORMAT])
        rows, surroundings = np.concatenate(self._rows), np.concatenate(self._surroundings)
        loud = surroundings > max(surroundings.mean(dtype=np.float64) * _ratio(QUIET_DB), SILENT_DENSITY)
        rows[~loud, PRINT_BITS // 8 :] = 0
        return bytes([FINGERPRINT_FORMAT]) + rows.tobytes()

    def _measure(self, least: int) -> None:
        """Measure the bands of the frames that are there, if there are `least` of them."""
        hop = self._hop_samples
        while (count := min((len(self._audio) - PRINT_WINDOW_SAMPLES) // hop + 1, BATCH_FRAMES)) >= least:
            held = self._audio.get(self._audio.start, self._audio.end)
            frames = np.lib.stride_tricks.sliding_window_view(held, PRINT_WINDOW_SAMPLES)[::hop][:count]
            spectra = np.fft.rfft(frames * _window(), axis=1)
            self._densities.append((np.square(np.abs(spectra)) @ _bands()).astype(np.float32))
            self._audio.drop_before(self._audio.start + count * hop)
            self._make(self._densities.end - SURROUNDING_FRAMES)

    def _make(self, stop: int) -> None:
        """Make the bits of the frames before `stop`, whose surroundings are known; a frame looks RISE_FRAMES ahead."""
        first = self._made
        stop = min(stop, self._densities.end - RISE_FRAMES)
        if stop <= first:
            return
        densities = self._densities.get(first, stop + RISE_FRAMES)
        start = max(first - SURROUNDING_FRAMES, 0)
        means = self._densities.get(start, stop + SURROUNDING_FRAMES).mean(1)
        places = np.arange(first, stop + RISE_FRAMES) - start
        sums = [means[max(place - SURROUNDING_FRAMES, 0) : place + SURROUNDING_FRAMES + 1].mean() for place in places]
        surroundings = np.array(sums, np.float32)
        logs = np.log(densities + np.float32(SILENT_DENSITY))
        differences = logs[:, :-1] - logs[:, 1:]
        reliable = densities > surroundings[:, None] * _ratio(RELIABLE_DB)
        either = reliable[:, :-1] | reliable[:, 1:]
        signs = differences[RISE_FRAMES:] > differences[:-RISE_FRAMES]
        masks = either[RISE_FRAMES:] & either[:-RISE_FRAMES]
        self._rows.append(np.concatenate([np.packbits(signs, axis=1), np.packbits(masks, axis=1)], axis=1))
        self._surroundings.append(surroundings[:-RISE_FRAMES])
        self._made = stop
        self._densities.drop_before(stop - SURROUNDING_FRAMES)


def fingerprint(samples: ArrayLike, rate: float) -> bytes:
    """The fingerprint of an array, as `Fingerprinter` makes it.

    Args:
        samples: `(n,)` or `(n, channels)` of any type of audio.
        rate: sampling rate in Hz.

    Raises:
        AudioError: the samples are no audio.
    """
    whole = Fingerprinter(rate)
    whole.push(samples)
    return whole.finish()


def read_prints(content: bytes) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(frames, PRINT_BITS) of -1 and 1, and as many of 1 where they can be relied on and 0 elsewhere.

    Raises:
        RegistryError: this is no fingerprint, or one of a later version.
    """
    row_bytes = 2 * PRINT_BITS // 8
    if not content or (len(content) - 1) % row_bytes:
        raise RegistryError("the record holds no fingerprint of audio")
    if content[0] != FINGERPRINT_FORMAT:
        raise RegistryError(
            f"the fingerprint has format {content[0]}, and this version of ideaw reads 1; upgrade ideaw"
        )
    bits = np.unpackbits(np.frombuffer(content, np.uint8)[1:].reshape(-1, row_bytes), axis=1).astype(np.float32)
    return 2 * bits[:, :PRINT_BITS] - 1, bits[:, PRINT_BITS:]


def _ratio(decibels: float) -> np.float32:
    return np.float32(10 ** (decibels / 10))


@cache
def _window() -> NDArray[np.float32]:
    return np.asarray(np.hanning(PRINT_WINDOW_SAMPLES) / PRINT_WINDOW_SAMPLES, np.float32)


@cache
def _bands() -> NDArray[np.float32]:
    """(bins, PRINT_BITS + 1) weights: the mean over the bins of each band."""
    edges = np.geomspace(PRINT_LOWEST_HZ, PRINT_HIGHEST_HZ, PRINT_BITS + 2)
    hertz = np.fft.rfftfreq(PRINT_WINDOW_SAMPLES, 1 / SAMPLE_RATE)[:, None]
    inside = ((edges[:-1] <= hertz) & (hertz < edges[1:])).astype(np.float32)
    return np.asarray(inside / inside.sum(0))
