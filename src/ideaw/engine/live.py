"""Marks live audio a tenth of a second late: level and gain come from the past, and the network sees no future.

The residual of a hop is complete when the last STFT window over it is, so a sample waits for that window, for the rest
of its block of a few hops, and for short filters where the rate is not 16 kHz. Blocks lie on a grid counted from the
beginning, so what comes out does not depend on how the audio was cut.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import SampleBuffer, network_length
from ideaw.audio.grid import (
    EDGE_SAMPLES,
    FRAMES_PER_SECOND,
    HOP_SAMPLES,
    NUM_BINS,
    SAMPLE_RATE,
    SEGMENT_SAMPLES,
    WINDOW_SAMPLES,
)
from ideaw.audio.hearing import MASKING_HOP_SAMPLES, MASKING_WINDOW_SAMPLES
from ideaw.audio.samples import as_float
from ideaw.audio.short_resampler import ShortResampler, has_short_period
from ideaw.audio.spectrum import LEVEL_FLOOR, frame_spectra, istft
from ideaw.engine.audibility import MIN_SNR_BY_EAR_DB, frame_values, limit_bands, squared_gain, temporal_mask
from ideaw.engine.embedder import MIN_WHOLE_LATENCY_SECONDS
from ideaw.engine.gain import OPENING_BOOST_DB, OPENING_SECONDS, SecondBudget
from ideaw.engine.mixer import EmbedSettings, Mixer
from ideaw.engine.network import Network
from ideaw.engine.watermark import WatermarkStreams
from ideaw.errors import AudioError
from ideaw.modem.channel import KeyChannels

LIVE_CONTEXT_HOPS = 5
"""Hops of the past that the network sees beside a block. Its receptive field is 27 hops; what it sees of them beyond
these does not change how well marks are read (E73, E87 in docs/history.md)."""

LIVE_LATENCY_SECONDS, RESAMPLED_LATENCY_SECONDS = 0.1, 0.13
"""Latency of a live stream at 16 kHz, and at all other rates."""

GAIN_FRAMES, ATTACK_FRAMES = 2 * SAMPLE_RATE // MASKING_HOP_SAMPLES, 10
"""Frames up to the present that ask for a gain, two seconds of them; and those that may ask for less: 160 ms."""

USUAL_NOISE_TO_MASK_DB, USUAL_NOISE_TO_HOST_DB = 44.0, 5.0
"""dB of the network's residual, before its gain, over the masking curve and over the host, on average."""

GAIN_STEP_SAMPLES = HOP_SAMPLES
"""Samples at 16 kHz after which the gain is set anew."""

MASK_CONTEXT_SAMPLES = 11 * HOP_SAMPLES
"""Samples of the past that the mask of a moment depends on: two windows, and what a sound masks after it."""


def live_delay_seconds(rate: int, block_hops: int) -> float:
    """Seconds that a sample waits at the latest, where so many hops are marked at once."""
    windows = (WINDOW_SAMPLES - HOP_SAMPLES + block_hops * HOP_SAMPLES) / SAMPLE_RATE
    return (
        windows
        if rate == SAMPLE_RATE
        else windows
        + sum(ShortResampler(*rates, 1).delay_seconds for rates in ((rate, SAMPLE_RATE), (SAMPLE_RATE, rate)))
    )


def check_live_latency(rate: int, latency: float | None) -> float:
    """Seconds that a sample of a stream may wait (None: the least that is usual at this rate).

    Raises:
        AudioError: that is no number, or too short.
    """
    short = has_short_period(rate)
    if latency is None:
        usual = LIVE_LATENCY_SECONDS if rate == SAMPLE_RATE else RESAMPLED_LATENCY_SECONDS
        return usual if short else MIN_WHOLE_LATENCY_SECONDS
    least = live_delay_seconds(rate, 1) if short else MIN_WHOLE_LATENCY_SECONDS
    number = isinstance(latency, int | float | np.number) and not isinstance(latency, bool)
    if not number or not least <= latency < np.inf:
        given = math.ceil(1000 * least) / 1000
        raise AudioError(f"a latency of {latency!r} s cannot be kept at {rate} Hz; give {given:g} s or more")
    return float(latency)


