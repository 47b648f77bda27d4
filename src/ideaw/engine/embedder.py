"""Marks audio that arrives in blocks: arrays, files of hours and live streams, in constant memory.

Signal path: down to 16 kHz → the network's residual → back up to the rate of the audio → the gain that keeps
the SNR of every second → added to the untouched original. Each step goes by positions counted from the beginning of the
audio, never by what happened to arrive together, so the result is the same to the last bit however the audio is cut,
and with any number of threads up to rounding.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import RESAMPLE_DELAY_SECONDS, Resampler, SampleBuffer, network_length
from ideaw.audio.grid import EDGE_SAMPLES, FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.audio.samples import as_float, check_length
from ideaw.audio.spectrum import SPECTRUM_CONTEXT_HOPS, istft, level, stft
from ideaw.engine.audibility import MIN_SNR_BY_EAR_DB, GainByEar, limit_bands, temporal_mask
from ideaw.engine.gain import GainEnvelope, bound_on_grid, limit, limit_on_grid
from ideaw.engine.mixer import EmbedSettings, Mixer
from ideaw.engine.network import Network, split_hops
from ideaw.engine.watermark import WatermarkStreams
from ideaw.modem.channel import KeyChannels

BLOCK_SECONDS, MIN_BLOCK_SECONDS = 10, 2
"""Default block length in seconds, and the least where there are many channels: shorter blocks pay more for their
context, longer ones take more memory."""

MIN_WHOLE_LATENCY_SECONDS = 3
"""Least latency of a stream, in seconds, that is marked as an array is: a second's gain depends on the next."""

WAIT_BEYOND_BLOCK_SECONDS = 2
"""Whole seconds that cover what a sample waits for besides its block: the next second's gain, and context."""

MAX_HELD_SAMPLES = 4_000_000
"""Samples of all channels that are marked at once, at most, unless a stream's block holds more."""

