"""Audio that arrives in blocks: buffered by absolute positions, split, regrouped, mixed, resampled.

Everything that streams (codecs, embedder, search) buffers through `SampleBuffer`, so that results depend on positions
counted from the start of the audio and never on the block lengths in which it happened to arrive. Resampling between a
file's rate and the network's 16 kHz has linear phase and fixed lengths on both ways, so that a residual computed at
16 kHz lies exactly under the samples that it was computed from.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE

Progress: TypeAlias = Callable[[float], None]
"""Callback that receives the completed share of the work, 0 to 1."""

CODEC_BLOCK_SAMPLES = 1 << 16
"""Samples per channel coded at a time: bounds memory, and libsndfile crashes on minutes of Vorbis at once."""

ARRAY_BLOCK_SECONDS = 5
"""Seconds of an array, or of a long block of a stream, that are taken at once."""

SOXR_QUALITY = "HQ"
"""soxr's name of filters with 20 bits of precision."""

RESAMPLE_DELAY_SECONDS = 0.15
"""Most that a streaming conversion to or from 16 kHz lags behind; 0.13 s is the most measured at any rate."""


class Stage(Protocol):
    """What changes audio that arrives in blocks: as many samples come out as go in, of the same type."""

    @property
    def length(self) -> int:
        """Samples per channel that were pushed."""

    @property
    def latency(self) -> float:
        """Seconds from a sample's going in to its coming out, at most."""

    @property
    def marked_seconds(self) -> float:
        """How much of the audio holds a mark."""

    def push(self, block: NDArray[Any]) -> NDArray[Any]:
        """Feed the next samples; returns those that are final."""

    def finish(self) -> NDArray[Any]:
        """End the audio; returns the rest."""

    def check(self) -> None:
        """Raise `AudioError` for what only the end can tell."""