class LiveEmbedder:
    """Marks `(n,)` or `(n, channels)` samples of any PCM type that arrive in blocks, soon after they arrived.

    Args:
        network: the model.
        channels: where message and locating code lie.
        symbols: (period, slots) of −1 and +1, as for `Embedder`.
        settings: rate, channels, level and width of the samples.
        latency: seconds that a sample may wait, as `check_live_latency` gives them; more saves time.

    Raises:
        ModelError: the model has no locating code.
    """

    def __init__(
        self,
        network: Network,
        channels: KeyChannels,
        symbols: NDArray[np.float32],
        settings: EmbedSettings,
        latency: float,
    ) -> None:
        network.require_locating_code()
        self.length = 0
        """Samples per channel that were pushed."""
        self._settings, rate, count = settings, settings.rate, settings.channels
        self._down, self._up = ShortResampler(rate, SAMPLE_RATE, count), ShortResampler(SAMPLE_RATE, rate, count)
        self._block_hops = 1 + int((latency - live_delay_seconds(rate, 1)) * FRAMES_PER_SECOND + 1e-6)
        self._audio, self._audio_16k = SampleBuffer(count), _silence(SEGMENT_SAMPLES, count)
        self._residual = _CausalResidual(network, channels, symbols, settings)
        self._gain = _TrailingGain(settings)
        snr = MIN_SNR_BY_EAR_DB if settings.snr is None else settings.snr
        self._budget, self._mixer = SecondBudget(rate, count, snr, settings.step), Mixer(settings)
        self._nothing: NDArray[Any] = np.empty(0)
        """No samples, in the shape and type of those that are marked."""

    @property
    def latency(self) -> float:
        """Seconds from a sample's going in to its coming out, at most."""
        return live_delay_seconds(self._settings.rate, self._block_hops)

    @property
    def marked_seconds(self) -> float:
        """How much of what came out so far holds a mark."""
        return self._mixer.marked_seconds

    def push(self, block: NDArray[Any]) -> NDArray[Any]:
        """Feed the next samples; returns the marked samples that are final, of the same type."""
        samples, self._nothing = as_float(block), block[:0]
        self.length += len(samples)
        self._audio.append(samples)
        self._down.push(samples)
        marked = [self._nothing]
        while self._down.available >= self._next_stop:
            self._hear(self._down.take(self._next_stop))
            self._up.push(self._mark_block())
            marked.append(self._mix(self._up.take(self._up.available)))
        return np.concatenate(marked)

    def finish(self) -> NDArray[Any]:
        """End the audio; returns the rest, so that as many samples came out as went in."""
        if not self.length:
            return self._nothing
        length_16k = network_length(self.length, self._settings.rate)
        self._hear(self._down.finish(length_16k))
        settled = self._residual.settled
        while self._residual.settled < length_16k:
            missing = max(self._next_stop - self._audio_16k.end, 0)
            self._audio_16k.append(np.zeros((missing, self._settings.channels), np.float32))
            self._up.push(self._mark_block()[: length_16k - max(settled, 0)])
            settled = self._residual.settled
        return self._mix(self._up.finish(self.length))

    def check(self) -> None:
        """What only the end can tell: whether there was anything to hide a mark under, and whether it survived.

        Raises:
            AudioError: the audio is silent, or too little of the mark is left after rounding or clipping.
        """
        self._mixer.check()

    @property
    def _next_stop(self) -> int:
        """Samples at 16 kHz that the next block needs."""
        return self._residual.settled + self._block_hops * HOP_SAMPLES + 2 * EDGE_SAMPLES

    def _hear(self, samples: NDArray[np.float32]) -> None:
        self._audio_16k.append(samples)
        self._mixer.count_16k(samples)

    def _mark_block(self) -> NDArray[np.float32]:
        """The next block of the mark at 16 kHz, (n, channels)."""
        first = self._residual.settled
        residual = self._residual.advance(self._audio_16k, self._block_hops)
        marks = []
        for start in range(0, len(residual), GAIN_STEP_SAMPLES):
            piece = residual[start : start + GAIN_STEP_SAMPLES]
            place = first + start
            marks.append(self._gain.apply(piece, self._audio_16k.get(place, place + len(piece))))
        self._audio_16k.drop_before(self._residual.settled - SEGMENT_SAMPLES + EDGE_SAMPLES)
        return np.concatenate(marks)[max(-first, 0) :]

    def _mix(self, mark: NDArray[np.float32]) -> NDArray[Any]:
        """The next marked samples, as many as there are of the mark."""
        audio, intended = self._audio.pop(len(mark)), mark.astype(np.float64)
        marked = self._mixer.add(audio, intended, self._budget.fit(intended, audio), self._nothing.dtype)
        return marked.reshape(-1, *self._nothing.shape[1:])


