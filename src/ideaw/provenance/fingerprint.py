"""Fingerprints that tell whether audio is the recording that an id was given to, or another one.

After Haitsma and Kalker: in each frame, a bit for each pair of neighbouring bands says whether their difference of
energy rises or falls. Codecs, noise, level and resampling change few of these bits; other recordings half of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio.blocks import Resampler, SampleBuffer, mix, split_blocks
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.samples import as_float
from ideaw.errors import RegistryError

FINGERPRINT_FORMAT = 1
"""First byte of a fingerprint; from format 1 on, later versions compare those of earlier ones."""

PRINT_WINDOW_SAMPLES, PRINT_HOP_SAMPLES = 4_096, 512
"""Samples at 16 kHz of a frame, and between two of them: 256 ms, and 32 ms."""

PRINT_BITS = 32
"""Bits of a frame: one less than bands."""

PRINT_LOWEST_HZ, PRINT_HIGHEST_HZ = 250.0, 4_000.0
"""Range of the bands, which telephones keep."""

PRINTS_PER_SECOND = SAMPLE_RATE / PRINT_HOP_SAMPLES
"""Frames in a second."""

COMPARED_SECONDS = 3.0
"""Length of the pieces that are compared, one beginning every `COMPARED_STEP_SECONDS`."""

COMPARED_STEP_SECONDS = 0.5

MIN_AGREEMENT = 0.65
"""Share of bits that agree, from which on two pieces are the same recording; of others, one half does."""


LEVEL_FLOOR_DB, AUDIBLE_DB = -120, -70
"""Level in dB of full scale that is written as 0, and below which a frame says nothing."""


@dataclass(frozen=True)
class Agreement:
    """Whether found audio is the recording that a fingerprint was made of."""

    agrees: bool
    """Whether all of it is: every audible piece agrees, but for the borders of a cut."""
    score: float
    """Share of the bits that agree in the piece that agrees best: one half by chance, 1 if nothing was changed."""
    seconds: list[tuple[float, float]]
    """The stretches of the found audio that agree, start and end; if there are some and `agrees` is false, it agrees in
    part; if there are none, it is another recording."""
    compared_seconds: float = 0.0
    """How much of the found audio could be compared; silence says nothing, and 0 is no answer at all."""


class Fingerprinter:
    """A fingerprint of audio that arrives in blocks, in bounded memory but for the fingerprint.

    Args:
        rate: sampling rate in Hz, also a fraction: audio that was played 1.05 times as fast is of `rate / 1.05`.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._resampler: Resampler | None = None
        self._length = 0
        self._audio = SampleBuffer()
        self._before: NDArray[np.float32] | None = None
        self._prints = bytearray([FINGERPRINT_FORMAT])

    def push(self, samples: ArrayLike) -> None:
        """Feed the next samples, `(n,)` or `(n, channels)` of any type of audio.

        Raises:
            AudioError: they are no audio.
        """
        for block in split_blocks(as_float(samples), SAMPLE_RATE):
            if self._resampler is None:
                self._resampler = Resampler(self._rate, SAMPLE_RATE, 1)
            self._length += len(block)
            self._measure(self._resampler.push(mix(block)[:, None])[:, 0])

    def finish(self) -> bytes:
        """End the audio; returns its fingerprint."""
        if self._resampler is not None:
            self._measure(self._resampler.finish(int(self._length * SAMPLE_RATE / self._rate))[:, 0])
        return bytes(self._prints)

    def _measure(self, audio: NDArray[np.float32]) -> None:
        self._audio.append(audio)
        held = self._audio.get(self._audio.start, self._audio.end)
        if len(held) < PRINT_WINDOW_SAMPLES:
            return
        frames = np.lib.stride_tricks.sliding_window_view(held, PRINT_WINDOW_SAMPLES)[::PRINT_HOP_SAMPLES]
        self._audio.drop_before(self._audio.start + len(frames) * PRINT_HOP_SAMPLES)
        power = np.square(np.abs(np.fft.rfft(frames * _window(), axis=1))) @ _bands()
        difference = np.log(power + 1e-12)
        difference = difference[:, :-1] - difference[:, 1:]
        first = difference[:1] if self._before is None else self._before
        bits = difference > np.concatenate([first, difference[:-1]])
        self._before = difference[-1:]
        level = np.clip(np.rint(10 * np.log10(power.mean(1) + 1e-12)) - LEVEL_FLOOR_DB, 0, 255).astype(np.uint8)
        self._prints += np.concatenate([level[:, None], np.packbits(bits, axis=1)], axis=1).tobytes()


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