def run_stage(stage: Stage, blocks: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    """All of the audio at once: what a stage makes of its blocks, as it becomes final, to the last."""
    yield from (changed for block in blocks if len(changed := stage.push(block)))
    yield stage.finish()


class SampleBuffer:
    """FIFO of samples, `(n,)` or `(n, channels)` of any dtype, each addressed by its absolute position.

    Appended samples are copied into one growing array (amortised constant cost per sample), so the caller may reuse
    its own. Arrays returned by `get` and `pop` are views that later calls never overwrite.
    """

    def __init__(self, channels: int | None = None, start: int = 0) -> None:
        """Make an empty buffer.

        Args:
            channels: second dimension of the empty array returned before anything was appended; None for `(0,)`.
            start: position of the first sample that will be appended.
        """
        self._array: NDArray[Any] = np.empty((0,) if channels is None else (0, channels), np.float32)
        self._offset = 0
        self._shape_known = channels is not None
        self.start = self.end = start

    def __len__(self) -> int:
        """Number of samples held."""
        return self.end - self.start

    def append(self, samples: NDArray[Any]) -> None:
        """Add samples at `end`.

        Raises:
            ValueError: the channels differ from those of the samples before.
        """
        if self._shape_known and samples.shape[1:] != self._array.shape[1:]:
            raise ValueError(f"samples of shape {samples.shape} do not continue (n, *{self._array.shape[1:]})")
        self._reserve(samples)
        used = self._offset + len(self)
        self._array[used : used + len(samples)] = samples
        self.end += len(samples)

    def get(self, start: int, stop: int) -> NDArray[Any]:
        """Samples at positions `start` to `stop`, clipped to what is held."""
        first, last = (min(max(place, self.start), self.end) - self.start + self._offset for place in (start, stop))
        return self._array[first:last]

    def drop_before(self, position: int) -> None:
        """Forget the samples before `position`; all of them if it is beyond `end`."""
        dropped = min(max(position - self.start, 0), len(self))
        self._offset += dropped
        self.start += dropped

    def pop(self, count: int) -> NDArray[Any]:
        """The next `count` samples, which are dropped; fewer if fewer are held."""
        samples = self.get(self.start, self.start + count)
        self.drop_before(self.start + count)
        return samples

    def pop_blocks(self, size: int) -> Iterator[NDArray[Any]]:
        """As many blocks of exactly `size` samples as are held, each of them dropped."""
        while len(self) >= size:
            yield self.pop(size)

    def _reserve(self, samples: NDArray[Any]) -> None:
        """Make room, in the common dtype, for `samples` behind those that are held.

        What is held moves to a new array, never within the old one, of which callers may have views.
        """
        held = self.get(self.start, self.end)
        dtype = np.result_type(held, samples) if len(held) else samples.dtype
        fits = self._offset + len(held) + len(samples) <= len(self._array)
        if self._shape_known and (not len(samples) or (fits and dtype == self._array.dtype)):
            return
        size = len(held) + max(len(held), len(samples))
        array = np.empty((size, *samples.shape[1:]), dtype)
        if len(held):
            array[: len(held)] = held
        self._array, self._offset, self._shape_known = array, 0, True


def split_blocks(samples: NDArray[Any], length: int) -> Iterator[NDArray[Any]]:
    """`(n,)` or `(n, channels)` as consecutive views of `length` samples; the last may be shorter."""
    return (samples[start : start + length] for start in range(0, len(samples), length))


def regroup(pieces: Iterable[NDArray[Any]], length: int) -> Iterator[NDArray[Any]]:
    """Pieces of any lengths as copied blocks of `length` samples; the last may be shorter.

    Encoders need it: Vorbis codes its first seconds by how much it is given at once, so only equal blocks make
    equal files.
    """
    assert length > 0
    buffer = SampleBuffer()
    for piece in pieces:
        buffer.append(piece)
        yield from buffer.pop_blocks(length)
    if len(buffer):
        yield buffer.pop(length)


def with_progress(
    blocks: Iterable[NDArray[Any]], length: int | None, progress: Progress | None
) -> Iterator[NDArray[Any]]:
    """Yield the same blocks, and report after each has been processed.

    Args:
        blocks: arrays `(n,)` or `(n, channels)`.
        length: samples per channel in all; None where that is unknown, and then nothing is reported.
        progress: receives the share of `length` that is done, never more than 1.
    """
    done = 0
    for block in blocks:
        yield block
        done += len(block)
        if progress and length:
            progress(min(1.0, done / length))


def network_length(length: int, rate: int) -> int:
    """Samples at 16 kHz that cover `length` samples at `rate` Hz."""
    return -(-length * SAMPLE_RATE // rate)


class Resampler:
    """Streaming sampling-rate conversion whose output does not depend on how the input is split."""

    def __init__(self, source: float, target: float, channels: int) -> None:
        """Convert `(n, channels)` from `source` Hz to `target` Hz, either of which may be fractional."""
        self._stream = None if source == target else soxr.ResampleStream(source, target, channels, quality=SOXR_QUALITY)
        self._empty = np.empty((0, channels), np.float32)
        self._num_returned = 0

    def push(self, samples: NDArray[np.floating]) -> NDArray[np.float32]:
        """Feed `(n, channels)` samples; returns those that are final: all but the last RESAMPLE_DELAY_SECONDS."""
        columns = np.ascontiguousarray(samples, np.float32)
        resampled = columns if self._stream is None else self._stream.resample_chunk(columns)
        self._num_returned += len(resampled)
        return resampled

    def finish(self, length: int, samples: NDArray[np.floating] | None = None) -> NDArray[np.float32]:
        """Feed the last samples, if there are any; returns the rest, so that there were `length` samples in all."""
        columns = self._empty if samples is None else np.ascontiguousarray(samples, np.float32)
        tail = columns if self._stream is None else self._stream.resample_chunk(columns, last=True)
        return fit_length(tail, length - self._num_returned)


def resample(samples: NDArray[np.floating], source: float, target: float, length: int) -> NDArray[np.float32]:
    """`(n, channels)` at `source` Hz as `(length, channels)` at `target` Hz, in one piece."""
    return Resampler(source, target, samples.shape[1]).finish(length, samples)


def to_network_mono(samples: NDArray[np.floating], rate: int) -> NDArray[np.float32]:
    """The mix of `(n, channels)` at `rate` Hz as `(network_length(n, rate),)` float32 at 16 kHz."""
    return resample(mix(samples)[:, None], rate, SAMPLE_RATE, network_length(len(samples), rate))[:, 0]


def mix(samples: NDArray[np.floating]) -> NDArray[np.floating]:
    """The mono mix `(n,)` of `(n, channels)`: the mean of the channels."""
    return np.asarray(np.asarray(sum(samples.T)) / samples.shape[1])  # many times as fast as along rows of two or three


def fit_length(columns: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """`(n, channels)`, truncated or zero-padded to `length` samples."""
    missing = length - len(columns)
    return np.pad(columns, ((0, missing), (0, 0))) if missing > 0 else columns[:length]