class _CausalResidual:
    """The network's residual, block after block, each from its own frames and a few before them."""

    def __init__(
        self, network: Network, channels: KeyChannels, symbols: NDArray[np.float32], settings: EmbedSettings
    ) -> None:
        self._network, self._by_ear = network, settings.snr is None
        self._streams = WatermarkStreams(channels, symbols)
        self._past = np.zeros((settings.channels, 0, NUM_BINS), np.complex64)
        self._overlap = np.zeros((settings.channels, 2 * EDGE_SAMPLES), np.float32)
        self._hop = 0

    @property
    def settled(self) -> int:
        """The sample before which the residual is complete; those before 0 are the fade-in."""
        return self._hop * HOP_SAMPLES - EDGE_SAMPLES

    def advance(self, audio: SampleBuffer, hops: int) -> NDArray[np.float32]:
        """The next (hops · HOP_SAMPLES, channels), from audio that goes 2 · EDGE_SAMPLES further."""
        begin, settled = self._hop, self.settled
        stop = settled + hops * HOP_SAMPLES
        end = stop + 2 * EDGE_SAMPLES
        loudness = _trailing_levels(audio.get(end - hops * HOP_SAMPLES + HOP_SAMPLES - SEGMENT_SAMPLES, end), begin)
        host = frame_spectra(np.ascontiguousarray(audio.get(settled, end).T)) / loudness[..., None]
        seen = np.concatenate([self._past, host], 1)
        message, code = self._streams.of_hops(begin + hops - seen.shape[1], begin + hops)
        streams = (np.repeat(stream[None], len(seen), 0) for stream in (message, code))
        residual = self._network.mark(seen, *streams)[:, -hops:]
        if self._by_ear:
            residual = np.stack([limit_bands(*channel) for channel in zip(host, residual, loudness, strict=True)])
        wave = istft(residual * loudness[..., None])
        wave[:, : 2 * EDGE_SAMPLES] += self._overlap
        self._overlap, self._past = wave[:, hops * HOP_SAMPLES :], seen[:, -LIVE_CONTEXT_HOPS:]
        self._hop += hops
        done = wave[:, : hops * HOP_SAMPLES].T
        if self._by_ear:
            around = audio.get(settled - MASK_CONTEXT_SAMPLES, end)
            masks = [temporal_mask(channel)[MASK_CONTEXT_SAMPLES:][: len(done)] for channel in around.T]
            done = done * np.stack(masks, 1)
        return np.asarray(done)


