"""Puts the deep mark on audio that arrives in blocks, in constant memory: gains on mel bands, tile by tile.

Signal path: down to 16 kHz -> spectra -> gains that hearing allows -> what they change -> back to the rate of the audio
-> added to the untouched original. All channels get the same gains, so that no image moves. As everywhere, positions
are counted from the beginning, so the result does not depend on how the audio is cut.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import Resampler, SampleBuffer, network_length
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.samples import as_float, check_length, check_not_silent, restore
from ideaw.deep.bands import (
    CELL_HOP_SAMPLES,
    HALF_WINDOW_SAMPLES,
    NUM_MEL_BANDS,
    analyse,
    powers,
    synthesise,
)
from ideaw.deep.decode import fold
from ideaw.deep.gains import TARGET_DB, bin_gains, tile_course, tile_gains
from ideaw.deep.loudness import EvidenceStream
from ideaw.deep.signs import PERIOD_CELLS, PERIOD_TILES, TILE_CELLS, KeyPattern
from ideaw.deep.words import Word

TILE_SAMPLES = TILE_CELLS * CELL_HOP_SAMPLES
"""Samples of a tile at 16 kHz."""

CONTEXT_TILES = 30
"""Tiles on each side of a block whose loudness decides with it: 1.5 s."""

BLOCK_TILES, STREAM_BLOCK_TILES = 200, 20
"""Tiles that are marked at once: 10 s, and 1 s of streams, which wait less and cost more."""

DEEP_STREAM_LATENCY_SECONDS = 3.0
"""Most that a sample of a stream waits here: a block, its context, a window, and what resampling keeps back."""


PEAK_CEILING, LEAST_PEAK_GAIN = 1.0, 0.25
"""Full scale, which changes that would exceed it are weakened to keep; but not to less than this share, since limited
music is there all the time: what is left over is clipped."""

MOMENT_SAMPLES = 32
"""Samples, 2 ms, in which no change is louder than what is there: spectra spread a change over 60 ms, also into the
silence before an onset."""


@dataclass(frozen=True)
class DeepSettings:
    """Properties of the audio and of its deep mark."""

    rate: int
    """Sampling rate in Hz."""
    channels: int
    step: float
    """Quantisation step of the samples, full scale 1 (0: floats)."""
    block_tiles: int = BLOCK_TILES
    target: float = TARGET_DB
    """dB of added modulation over what is just heard."""


class DeepEmbedder:
    """Marks `(n,)` or `(n, channels)` samples of any PCM type that arrive in blocks.

    Args:
        pattern: the key's.
        word: what to write.
        settings: of the audio.
        first_tile: tile that a period begins at; `choose_start` finds the one that the audio itself speaks for most.
    """

    def __init__(self, pattern: KeyPattern, word: Word, settings: DeepSettings, first_tile: int = 0) -> None:
        self.length = 0
        """Samples per channel that were pushed."""
        rate, channels = settings.rate, settings.channels
        self._settings = settings
        self._signs = np.roll(pattern.modulate(word.symbols(pattern)), first_tile, 0)
        self._down, self._up = Resampler(rate, SAMPLE_RATE, channels), Resampler(SAMPLE_RATE, rate, channels)
        self._audio, self._change = SampleBuffer(channels), SampleBuffer(channels)
        self._audio_16k = SampleBuffer(start=-HALF_WINDOW_SAMPLES)
        self._audio_16k.append(np.zeros((HALF_WINDOW_SAMPLES, channels), np.float32))
        self._overlap = np.zeros((2 * HALF_WINDOW_SAMPLES - CELL_HOP_SAMPLES, channels), np.float32)
        self._tiles, self._last_tile = 0, None
        self._skip = HALF_WINDOW_SAMPLES
        """Samples of what was synthesised that lie before the audio."""
        self._nothing: NDArray[Any] = np.empty(0)
        self._energy, self._marked = 0.0, 0
        self._moment_room, self._moment_gain, self._peak_gain = np.ones(channels), np.ones(channels), np.ones(1)

    @property
    def latency(self) -> float:
        """Seconds from a sample's going in to its coming out, at most, in a stream."""
        return DEEP_STREAM_LATENCY_SECONDS

    @property
    def marked_seconds(self) -> float:
        """How much of the audio was changed in any channel."""
        return self._marked / self._settings.rate

    def push(self, block: NDArray[Any]) -> NDArray[Any]:
        """Feed the next samples; returns the marked samples that are final, of the same type."""
        samples, self._nothing = as_float(block), block[:0]
        self.length += len(samples)
        self._energy += float(np.vdot(samples, samples))
        self._audio.append(samples)
        self._audio_16k.append(self._down.push(samples))
        size = self._settings.block_tiles
        while self._audio_16k.end >= (self._tiles + size + CONTEXT_TILES) * TILE_SAMPLES + HALF_WINDOW_SAMPLES:
            self._change.append(self._up.push(self._mark(size, self._tiles + size + CONTEXT_TILES)))
        return self._add(min(self._change.end, self._audio.end) - self._audio.start)

    def finish(self) -> NDArray[Any]:
        """End the audio; returns the rest, so that as many samples came out as went in."""
        if not self.length:
            return self._nothing
        self._audio_16k.append(self._down.finish(network_length(self.length, self._settings.rate)))
        length, size = self._audio_16k.end, self._settings.block_tiles
        tiles = -(-(length + HALF_WINDOW_SAMPLES) // TILE_SAMPLES)
        missing = tiles * TILE_SAMPLES + HALF_WINDOW_SAMPLES - length
        self._audio_16k.append(np.zeros((missing, self._settings.channels), np.float32))
        done, rest = self._tiles * TILE_SAMPLES - HALF_WINDOW_SAMPLES + self._skip, []
        while self._tiles < tiles:
            count = min(size, tiles - self._tiles)
            rest.append(self._mark(count, min(self._tiles + count + CONTEXT_TILES, tiles)))
        change = np.concatenate([self._overlap[:0], *rest])[: length - max(done, 0)]
        self._change.append(self._up.finish(self.length, change))
        return self._add(len(self._audio))

    def check(self) -> None:
        """What only the end can tell: whether there was anything to mark.

        Raises:
            AudioError: the audio is too short or silent.
        """
        check_length(self.length, self._settings.rate)
        check_not_silent(self._energy / max(self.length * self._settings.channels, 1))

    def _mark(self, count: int, stop: int) -> NDArray[np.float32]:
        """The next `count` tiles: what is added to the audio, (n, channels) at 16 kHz; `stop` tiles can be seen."""
        first = max(self._tiles - CONTEXT_TILES, 0)
        audio = self._audio_16k.get(
            first * TILE_SAMPLES - HALF_WINDOW_SAMPLES, stop * TILE_SAMPLES - CELL_HOP_SAMPLES + HALF_WINDOW_SAMPLES
        )
        spectra = analyse(np.ascontiguousarray(audio.T))
        signs = self._signs[np.arange(first, stop) % PERIOD_TILES]
        gains = tile_gains(powers(spectra), signs, self._settings.target)
        own = slice(self._tiles - first, self._tiles - first + count)
        course = tile_course(gains[own.start : own.stop + 1], self._last_tile)[: count * TILE_CELLS]
        inside = spectra[:, own.start * TILE_CELLS : own.stop * TILE_CELLS]
        wave = synthesise(inside * (bin_gains(course) - 1)).T
        wave[: len(self._overlap)] += self._overlap
        settled, self._overlap = wave[: count * TILE_SAMPLES], wave[count * TILE_SAMPLES :].copy()
        self._tiles += count
        self._last_tile = gains[own.stop - 1]
        self._audio_16k.drop_before((self._tiles - CONTEXT_TILES) * TILE_SAMPLES - HALF_WINDOW_SAMPLES)
        host = audio[own.start * TILE_SAMPLES :][: len(settled)]
        self._limit_moments(settled, host)
        self._limit_peaks(settled, host)
        skipped, self._skip = min(self._skip, len(settled)), max(self._skip - len(settled), 0)
        return np.asarray(settled[skipped:])

    def _limit_moments(self, change: NDArray[np.float32], host: NDArray[np.float32]) -> None:
        """Weaken the change of a host, both (n, channels), in place, where it would be louder than that.

        It rises a moment after the host has, since an onset may lie at the end of its own.
        """
        shape = -1, MOMENT_SAMPLES, change.shape[1]
        there, added = (np.square(samples.reshape(shape)).sum(1, dtype=np.float64) for samples in (host, change))
        room = np.sqrt(np.minimum(there / np.maximum(added, np.finfo(np.float64).tiny), 1))
        most = np.minimum(room, np.concatenate([self._moment_room[None], room[:-1]]))
        change *= _ramps(most, self._moment_gain, MOMENT_SAMPLES)
        self._moment_room, self._moment_gain = room[-1], most[-1]

    def _limit_peaks(self, change: NDArray[np.float32], host: NDArray[np.float32]) -> None:
        """Weaken the change of a host, both (n, channels), in place, where it would carry samples beyond full scale."""
        room = np.maximum(PEAK_CEILING - np.abs(host), 0) / np.maximum(np.abs(change), np.finfo(np.float32).tiny)
        outward = np.sign(host) == np.sign(change)
        limit = np.where(outward, np.clip(room, LEAST_PEAK_GAIN, 1), 1)
        most = limit.reshape(-1, CELL_HOP_SAMPLES, change.shape[1]).min((1, 2))[:, None]
        change *= _ramps(most, self._peak_gain, CELL_HOP_SAMPLES)
        self._peak_gain = most[-1]

    def _add(self, count: int) -> NDArray[Any]:
        """The next marked samples."""
        audio, change = self._audio.pop(max(count, 0)), self._change.pop(max(count, 0)).astype(np.float64)
        if self._settings.step:
            change = np.rint(change / self._settings.step) * self._settings.step
        change[audio == 0] = 0  # digital silence stays digital silence
        self._marked += int(np.count_nonzero(change.any(1)))
        return restore(audio + change, audio, self._nothing.dtype).reshape(-1, *self._nothing.shape[1:])


def _ramps(most: NDArray[np.floating], before: NDArray[np.floating], size: int) -> NDArray[np.float32]:
    """A gain without steps that nowhere exceeds what each stretch of `size` samples allows.

    Args:
        most: (stretches, channels), the largest gain of each.
        before: (channels,), that of the stretch before the first.
        size: samples of a stretch.

    Returns:
        (stretches · size, channels).
    """
    borders = np.minimum(np.concatenate([before[None], most]), np.concatenate([most, most[-1:]]))
    moments = ((np.arange(size) + 0.5) / size)[:, None]
    ramps = borders[:-1, None] + np.diff(borders, axis=0)[:, None] * moments
    return np.asarray(ramps.reshape(-1, most.shape[1]), np.float32)


def choose_start(pattern: KeyPattern, word: Word, blocks: Iterable[NDArray[np.floating]], rate: int) -> int:
    """The tile, below PERIOD_TILES, at which a period should begin: where the audio itself speaks for the word most.

    Args:
        pattern, word: what will be written.
        blocks: `(n, channels)` audio of full scale 1, all of it.
        rate: its rate in Hz.
    """
    stream, down, length = EvidenceStream(), None, 0
    total = np.zeros((PERIOD_CELLS, NUM_MEL_BANDS), np.float32)
    for block in blocks:
        down = down or Resampler(rate, SAMPLE_RATE, block.shape[1])
        length += len(block)
        for chunk in stream.push(down.push(block)):
            total += fold(chunk.evidence, chunk.start)
    if down is None:
        return 0
    for chunk in (*stream.push(down.finish(network_length(length, rate))), *stream.finish()):
        total += fold(chunk.evidence, chunk.start)
    return int((pattern.demodulate(total[TILE_CELLS // 2 :: TILE_CELLS]) @ word.symbols(pattern)).argmax())