LOOKAHEAD_HOPS = -(-(EDGE_SAMPLES + int(RESAMPLE_DELAY_SECONDS * SAMPLE_RATE)) // HOP_SAMPLES)
"""Hops that a block goes on after its last second, so that this second is complete when it has been resampled."""


def block_hops(settings: EmbedSettings) -> int:
    """Hops of a block."""
    most = max(MIN_BLOCK_SECONDS, MAX_HELD_SAMPLES // (settings.rate * settings.channels))
    return (settings.block_seconds or min(BLOCK_SECONDS, most)) * FRAMES_PER_SECOND


class Embedder:
    """Marks `(n,)` or `(n, channels)` samples of any PCM type that arrive in blocks.

    Args:
        network: the model.
        channels: where message and locating code lie.
        symbols: (period, slots) of −1 and +1; second k, counted from the beginning, carries row k mod period. Every
            second carries the key's locating code.
        settings: rate, channels, SNR and width of the samples.

    Raises:
        ModelError: the model has no locating code.
    """

    def __init__(
        self, network: Network, channels: KeyChannels, symbols: NDArray[np.float32], settings: EmbedSettings
    ) -> None:
        network.require_locating_code()
        self.length = 0
        """Samples per channel that were pushed."""
        self._settings, rate, count = settings, settings.rate, settings.channels
        self._block_hops, self._mixer = block_hops(settings), Mixer(settings)
        self._down, self._up = Resampler(rate, SAMPLE_RATE, count), Resampler(SAMPLE_RATE, rate, count)
        self._audio, self._mark = SampleBuffer(count), SampleBuffer(count)
        self._audio_16k, self._mark_16k = SampleBuffer(count), SampleBuffer(count)
        self._residual = _ResidualStream(network, channels, symbols, self._audio_16k, settings, self._block_hops)
        self._limits = GainEnvelope(rate)
        self._by_ear = GainByEar(rate, settings.audibility)
        self._nothing: NDArray[Any] = np.empty(0)
        """No samples, in the shape and type of those that are marked."""
        self._settled = 0
        """Seconds whose gain is known."""

    def push(self, block: NDArray[Any]) -> NDArray[Any]:
        """Feed the next samples; returns the marked samples that are final, of the same type."""
        samples, self._nothing = as_float(block), block[:0]
        self.length += len(samples)
        self._audio.append(samples)
        self._audio_16k.append(self._down.push(samples))
        residual = self._residual.advance()
        if not len(residual):
            return self._nothing
        self._mark_16k.append(residual)
        self._mark.append(self._up.push(residual))
        return self._settle(self._mark.end // self._settings.rate)

    def finish(self) -> NDArray[Any]:
        """End the audio; returns the rest, so that as many samples came out as went in."""
        length, rate = self._audio.end, self._settings.rate
        if not length:
            return self._nothing
        self._audio_16k.append(self._down.finish(network_length(length, rate)))
        residual = self._residual.finish()
        self._mark_16k.append(residual)
        self._mark.append(self._up.finish(length, residual))
        return self._settle(-(-length // rate), last=True)

    @property
    def latency(self) -> float:
        """Seconds from a sample's going in to its coming out, at most: a block + 2, and a little less at 16 kHz.

        Longest waits a sample just after the middle of a second, because its gain depends on the next second too: that
        ends 1.5 s later, and if it is the first of a block, the block ends a second less than a block after that. A
        block goes on for LOOKAHEAD_HOPS, the network sees its receptive field beyond these, whose level needs
        SPECTRUM_CONTEXT_HOPS more, and RESAMPLE_DELAY_SECONDS of all that is kept back on its way to 16 kHz.
        """
        hops = self._block_hops + LOOKAHEAD_HOPS + self._residual.context + SPECTRUM_CONTEXT_HOPS
        delay = RESAMPLE_DELAY_SECONDS if self._settings.rate != SAMPLE_RATE else 0.0
        return 0.5 + hops * HOP_SAMPLES / SAMPLE_RATE + delay

    @property
    def marked_seconds(self) -> float:
        """How much of what came out so far holds a mark."""
        return self._mixer.marked_seconds

    def check(self) -> None:
        """What only the end can tell: whether there was anything to hide a mark under, and whether it survived.

        Raises:
            AudioError: the audio is too short or silent, or too little of the mark is left after rounding or clipping.
        """
        check_length(self._audio.end, self._settings.rate)
        self._mixer.check()

    def _settle(self, seconds: int, last: bool = False) -> NDArray[Any]:
        """Find the gain up to second `seconds`; the marked samples up to its middle or, of the last, to its end.

        The network's band alone says how strong the mark is meant to be, since nothing above it hides the mark; the
        samples as they are say how much of that can stay.
        """
        settings, first, self._settled = self._settings, self._settled, seconds
        if seconds == first and not last:
            return self._nothing
        begin, end = first * SEGMENT_SAMPLES, seconds * SEGMENT_SAMPLES
        residual = _by_second(self._mark_16k.pop(end - begin), SEGMENT_SAMPLES)
        self._mixer.count_16k(self._audio_16k.get(begin, end))
        audio = _by_second(self._audio_16k.get(begin, end), SEGMENT_SAMPLES)
        if settings.snr is None:
            targets, intended = self._by_ear.push(residual, audio, last)
        else:
            intended = limit(residual, audio, settings.snr)
        self._audio_16k.drop_before(min(end, self._residual.first_needed))
        begin, end = first * settings.rate, seconds * settings.rate
        residual, audio = (_by_second(buffer.get(begin, end), settings.rate) for buffer in (self._mark, self._audio))
        if settings.snr is None:
            bounds = bound_on_grid(residual, audio, MIN_SNR_BY_EAR_DB, settings.step, intended)
            return self._add_mark(np.stack([targets, np.minimum(targets, self._limits.push(bounds, last))], 1))
        possible = limit_on_grid(residual, audio, settings.snr, settings.step, intended)
        return self._add_mark(self._limits.push(np.stack([intended, possible], 1), last))

    def _add_mark(self, gains: NDArray[np.float64]) -> NDArray[Any]:
        """The next marked samples, from their gains (n, 2, channels): as intended, and as possible."""
        audio, residual = (buffer.pop(len(gains)) for buffer in (self._audio, self._mark))
        intended, possible = (residual * gains[: len(residual), kind] for kind in range(2))
        marked = self._mixer.add(audio, intended, possible, self._nothing.dtype)
        return marked.reshape(-1, *self._nothing.shape[1:])


def _by_second(samples: NDArray[Any], second: int) -> NDArray[Any]:
    """(n, channels) → (second, seconds, channels): its seconds of so many samples, the last filled up with silence."""
    return _fill_up(samples, second).reshape(-1, second, samples.shape[1]).swapaxes(0, 1)


def _fill_up(samples: NDArray[Any], multiple: int) -> NDArray[Any]:
    """(n, channels) with silence at their end, so that they are a multiple of so many samples."""
    missing = -len(samples) % multiple
    return np.pad(samples, ((0, missing), (0, 0))) if missing else samples


class _ResidualStream:
    """The network's residual for 16 kHz audio that arrives in a buffer, before the gain is applied.

    The network is made of convolutions over frames, so a block with its receptive field on both sides gives what one
    pass over everything would give.
    """

    def __init__(
        self,
        network: Network,
        channels: KeyChannels,
        symbols: NDArray[np.float32],
        audio: SampleBuffer,
        settings: EmbedSettings,
        block: int,
    ) -> None:
        self._network, self._audio, self._block = network, audio, block
        self.context = network.card.context["mark"]
        self._by_ear = settings.snr is None
        self._streams = WatermarkStreams(channels, symbols)
        self._overlap = np.zeros((2 * EDGE_SAMPLES, settings.channels), np.float32)
        self._position = -EDGE_SAMPLES
        """Position of the next sample of the residual; those before 0 are the fade-in, and are dropped."""
        self._begin, self._end = 0, self._block + LOOKAHEAD_HOPS

    @property
    def first_needed(self) -> int:
        """The sample of the audio before which nothing is needed any more."""
        return max(self._begin - self.context - SPECTRUM_CONTEXT_HOPS, 0) * HOP_SAMPLES

    def advance(self) -> NDArray[np.float32]:
        """(n, channels) of the residual that follow from audio that was added to the buffer."""
        waves = [self._overlap[:0]]
        while (self._end + self.context + SPECTRUM_CONTEXT_HOPS) * HOP_SAMPLES <= self._audio.end:
            waves.append(self._next_block(self._audio.end // HOP_SAMPLES))
        return np.concatenate(waves)

    def finish(self) -> NDArray[np.float32]:
        """The rest, until the residual is as long as the audio."""
        length = self._audio.end
        hops = -(-length // HOP_SAMPLES)
        waves = [self._overlap[:0]]
        while self._begin < hops:
            waves.append(self._next_block(hops))
        waves.append(self._emit(self._overlap))
        rest = np.concatenate(waves)
        return rest[: len(rest) - max(self._position - length, 0)]

    def _next_block(self, hops: int) -> NDArray[np.float32]:
        """Mark the next block of audio, of which there are `hops`; the samples that this settles."""
        begin, end, reach = self._begin, min(self._end, hops), self.context + SPECTRUM_CONTEXT_HOPS
        held = range(max(begin - reach, 0), min(end + reach, hops))
        audio = _fill_up(self._audio.get(held.start * HOP_SAMPLES, held.stop * HOP_SAMPLES), HOP_SAMPLES)
        contents = [channel.tobytes() for channel in audio.T]  # channels that are alike are marked alike, and once
        waves = self._mark_channels(dict(zip(contents, audio.T, strict=True)), held, begin, end)
        wave = np.stack([waves[content] for content in contents], 1)
        wave[: 2 * EDGE_SAMPLES] += self._overlap
        settled, self._overlap = wave[: -2 * EDGE_SAMPLES], wave[-2 * EDGE_SAMPLES :]
        self._begin, self._end = end, end + self._block
        return self._emit(settled)

    def _emit(self, wave: NDArray[np.float32]) -> NDArray[np.float32]:
        """The next samples of the residual, without those before the audio begins."""
        first = max(-self._position, 0)
        self._position += len(wave)
        return wave[first:]

    def _mark_channels(
        self, channels: dict[bytes, NDArray[np.float32]], held: range, begin: int, end: int
    ) -> dict[bytes, NDArray[np.float32]]:
        """(held · HOP_SAMPLES,) audio of channels → residuals of hops `begin` to `end`, with EDGE_SAMPLES beside."""
        network = self._network
        parts = [(name, *part) for name in channels for part in split_hops(begin, end, end - begin, network.workers)]
        pieces = network.map(lambda part: self._mark_part(channels[part[0]], held, *part[1:]), parts)
        waves = {name: np.zeros((end - begin) * HOP_SAMPLES + 2 * EDGE_SAMPLES, np.float32) for name in channels}
        for (name, first, _), piece in zip(parts, pieces, strict=True):
            waves[name][(first - begin) * HOP_SAMPLES :][: len(piece)] += piece
        return waves

    def _mark_part(self, channel: NDArray[np.float32], held: range, begin: int, end: int) -> NDArray[np.float32]:
        """(held · HOP_SAMPLES,) audio of a channel → the residual of hops `begin` to `end`, as `_mark_channels`."""
        seen = range(max(begin - self.context, held.start), min(end + self.context, held.stop))
        first, stop = seen.start - SPECTRUM_CONTEXT_HOPS, seen.stop + SPECTRUM_CONTEXT_HOPS
        around = range(max(first, held.start), min(stop, held.stop))
        audio = channel[(around.start - held.start) * HOP_SAMPLES : (around.stop - held.start) * HOP_SAMPLES]
        loudness = level(audio)
        host = stft(audio / loudness)[seen.start - around.start : seen.stop - around.start]
        message, code = self._streams.of_hops(seen.start, seen.stop)
        inside, place = slice(begin - seen.start, end - seen.start), (begin - around.start) * HOP_SAMPLES
        residual = self._network.mark(host[None], message[None], code[None])[0, inside]
        gain = loudness
        if self._by_ear:
            centres = place + HOP_SAMPLES // 2 + HOP_SAMPLES * np.arange(end - begin)
            residual = limit_bands(host[inside], residual, loudness[centres])
            gain = loudness * temporal_mask(audio)
        wave = istft(residual)
        return np.asarray(wave * np.pad(gain, EDGE_SAMPLES)[place:][: len(wave)])