def compare(recorded: bytes, found: bytes) -> Agreement:
    """Tell whether found audio is the recording that an id was given to, all of it or a piece from anywhere.

    Args:
        recorded: fingerprint of the recording.
        found: fingerprint of the found audio.

    Raises:
        RegistryError: one of them is no fingerprint, or of a later version.
    """
    bits, audible = _read(found)
    size = min(round(COMPARED_SECONDS * PRINTS_PER_SECOND), len(bits))
    every = range(0, len(bits) - size + 1, round(COMPARED_STEP_SECONDS * PRINTS_PER_SECOND)) if size else range(0)
    starts = [start for start in every if audible[start : start + size].mean() > 0.5]
    if not starts:
        return Agreement(False, 0.0, [])
    scores = _best_scores(_read(recorded), np.stack([bits[start : start + size] for start in starts]))
    agreeing = [start for start, score in zip(starts, scores, strict=True) if score >= MIN_AGREEMENT]
    compared = sum(end - start for start, end in _stretches(starts, size))
    return Agreement(len(agreeing) == len(starts), float(scores.max()), _stretches(agreeing, size), compared)


def _best_scores(
    recorded: tuple[NDArray[np.float32], NDArray[np.bool_]], pieces: NDArray[np.float32]
) -> NDArray[np.float64]:
    """(pieces,) share of the bits of each piece that agree with the recording where it agrees best."""
    bits, audible = recorded
    count, size, _ = pieces.shape
    length = 1 << (4 * size - 1).bit_length()
    valid = length - size + 1
    padded = np.pad(bits * audible[:, None], ((0, valid + size), (0, 0)))
    best = np.full(count, 0.0)
    spectra = np.conj(np.fft.rfft(pieces, length, axis=1)).astype(np.complex64).transpose(1, 2, 0)
    for start in range(0, max(len(bits) - size, 0) + 1, valid):
        heard = np.fft.rfft(padded[start : start + length], length, axis=0).astype(np.complex64)
        sums = np.fft.irfft(np.matmul(heard[:, None, :], spectra)[:, 0], length, axis=0)[:valid]
        best = np.maximum(best, sums[: max(len(bits) - size, 0) + 1 - start].max(0))
    return np.asarray(0.5 + best / (2 * size * PRINT_BITS))


def _stretches(starts: Sequence[int], size: int) -> list[tuple[float, float]]:
    """Pieces of `size` frames, which overlap, as stretches in seconds."""
    edges: list[tuple[float, float]] = []
    for start in starts:
        begin, end = start / PRINTS_PER_SECOND, (start + size) / PRINTS_PER_SECOND
        if edges and begin <= edges[-1][1]:
            edges[-1] = (edges[-1][0], end)
        else:
            edges.append((begin, end))
    return edges


def _read(content: bytes) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """(frames, PRINT_BITS) of -1 and 1, and (frames,) whether each is audible."""
    if not content or content[0] != FINGERPRINT_FORMAT or (len(content) - 1) % (1 + PRINT_BITS // 8):
        raise RegistryError("this is no fingerprint that this version of ideaw reads")
    rows = np.frombuffer(content, np.uint8)[1:].reshape(-1, 1 + PRINT_BITS // 8)
    audible = rows[:, 0].astype(int) + LEVEL_FLOOR_DB > AUDIBLE_DB
    return 2 * np.unpackbits(rows[:, 1:], axis=1).astype(np.float32) - 1, audible


@cache
def _window() -> NDArray[np.float32]:
    return np.asarray(np.hanning(PRINT_WINDOW_SAMPLES) / PRINT_WINDOW_SAMPLES, np.float32)


@cache
def _bands() -> NDArray[np.float32]:
    """(bins, PRINT_BITS + 1) ones where a bin lies in a band; bands are evenly spaced in octaves."""
    edges = np.geomspace(PRINT_LOWEST_HZ, PRINT_HIGHEST_HZ, PRINT_BITS + 2)
    hertz = np.fft.rfftfreq(PRINT_WINDOW_SAMPLES, 1 / SAMPLE_RATE)[:, None]
    return ((edges[:-1] <= hertz) & (hertz < edges[1:])).astype(np.float32)
