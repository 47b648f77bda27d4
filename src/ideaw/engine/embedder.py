"""Marks audio that arrives in blocks: arrays, files of hours and live streams, in constant memory.

The way of a sample: down to 16 kHz → the network's residual → back up to the rate of the audio → the gain that keeps
the SNR of every second → added to the untouched original. Each step goes by positions counted from the beginning of the
audio, never by what happened to arrive together, so the result is the same to the last bit however the audio is cut,
and with any number of threads up to rounding.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.buffer import SampleBuffer
from ideaw.audio.checks import MIN_LEVEL_DBFS, check_not_silent
from ideaw.audio.grid import EDGE_SAMPLES, FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.audio.level import LEVEL_CONTEXT_HOPS, level
from ideaw.audio.pcm import as_float, restore
from ideaw.audio.resample import RESAMPLE_DELAY_SECONDS, Resampler, network_length
from ideaw.audio.stft import istft, stft
from ideaw.engine.gain import GainEnvelope, energy, limit, limit_on_grid, on_grid
from ideaw.engine.network import Network, split_hops
from ideaw.errors import AudioError
from ideaw.modem.channel import KeyChannels

BLOCK_SECONDS = 10
"""Seconds that are marked at once, unless told otherwise: shorter blocks pay more for their context, longer ones take
more memory."""

STREAM_BLOCK_SECONDS = 2
"""The same in a stream, where they are waited for."""

MAX_HELD_SAMPLES = 4_000_000
"""Samples of all channels that are marked at once, at most, unless a stream's block holds more."""

MAX_PIECE_SECONDS = 10
"""Seconds that are resampled at once: bounds the memory of a long block."""

MARGIN_HOPS = LEVEL_CONTEXT_HOPS + 2
"""Hops beyond the receptive field that a block needs: STFT windows reach out, and the level there looks around."""