class _TrailingGain:
    """The gain of a residual that comes piece by piece: what the past asks for, linear within a piece, no steps.

    The last seconds ask for it, and the last moments for less, so that what is suddenly soft or clear is not drowned.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        self._last = np.zeros(settings.channels)
        self._samples = 0
        self._rest = np.zeros((2, settings.channels, 0), np.float32)
        """Host and residual from the next frame on."""
        self._frames = np.zeros((4, settings.channels, 0))
        """What the last GAIN_FRAMES tell of host and residual."""

    def apply(self, piece: NDArray[np.float32], audio: NDArray[np.float32]) -> NDArray[np.float32]:
        """The next (n, channels) of the residual, with its gain, from the audio at the same place."""
        self._hear(np.stack([audio, piece]).swapaxes(1, 2))
        long, short = (self._asked(self._frames[..., -count:].sum(-1)) for count in (GAIN_FRAMES, ATTACK_FRAMES))
        asked = np.where(short > 0, np.minimum(long, short), long)
        if self._settings.snr is None and self._samples < OPENING_SECONDS * SAMPLE_RATE:
            asked = asked * 10 ** (OPENING_BOOST_DB / 20)
        self._samples += len(piece)
        gain = np.where(asked > 0, asked, self._last)  # where there is nothing to mark, nothing is asked for
        start, self._last = self._last, gain
        moments = (np.arange(len(piece)) + 1)[:, None] / len(piece)
        return np.asarray(piece * (start + (gain - start) * moments), np.float32)

    def _hear(self, samples: NDArray[np.float32]) -> None:
        """Go on with (2, channels, n) of host and residual."""
        held = np.concatenate([self._rest, samples], -1)
        if held.shape[-1] >= MASKING_WINDOW_SAMPLES:
            frames = frame_values(held)
            held = held[..., frames.shape[-1] * MASKING_HOP_SAMPLES :]
            self._frames = np.concatenate([self._frames, frames], -1)[..., -GAIN_FRAMES:]
        self._rest = held

    def _asked(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """The gain (channels,) that sums of frames ask for; 0 where there is nothing to mark.

        Where a sound begins, the first frames of the residual are far softer than what follows. So as long as few hold
        sound, the others are supposed to be what frames usually are.
        """
        sound = sums[1]
        power = sums[2] / np.maximum(sound, np.finfo(float).tiny)
        usual = np.stack([np.full_like(sound, 10 ** (USUAL_NOISE_TO_MASK_DB / 10)), np.ones_like(sound), power, power])
        usual[3] *= 10 ** (USUAL_NOISE_TO_HOST_DB / 10)
        sums = sums + np.maximum(ATTACK_FRAMES - sound, 0) * usual
        if self._settings.snr is None:
            return np.sqrt(squared_gain(sums, 10 ** (self._settings.audibility / 10)))
        host, noise = sums[2:]
        share = np.divide(host, noise, out=np.zeros_like(host), where=noise > 0)
        return np.asarray(np.sqrt(share * 10 ** (-self._settings.snr / 10)))


def _trailing_levels(audio: NDArray[np.float32], hop: int) -> NDArray[np.float32]:
    """The level of frames (channels, hops) from `hop` on: the RMS of the second up to the end of each one's window.

    Args:
        audio: (SEGMENT_SAMPLES + (hops − 1) · HOP_SAMPLES, channels), up to the end of the last one's.
        hop: the first frame; what lies before the beginning of the audio does not count.
    """
    energies = np.square(audio.T, dtype=np.float64).reshape(audio.shape[1], -1, HOP_SAMPLES).sum(-1)
    sums: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(energies, FRAMES_PER_SECOND, 1).sum(-1)
    ends = (hop + np.arange(sums.shape[1])) * HOP_SAMPLES + WINDOW_SAMPLES - EDGE_SAMPLES
    return np.asarray(np.sqrt(sums / ends.clip(max=SEGMENT_SAMPLES)).clip(LEVEL_FLOOR), np.float32)


def _silence(length: int, channels: int) -> SampleBuffer:
    """A buffer whose sample 0 is still to come, with so many samples of silence before it."""
    buffer = SampleBuffer(channels, -length)
    buffer.append(np.zeros((length, channels), np.float32))
    return buffer
