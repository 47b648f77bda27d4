"""Marks audio that arrives in blocks: arrays, files of hours and live streams, in constant memory.

The way of a sample: down to 16 kHz → the network's residual → back up to the rate of the audio → the gain that keeps
the SNR of every second → added to the untouched original. Each step goes by places counted from the beginning of the
audio, never by what happened to arrive together, so the result is the same to the last bit however the audio is cut,
and with any number of threads up to rounding.
"""

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import EDGE_SAMPLES, FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.audio.level import NEAR, level
from ideaw.audio.resample import DELAY, Resampler, network_length
from ideaw.audio.stft import istft, stft
from ideaw.engine.network import Network
from ideaw.engine.strength import Curve, energy, limit, limit_on_grid, on_grid

BLOCK = 10
"""Seconds of a block, unless told otherwise. Shorter ones pay more for their context, longer ones take more memory."""

MARGIN = NEAR + 2
"""Hops beyond the context that a block needs: windows reach out by EDGE_SAMPLES, and the level there looks around by NEAR."""

AHEAD = -(-(EDGE_SAMPLES + int(DELAY * SAMPLE_RATE)) // HOP_SAMPLES)
"""Frames that a block goes on after its last second, so that this second is complete when it has been resampled."""


class Embedding:
    """Marks audio of `channels` at `rate` Hz that arrives in blocks.

    Second k, counted from the beginning, carries `frames[k % period]` of (period, message_bits) zeros and ones, and
    every second carries `code` (code_bits,). Every second of every channel keeps at least `snr` dB. What is added is in
    multiples of `step`, unless that is 0. Channels that are alike are marked alike, and once. `block` is how many whole
    seconds are marked at once, in parts: it decides about latency, time and memory, and changes nothing else.
    """

    def __init__(
        self,
        network: Network,
        frames: NDArray[np.integer],
        code: NDArray[np.integer],
        rate: int,
        channels: int,
        snr: float,
        step: float,
        block: int = BLOCK,
    ) -> None:
        self._rate, self._channels, self.snr, self._step, self._block = rate, channels, snr, step, block
        self._down, self._up = Resampler(rate, SAMPLE_RATE, channels), Resampler(SAMPLE_RATE, rate, channels)
        self._residual = _Residual(network, frames, code, channels, block)
        self._curve = Curve(rate)
        self._narrow_audio, self._narrow_residual = _Line(channels), _Line(channels)
        self._wide_audio, self._wide_residual = _Line(channels), _Line(channels)
        self._seconds = 0
        self._energy = self._narrow_energy = self._intended = self._kept = 0.0

    def push(self, samples: NDArray[np.floating]) -> NDArray[np.float64]:
        """(n, channels) that come next → (m, channels): those marked samples that nothing to come can change."""
        settled = [np.empty((0, self._channels))]
        for start in range(0, len(samples), self._rate):
            piece = np.array(samples[start : start + self._rate], np.float64)  # the caller may use its buffer again
            self._wide_audio.put(piece)
            self._mark(self._down.push(piece))
            while self._wide_residual.end >= (self._seconds + 1) * self._rate:
                settled.append(self._settle())
        return np.concatenate(settled)

    def finish(self) -> NDArray[np.float64]:
        """The rest: then as many samples have come out as went in. Nothing can be pushed any more."""
        length = self._wide_audio.end
        self._mark(self._down.finish(network_length(length, self._rate)))
        self._add(self._residual.finish())
        self._wide_residual.put(self._up.finish(length))
        settled = [self._settle() for _ in range(self._seconds, -(-length // self._rate))]
        rest = [self._strengthen(self._curve.finish())] if length else []
        return np.concatenate([np.empty((0, self._channels)), *settled, *rest])

    @property
    def latency(self) -> float:
        """Seconds from a sample's going in to its coming out, at most: `block` + 2, and a little less at 16 kHz.

        Longest waits a sample just after the middle of a second, because its gain depends on the next second too: that
        ends 1.5 s later, and if it is the first of a block, the block ends `block` − 1 s after that. A block goes on
        for AHEAD frames, the network sees its context beyond these, the level of which needs MARGIN more, and DELAY
        of all that is kept back on its way to 16 kHz.
        """
        hops = AHEAD + self._residual.context + MARGIN
        return 0.5 + self._block + hops * HOP_SAMPLES / SAMPLE_RATE + (DELAY if self._rate != SAMPLE_RATE else 0.0)

    # What only the end can tell: whether there was anything to hide a mark under, and whether it survived rounding.

    @property
    def power(self) -> float:
        """Mean square of the samples that came out so far, before they were marked."""
        return self._energy / max(self._wide_audio.start * self._channels, 1)

    @property
    def narrow_power(self) -> float:
        """Mean square of the same at 16 kHz, up to whole seconds: what the network can hide a mark under."""
        return self._narrow_energy / max(self._narrow_audio.start * self._channels, 1)

    @property
    def left(self) -> float:
        """Share of the mark that is left after it was held to its SNR in multiples of `step`; 1 if there was none."""
        return self._kept / self._intended if self._intended else 1.0

    def _mark(self, audio: NDArray[np.float32]) -> None:
        """Take (n, channels) at 16 kHz."""
        self._narrow_audio.put(audio)
        self._add(self._residual.push(audio))

    def _add(self, residual: NDArray[np.float32]) -> None:
        """Take (n, channels) of the network's residual at 16 kHz."""
        self._narrow_residual.put(residual)
        self._wide_residual.put(self._up.push(residual))

    def _settle(self) -> NDArray[np.float64]:
        """Find the gain of the next second; (m, channels) of marked samples, up to its middle.

        The network's band alone says how strong the mark is meant to be, since nothing above it hides the mark; the
        samples as they are say how much of that can stay.
        """
        second, self._seconds = self._seconds, self._seconds + 1
        residual, audio = (
            self._narrow_residual.second(second, SEGMENT_SAMPLES),
            self._narrow_audio.second(second, SEGMENT_SAMPLES),
        )
        self._narrow_energy += float(energy(audio).sum())
        intended = limit(residual, audio, self.snr)
        for line in (self._narrow_residual, self._narrow_audio):
            line.drop(self._seconds * SEGMENT_SAMPLES)
        residual, audio = self._wide_residual.second(second, self._rate), self._wide_audio.second(second, self._rate)
        possible = limit_on_grid(residual, audio, self.snr, self._step, intended)
        return self._strengthen(self._curve.push(np.stack([intended, possible])))

    def _strengthen(self, gains: NDArray[np.float64]) -> NDArray[np.float64]:
        """The next marked samples, from their gains (n, 2, channels): as intended, and as possible."""
        start = self._wide_audio.start
        audio, residual = (line.cut(start, start + len(gains)) for line in (self._wide_audio, self._wide_residual))
        for line in (self._wide_audio, self._wide_residual):
            line.drop(start + len(gains))
        intended, possible = (residual * gains[: len(residual), kind] for kind in range(2))
        added = on_grid(possible, self._step)
        self._energy += float(np.vdot(audio, audio))
        self._intended += float(np.vdot(intended, intended))
        self._kept += float(np.vdot(added, intended))
        return audio + added


class _Residual:
    """What the network adds to audio at 16 kHz that arrives in pieces, before its strength is settled.

    The network is made of convolutions over frames, so a block with as many frames of context on both sides as the
    network can see gives what one pass over everything would give.
    """

    def __init__(
        self, network: Network, frames: NDArray[np.integer], code: NDArray[np.integer], channels: int, block: int
    ) -> None:
        self._network, self._block = network, block * FRAMES_PER_SECOND
        self.context = network.card.context["mark"]
        self._messages = network.message.values(frames) * network.mask(code)
        self._code = network.code.carriers.stream(network.code.values(code))
        self._audio, self._waves = _Line(channels), _Line(channels, -EDGE_SAMPLES)
        self._overlap = np.zeros((2 * EDGE_SAMPLES, channels), np.float32)
        self._begin, self._end = 0, self._block + AHEAD

    def push(self, audio: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, channels) that come next → (m, channels) of the residual."""
        self._audio.put(audio)
        while (self._end + self.context + MARGIN) * HOP_SAMPLES <= self._audio.end:
            self._next(self._audio.end // HOP_SAMPLES)
        settled = self._waves.cut(0, self._waves.end)
        self._waves.drop(self._waves.end)
        return settled

    def finish(self) -> NDArray[np.float32]:
        """The rest, until the residual is as long as the audio."""
        length = self._audio.end
        frames = -(-length // HOP_SAMPLES)
        self._audio.put(np.zeros((frames * HOP_SAMPLES - length, self._overlap.shape[1]), np.float32))
        while self._begin < frames:
            self._next(frames)
        self._waves.put(self._overlap)
        return self._waves.cut(0, length)

    def _next(self, frames: int) -> None:
        """Mark the next block of audio, of which there are `frames`."""
        begin, end = self._begin, min(self._end, frames)
        held = range(max(begin - self.context - MARGIN, 0), min(end + self.context + MARGIN, frames))
        audio = self._audio.cut(held.start * HOP_SAMPLES, held.stop * HOP_SAMPLES)
        contents = [channel.tobytes() for channel in audio.T]
        waves = self._residuals(dict(zip(contents, audio.T, strict=True)), held, begin, end)
        wave = np.stack([waves[content] for content in contents], 1)
        wave[: 2 * EDGE_SAMPLES] += self._overlap
        self._waves.put(wave[: -2 * EDGE_SAMPLES])
        self._overlap = wave[-2 * EDGE_SAMPLES :]
        self._begin, self._end = end, end + self._block
        self._audio.drop((end - self.context - MARGIN) * HOP_SAMPLES)

    def _residuals(
        self, channels: dict[bytes, NDArray[np.float32]], held: range, begin: int, end: int
    ) -> dict[bytes, NDArray[np.float32]]:
        """(held · HOP_SAMPLES,) audio of channels → what marks the frames from `begin` to `end`, and EDGE_SAMPLES to either side."""
        parts = [(name, *part) for name in channels for part in self._network.parts(begin, end, end - begin)]
        pieces = self._network.each(lambda part: self._piece(channels[part[0]], held, *part[1:]), parts)
        waves = {name: np.zeros((end - begin) * HOP_SAMPLES + 2 * EDGE_SAMPLES, np.float32) for name in channels}
        for (name, first, _), piece in zip(parts, pieces, strict=True):
            waves[name][(first - begin) * HOP_SAMPLES :][: len(piece)] += piece
        return waves

    def _piece(self, channel: NDArray[np.float32], held: range, begin: int, end: int) -> NDArray[np.float32]:
        """(held · HOP_SAMPLES,) audio → what marks some of its frames, and EDGE_SAMPLES to either side; the network sees more."""
        seen = range(max(begin - self.context, held.start), min(end + self.context, held.stop))
        around = range(max(seen.start - MARGIN, held.start), min(seen.stop + MARGIN, held.stop))
        audio = channel[(around.start - held.start) * HOP_SAMPLES : (around.stop - held.start) * HOP_SAMPLES]
        loudness = level(audio)
        host = stft(audio / loudness)[seen.start - around.start : seen.stop - around.start]
        seconds = np.arange(seen.start // FRAMES_PER_SECOND, -(-seen.stop // FRAMES_PER_SECOND))
        laid = self._network.message.carriers.stream(self._messages[seconds % len(self._messages)])
        message = laid.reshape(-1, laid.shape[-1])[seen.start - seconds[0] * FRAMES_PER_SECOND :][: len(seen)]
        code = self._code[np.arange(seen.start, seen.stop) % FRAMES_PER_SECOND]
        residual = self._network.mark(host[None], message[None], code[None])[0]
        wave = istft(residual[begin - seen.start : end - seen.start])
        return wave * np.pad(loudness, EDGE_SAMPLES)[(begin - around.start) * HOP_SAMPLES :][: len(wave)]


class _Line:
    """Samples (n, channels) on their way: each has its place, counted from the beginning, until it is dropped."""

    def __init__(self, channels: int, start: int = 0) -> None:
        self._pieces: list[NDArray] = [np.empty((0, channels), np.float32)]
        self.start = self.end = start

    def put(self, samples: NDArray) -> None:
        self._pieces.append(samples)
        self.end += len(samples)

    def cut(self, start: int, stop: int) -> NDArray:
        """What is held of the samples from `start` to `stop`."""
        return self._joined()[max(start - self.start, 0) : max(stop - self.start, 0)]

    def second(self, number: int, length: int) -> NDArray:
        """A second of `length` samples; the last may be shorter."""
        return self.cut(number * length, (number + 1) * length)

    def drop(self, until: int) -> None:
        """Forget the samples before `until`."""
        kept = self.cut(until, self.end)
        self._pieces, self.start = [kept], self.end - len(kept)

    def _joined(self) -> NDArray:
        if len(self._pieces) != 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]