LOOKAHEAD_HOPS = -(-(EDGE_SAMPLES + int(RESAMPLE_DELAY_SECONDS * SAMPLE_RATE)) // HOP_SAMPLES)
"""Hops that a block goes on after its last second, so that this second is complete when it has been resampled."""

MIN_UNROUNDED_SHARE = 0.25
"""Share of a mark that must be left after rounding to the samples' width: at 0.17 it was lost, at 0.26 found."""

MIN_UNCLIPPED_SHARE = 0.7
"""Share of a mark that must be left where samples are clipped to full scale: at 0.67 it was lost, at 0.74 found."""


@dataclass(frozen=True)
class EmbedSettings:
    """What an embedder is told about audio and mark."""

    rate: int
    """Of the audio, in Hz."""
    channels: int
    snr: float
    """In dB, kept by every second of every channel."""
    step: float
    """From one sample value to the next, where 1 is full scale (0: floats); what is added is in multiples of it."""
    block_seconds: int | None = None
    """Whole seconds that are marked at once (None: as many as memory allows); changes latency, time and memory only."""

    @property
    def block_hops(self) -> int:
        """Hops of a block."""
        most = max(STREAM_BLOCK_SECONDS, MAX_HELD_SAMPLES // (self.rate * self.channels))
        return (self.block_seconds or min(BLOCK_SECONDS, most)) * FRAMES_PER_SECOND


class Embedder:
    """Marks `(n,)` or `(n, channels)` samples of any PCM type that arrive in blocks.

    Args:
        network: the model.
        channels: where message and locating code lie.
        payloads: (period, message_bits) zeros and ones; second k, counted from the beginning, carries number k mod
            period. Every second carries the key's locating code.
        settings: rate, channels, SNR and width of the samples.
    """

    def __init__(
        self, network: Network, channels: KeyChannels, payloads: NDArray[np.integer], settings: EmbedSettings
    ) -> None:
        self._settings, rate, count = settings, settings.rate, settings.channels
        self._down, self._up = Resampler(rate, SAMPLE_RATE, count), Resampler(SAMPLE_RATE, rate, count)
        self._residual = _ResidualStream(network, channels, payloads, count, settings.block_hops)
        self._envelope = GainEnvelope(rate)
        self._original, self._audio = SampleBuffer(), SampleBuffer(count)
        self._mark, self._audio_16k, self._mark_16k = SampleBuffer(count), SampleBuffer(count), SampleBuffer(count)
        self._settled = 0
        """Seconds whose gain is known."""
        self._energy = self._energy_16k = self._intended = self._rounded = self._added = self._unclipped = 0.0

    def push(self, block: NDArray[Any]) -> NDArray[Any]:
        """The samples that come next → those marked samples that nothing to come can change, of the same type."""
        samples, piece = as_float(block), MAX_PIECE_SECONDS * self._settings.rate
        self._original.append(block)
        marked = [samples[:0]]
        for start in range(0, len(samples), piece):
            self._audio.append(samples[start : start + piece])
            audio = self._down.push(samples[start : start + piece])
            self._audio_16k.append(audio)
            self._add(self._residual.push(audio))
            marked.append(self._settle(self._mark.end // self._settings.rate))
        return self._restore(np.concatenate(marked))

    def finish(self) -> NDArray[Any]:
        """The rest: then as many samples have come out as went in. Nothing can be pushed any more."""
        length, rate = self._audio.end, self._settings.rate
        audio = self._down.finish(network_length(length, rate))
        self._audio_16k.append(audio)
        self._add(self._residual.push(audio))
        self._add(self._residual.finish())
        self._mark.append(self._up.finish(length))
        marked = [self._settle(length // rate), self._settle(-(-length // rate))]
        if length:
            marked.append(self._add_mark(self._envelope.finish()))
        return self._restore(np.concatenate(marked))

    @property
    def latency(self) -> float:
        """Seconds from a sample's going in to its coming out, at most: a block + 2, and a little less at 16 kHz.

        Longest waits a sample just after the middle of a second, because its gain depends on the next second too: that
        ends 1.5 s later, and if it is the first of a block, the block ends a second less than a block after that. A
        block goes on for LOOKAHEAD_HOPS, the network sees its receptive field beyond these, whose level needs
        MARGIN_HOPS more, and RESAMPLE_DELAY_SECONDS of all that is kept back on its way to 16 kHz.
        """
        hops = self._settings.block_hops + LOOKAHEAD_HOPS + self._residual.context + MARGIN_HOPS
        delay = RESAMPLE_DELAY_SECONDS if self._settings.rate != SAMPLE_RATE else 0.0
        return 0.5 + hops * HOP_SAMPLES / SAMPLE_RATE + delay

    def check(self) -> None:
        """What only the end can tell: whether there was anything to hide a mark under, and whether it survived.

        Raises:
            AudioError: the audio is silent, or too little of the mark is left after rounding or clipping.
        """
        snr, count = self._settings.snr, self._settings.channels
        check_not_silent(self._energy / max(self._audio.start * count, 1))
        if self._energy_16k / max(self._audio_16k.start * count, 1) < 10 ** (MIN_LEVEL_DBFS / 10):
            raise AudioError(f"the audio is silent below {SAMPLE_RATE // 2} Hz; a mark needs sound to hide under there")
        if self._rounded < MIN_UNROUNDED_SHARE * self._intended:
            raise AudioError(
                f"too quiet: a mark {snr:g} dB below this audio rounds away; use wider samples or a lower SNR"
            )
        if self._unclipped < MIN_UNCLIPPED_SHARE * self._added:
            raise AudioError(f"too loud: a mark {snr:g} dB below this audio is clipped away; make the audio quieter")

    def _add(self, residual: NDArray[np.float32]) -> None:
        """Go on with (n, channels) of the network's residual at 16 kHz."""
        self._mark_16k.append(residual)
        self._mark.append(self._up.push(residual))

    def _settle(self, seconds: int) -> NDArray[np.float64]:
        """Find the gain up to second `seconds`; (n, channels) of marked samples, up to the middle of the last.

        All of these seconds are whole, or there is but one. The network's band alone says how strong the mark is meant
        to be, since nothing above it hides the mark; the samples as they are say how much of that can stay.
        """
        settings, first, self._settled = self._settings, self._settled, seconds
        if seconds == first:
            return np.empty((0, settings.channels))
        residual, audio = (
            _by_second(buffer.pop((seconds - first) * SEGMENT_SAMPLES), seconds - first)
            for buffer in (self._mark_16k, self._audio_16k)
        )
        self._energy_16k += float(energy(audio).sum())
        intended = limit(residual, audio, settings.snr)
        residual, audio = (
            _by_second(buffer.get(first * settings.rate, seconds * settings.rate), seconds - first)
            for buffer in (self._mark, self._audio)
        )
        possible = limit_on_grid(residual, audio, settings.snr, settings.step, intended)
        return self._add_mark(self._envelope.push(np.stack([intended, possible], 1)))

    def _add_mark(self, gains: NDArray[np.float64]) -> NDArray[np.float64]:
        """The next marked samples, from their gains (n, 2, channels): as intended, and as possible."""
        audio, residual = (buffer.pop(len(gains)) for buffer in (self._audio, self._mark))
        intended, possible = (residual * gains[: len(residual), kind] for kind in range(2))
        added = on_grid(possible, self._settings.step)
        self._energy += float(np.vdot(audio, audio))
        self._intended += float(np.vdot(intended, intended))
        self._rounded += float(np.vdot(added, intended))
        return np.asarray(audio + added)

    def _restore(self, marked: NDArray[np.float64]) -> NDArray[Any]:
        """Marked samples in the type of the original ones; and how much of the mark clipping leaves."""
        original = self._original.pop(len(marked))
        restored, before = restore(marked, original), as_float(original)
        added = marked - before
        self._added += float(np.vdot(added, added))
        self._unclipped += float(np.vdot(as_float(restored) - before, added))
        return restored


def _by_second(samples: NDArray[Any], seconds: int) -> NDArray[Any]:
    """(n, channels) → (samples of a second, seconds, channels)."""
    return samples.reshape(seconds, -1, samples.shape[1]).swapaxes(0, 1)


class _ResidualStream:
    """What the network adds to audio at 16 kHz that arrives in pieces, before its gain is settled.

    The network is made of convolutions over frames, so a block with its receptive field on both sides gives what one
    pass over everything would give.
    """

    def __init__(
        self, network: Network, channels: KeyChannels, payloads: NDArray[np.integer], count: int, block_hops: int
    ) -> None:
        self._network, self._block = network, block_hops
        self.context = network.card.context["mark"]
        self._carriers = channels.message.carriers
        self._symbols = channels.message.symbols(payloads) * channels.message_scrambler
        self._code = channels.code_stream
        self._audio = SampleBuffer(count)
        self._overlap = np.zeros((2 * EDGE_SAMPLES, count), np.float32)
        self._position = -EDGE_SAMPLES
        """Of the next sample of the residual; those before 0 fade into nothing."""
        self._begin, self._end = 0, self._block + LOOKAHEAD_HOPS

    def push(self, audio: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, channels) that come next → (m, channels) of the residual."""
        self._audio.append(audio)
        waves = [self._overlap[:0]]
        while (self._end + self.context + MARGIN_HOPS) * HOP_SAMPLES <= self._audio.end:
            waves.append(self._next_block(self._audio.end // HOP_SAMPLES))
        return np.concatenate(waves)

    def finish(self) -> NDArray[np.float32]:
        """The rest, until the residual is as long as the audio."""
        length = self._audio.end
        hops = -(-length // HOP_SAMPLES)
        self._audio.append(np.zeros((hops * HOP_SAMPLES - length, self._overlap.shape[1]), np.float32))
        waves = [self._overlap[:0]]
        while self._begin < hops:
            waves.append(self._next_block(hops))
        waves.append(self._emit(self._overlap))
        rest = np.concatenate(waves)
        return rest[: len(rest) - max(self._position - length, 0)]

    def _next_block(self, hops: int) -> NDArray[np.float32]:
        """Mark the next block of audio, of which there are `hops`; the samples that this settles."""
        begin, end, reach = self._begin, min(self._end, hops), self.context + MARGIN_HOPS
        held = range(max(begin - reach, 0), min(end + reach, hops))
        audio = self._audio.get(held.start * HOP_SAMPLES, held.stop * HOP_SAMPLES)
        contents = [channel.tobytes() for channel in audio.T]  # channels that are alike are marked alike, and once
        waves = self._mark_channels(dict(zip(contents, audio.T, strict=True)), held, begin, end)
        wave = np.stack([waves[content] for content in contents], 1)
        wave[: 2 * EDGE_SAMPLES] += self._overlap
        settled, self._overlap = wave[: -2 * EDGE_SAMPLES], wave[-2 * EDGE_SAMPLES :]
        self._begin, self._end = end, end + self._block
        self._audio.drop_before((end - reach) * HOP_SAMPLES)
        return self._emit(settled)

    def _emit(self, wave: NDArray[np.float32]) -> NDArray[np.float32]:
        """The next samples of the residual, without those before the audio begins."""
        first = max(-self._position, 0)
        self._position += len(wave)
        return wave[first:]

    def _mark_channels(
        self, channels: dict[bytes, NDArray[np.float32]], held: range, begin: int, end: int
    ) -> dict[bytes, NDArray[np.float32]]:
        """(held · HOP_SAMPLES,) audio of channels → what marks the hops from `begin` to `end`, and EDGE beside."""
        network = self._network
        parts = [(name, *part) for name in channels for part in split_hops(begin, end, end - begin, network.workers)]
        pieces = network.map(lambda part: self._mark_part(channels[part[0]], held, *part[1:]), parts)
        waves = {name: np.zeros((end - begin) * HOP_SAMPLES + 2 * EDGE_SAMPLES, np.float32) for name in channels}
        for (name, first, _), piece in zip(parts, pieces, strict=True):
            waves[name][(first - begin) * HOP_SAMPLES :][: len(piece)] += piece
        return waves

    def _mark_part(self, channel: NDArray[np.float32], held: range, begin: int, end: int) -> NDArray[np.float32]:
        """(held · HOP_SAMPLES,) audio → what marks some of its hops, and EDGE to each side; the network sees more."""
        seen = range(max(begin - self.context, held.start), min(end + self.context, held.stop))
        around = range(max(seen.start - MARGIN_HOPS, held.start), min(seen.stop + MARGIN_HOPS, held.stop))
        audio = channel[(around.start - held.start) * HOP_SAMPLES : (around.stop - held.start) * HOP_SAMPLES]
        loudness = level(audio)
        host = stft(audio / loudness)[seen.start - around.start : seen.stop - around.start]
        seconds = np.arange(seen.start // FRAMES_PER_SECOND, -(-seen.stop // FRAMES_PER_SECOND))
        streams = self._carriers.stream(self._symbols[seconds % len(self._symbols)])
        first = seen.start - seconds[0] * FRAMES_PER_SECOND
        message = streams.reshape(-1, streams.shape[-1])[first:][: len(seen)]
        code = self._code[np.arange(seen.start, seen.stop) % FRAMES_PER_SECOND]
        residual = self._network.mark(host[None], message[None], code[None])[0]
        wave = istft(residual[begin - seen.start : end - seen.start])
        return np.asarray(wave * np.pad(loudness, EDGE_SAMPLES)[(begin - around.start) * HOP_SAMPLES :][: len(wave)])
