"""The front door: load a model, mark audio, find the mark again; arrays or files.

Marking goes: samples → 16 kHz, channel by channel → the network's residual → back to the rate of the
samples → added to the untouched original. Detection goes: the mix at 16 kHz → the code's place → the message; where
that says nothing, the same with the channels apart, and at other speeds.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio import files
from ideaw.audio.buffer import Progress, SampleBuffer, split_blocks, with_progress
from ideaw.audio.checks import (
    MIN_LEVEL_DBFS,
    check_channels,
    check_finite,
    check_length,
    check_not_silent,
    check_rate,
    check_samples,
)
from ideaw.audio.grid import FRAMES_PER_SECOND, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.audio.pcm import as_float, quantisation_step, restore
from ideaw.audio.resample import Resampler, mix, network_length
from ideaw.detector import decide
from ideaw.engine.blas import single_threaded
from ideaw.engine.embedding import BLOCK, Embedding
from ideaw.engine.excerpts import ALL, CLOSER, NEAR, are_apart, best_channels, best_speed, enough
from ideaw.engine.network import Card, Network
from ideaw.engine.scan import WORTH_READING
from ideaw.engine.search import CHUNK, Search
from ideaw.engine.segments import embed_segments, extract_segments
from ideaw.engine.strength import fit_to_grid
from ideaw.errors import AudioError, IdeawError, MessageError, ModelError
from ideaw.keys import PUBLIC, Key
from ideaw.modem.locating_code import locating_code
from ideaw.payload.framing import Plan, capacity
from ideaw.payload.message import Message
from ideaw.results import Detection

DEFAULT_MODEL = "46+10"

Speeds = Literal["none", "near", "all"]
_SPEEDS: dict[Speeds, tuple[float, ...]] = {"none": (), "near": NEAR, "all": ALL}

LOWEST_SNR, HIGHEST_SNR = 0.0, 100.0
"""SNRs in dB that can be asked for."""

STREAM_BLOCK = 2
"""Seconds that are marked at once in a stream, where they are waited for."""

MOST_HELD = 4_000_000
"""Samples of all channels that are marked at once, at most, unless a stream's block holds more."""

STREAM_LATENCY = 10
"""Seconds that a search in a stream may take, unless it is told otherwise."""

BLOCK_SECONDS = 5
"""Seconds of an array that are taken at once."""

LEFT = 0.25
"""Share of a mark that must be left when it is rounded to the samples' width: at 0.17 it was lost, at 0.26 found."""

UNCLIPPED = 0.7
"""Share of a mark that must be left where samples are kept within full scale: at 0.67 it was lost, at 0.74 found."""

Given = str | bytes | Iterable[int | bool]
"""A message as users give it: text, bytes, or a sequence of zeros and ones."""


def model_names() -> list[str]:
    """The names of the packaged models."""
    return sorted(entry.name for entry in _packaged().iterdir() if entry.joinpath("card.json").is_file())


def model_folder(name: str) -> Traversable:
    """Where a packaged model lies."""
    return _packaged().joinpath(name)


def _packaged() -> Traversable:
    return resources.files("ideaw").joinpath("weights")


def load(model: str | os.PathLike[str] | None = None, *, key: Key = PUBLIC, threads: int | None = None) -> "Marker":
    """A marker with a packaged model (by its name; None: the default) or with the model folder at a path.

    Marks made with a `key` are found with no other. `threads` is how many the network may use (None: all cores).
    """
    name = DEFAULT_MODEL if model is None else os.fspath(model)
    if name in (known := model_names()):
        return Marker(Network(model_folder(name), threads, _packaged()), key)
    if Path(name).is_dir():
        return Marker(Network(Path(name), threads), key)
    packaged = ", ".join(known) or "none"
    raise ModelError(f'there is no model "{name}"; packaged: {packaged}; or give the path of a model folder')


class Marker:
    """One model, ready to mark and to find with a key; made by `load`. It may be shared between threads."""

    def __init__(self, network: Network, key: Key = PUBLIC) -> None:
        self._network, self._key = network.with_key(key), key
        self._code = locating_code(network.card.code_bits, key)

    @property
    def card(self) -> Card:
        """What the model says about itself."""
        return self._network.card

    @property
    def weights(self) -> str:
        """Which weights these are, as sixteen digits: models of one name may be trained anew."""
        return self._network.weights

    @property
    def message_bits(self) -> int:
        """Message bits in one second."""
        return self.card.message_bits

    @property
    def code_bits(self) -> int:
        """Bits of the locating code."""
        return self.card.code_bits

    # Audio of any length

    def embed(
        self,
        samples: ArrayLike,
        rate: int,
        message: Given,
        *,
        snr: float | None = None,
        progress: Progress | None = None,
    ) -> NDArray:
        """`(n,)` or `(n, channels)` samples with the message in every second; shape, rate and type stay.

        Every second of every channel keeps at least `snr` dB (None: what the model's card says). A message that does
        not fit into one second is spread over as many as it needs.
        """
        array = np.asarray(samples)
        floats = as_float(array)
        check_samples(floats, rate)
        plan = Plan.of(Message.of(message), self.message_bits, self._key)
        plan.payloads_for(len(floats) / rate)
        marking = self._marking(plan, int(rate), floats.shape[1], snr, quantisation_step(array.dtype))
        blocks = with_progress(split_blocks(array, BLOCK_SECONDS * int(rate)), len(array), progress)
        marked = np.concatenate([*map(marking.push, blocks), marking.finish()])
        marking.check()
        return marked

    def embed_stream(
        self,
        blocks: Iterable[ArrayLike],
        rate: int,
        message: Given,
        *,
        snr: float | None = None,
        latency: int = STREAM_BLOCK + 2,
    ) -> Iterator[NDArray]:
        """Mark audio that arrives in blocks; what comes out, in blocks of other lengths, is as long as what went in.

        A sample comes out at most `latency` seconds after it went in: 3 or more, and the more the faster. A stream may
        end before a long message was written once; `capacity` says how much fits into how many seconds.
        """
        _check_latency(latency, 3)
        plan = Plan.of(Message.of(message), self.message_bits, self._key)
        check_rate(rate)
        marking = None
        for block in blocks:
            array = np.asarray(block)
            floats = as_float(array)
            check_finite(floats)
            if marking is None:
                marking = self._marking(plan, rate, floats.shape[1], snr, quantisation_step(array.dtype), latency - 2)
            marked = marking.push(array)
            if len(marked):
                yield marked
        if marking is not None:
            yield marking.finish()

    def detect(
        self,
        samples: ArrayLike,
        rate: int,
        *,
        keys: Sequence[Key] | None = None,
        speeds: Speeds = "near",
        progress: Progress | None = None,
    ) -> Detection:
        """Search `(n,)` or `(n, channels)` samples for a mark: in their mix, then in all channels apart, or in one.

        With `keys` for the marks of any of them. Where nothing is found, other `speeds` are tried: those "near" by, up
        to 6 % off; "all" from 0.8 to 1.25; "none".
        """
        floats = as_float(samples)
        check_samples(floats, rate)
        length, channels = floats.shape
        blocks = partial(split_blocks, floats, BLOCK_SECONDS * int(rate))
        return self._detect(blocks, int(rate), channels, length, self._keys(keys), speeds, progress)

    def detect_stream(
        self,
        blocks: Iterable[ArrayLike],
        rate: int,
        *,
        keys: Sequence[Key] | None = None,
        latency: int = STREAM_LATENCY,
    ) -> Iterator[Detection]:
        """Search audio that arrives in blocks, in its mix: what is known by now, every few seconds and at the end.

        A mark is told at most `latency` seconds after it was complete: 5 or more, and the more the surer, since only
        the seconds of so long a stretch add up. The longer it takes, the surer one must be: all answers count.
        """
        _check_latency(latency, 5)
        check_rate(rate)
        tried = self._keys(keys)
        search = self._search(tried)
        search.chunk = latency * FRAMES_PER_SECOND - search.margin
        resampler, length, chunks = Resampler(rate, SAMPLE_RATE, 1), 0, 0
        for block in blocks:
            floats = as_float(block)
            check_finite(floats)
            length += len(floats)
            with single_threaded():
                search.push(resampler.push(mix(floats)[:, None]))
                answer = decide(search, tried, length / rate, search.chunks) if search.chunks > chunks else None
            if answer is not None:
                chunks = search.chunks
                yield answer
        with single_threaded():
            search.push(resampler.finish(network_length(length, rate)))
            search.finish()
            answer = decide(search, tried, length / rate, max(search.chunks, 1))
        yield answer

    def capacity(self, seconds: float) -> int:
        """How many bytes of text or other data fit into audio of so many seconds; 0 if it is too short for any."""
        return capacity(seconds, self.message_bits)

    def embed_file(
        self,
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        message: Given,
        *,
        snr: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Mark the file `source` as `target`, whose extension gives the format; it appears whole or not at all."""
        files.check_distinct(source, target)
        plan = Plan.of(Message.of(message), self.message_bits, self._key)
        with files.open_audio(source) as recording:
            rate, channels, frames = recording.rate, recording.channels, recording.num_samples
            check_rate(rate)
            check_channels(channels)
            step = files.quantisation_step(target, recording.encoding)
            marking = self._marking(plan, rate, channels, snr, step)
            if frames is not None:
                check_length(frames, rate)
                plan.payloads_for(frames / rate)
            length = 0
            with files.create_audio(target, rate, channels, recording.encoding, frames) as write:
                for block in with_progress(recording.blocks(), frames, progress):
                    check_finite(block)
                    length += len(block)
                    write(marking.push(block))
                if length:
                    write(marking.finish())
                check_length(length, rate)
                plan.payloads_for(length / rate)
                marking.check()
        if progress:
            progress(1.0)

    def detect_file(
        self,
        path: str | os.PathLike[str],
        *,
        keys: Sequence[Key] | None = None,
        speeds: Speeds = "near",
        progress: Progress | None = None,
    ) -> Detection:
        """Search the file at `path` for a mark; see `detect`."""

        def blocks() -> Iterator[NDArray[np.float64]]:
            with files.open_audio(path) as recording:
                length = 0
                for block in recording.blocks():
                    check_finite(block)
                    length += len(block)
                    yield block
                check_length(length, recording.rate)

        with files.open_audio(path) as recording:
            rate, channels, frames = recording.rate, recording.channels, recording.num_samples
        check_rate(rate)
        check_channels(channels)
        if frames is not None:
            check_length(frames, rate)
        return self._detect(blocks, rate, channels, frames, self._keys(keys), speeds, progress)

    # The paper's own level: one-second segments at 16 kHz whose location is known

    @single_threaded()
    def embed_segment(
        self, x: ArrayLike, message_bits: ArrayLike, code_bits: ArrayLike, snr: float | None = None
    ) -> NDArray:
        """`(16000,)` or `(batch, 16000)` with `(…, bits)` zeros and ones in it, `snr` dB below; shape and type stay."""
        array = np.asarray(x)
        audio = _segments(array)
        message = _bits(message_bits, len(audio), self.message_bits, "message")
        code = _bits(code_bits, len(audio), self.code_bits, "code")
        wanted = self._snr(snr)
        marked = embed_segments(self._network, audio, message, code, wanted)
        pairs = zip(audio, marked - audio, strict=True)
        fitted = [fit_to_grid(residual, host, wanted, SEGMENT_SAMPLES, quantisation_step(array.dtype)) for host, residual in pairs]
        return restore(audio + np.stack(fitted), array)

    @single_threaded()
    def extract_segment(self, y: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """`(16000,)` or `(batch, 16000)` → logits of message and code, `(bits,)` or `(batch, bits)`; positive = 1."""
        array = np.asarray(y)
        message, code = extract_segments(self._network, _segments(array))
        return (message[0], code[0]) if array.ndim == 1 else (message, code)

    def _marking(
        self, plan: Plan, rate: int, channels: int, snr: float | None, step: float, block: int | None = None
    ) -> "_Marking":
        self._check_code()
        block = block or min(BLOCK, max(STREAM_BLOCK, MOST_HELD // (rate * channels)))
        return _Marking(Embedding(self._network, plan.period_payloads, self._code, rate, channels, self._snr(snr), step, block))

    @single_threaded()
    def _detect(
        self,
        blocks: Callable[[], Iterable[NDArray[np.floating]]],
        rate: int,
        channels: int,
        length: int | None,
        keys: Sequence[Key],
        speeds: Speeds,
        progress: Progress | None,
    ) -> Detection:
        """The answer for audio that can be gone through in blocks again and again, of `length` if that is known."""
        grid = _SPEEDS[speeds]
        looks = (2 + channels if channels > 1 else 1) + len(grid) * (1 + len(CLOSER))  # those that there may be

        def look(
            through: Iterable[NDArray[np.floating]], apart: Sequence[int] | None = None, pace: float = 1.0
        ) -> Detection:
            voices = len(apart) if apart else 1
            search, resampler, done = self._search(keys, voices), Resampler(rate / pace, SAMPLE_RATE, voices), 0
            for block in through:
                done += len(block)
                search.push(resampler.push(block[:, apart] if apart else mix(block)[:, None]))
            search.push(resampler.finish(round(network_length(done, rate) * pace)))
            search.finish()
            return decide(search, keys, done / rate, looks, pace)

        loud = enough(rate, channels)
        best = look(loud.through(with_progress(blocks(), length, progress)))
        search, excerpt = self._search(keys), loud.samples
        every = list(range(channels)) if channels > 1 and not best.found and are_apart(excerpt) else None
        if every:
            apart, chance = best_channels(search, excerpt, rate)
            if chance < WORTH_READING:
                best = min(best, look(blocks(), apart), key=_surest)
        if not best.found and grid:
            pace, chance = best_speed(search, excerpt if every else mix(excerpt)[:, None], rate, grid)
            if chance < WORTH_READING:
                best = min(best, look(blocks(), every, pace), key=_surest)
        if progress:
            progress(1.0)
        return best

    def _keys(self, keys: Sequence[Key] | None) -> Sequence[Key]:
        """The keys to look for: the marker's own, unless others are given."""
        if keys is not None and not keys:
            raise IdeawError("there are no keys to look for; give at least one")
        return [self._key] if keys is None else list(keys)

    def _search(self, keys: Sequence[Key], voices: int = 1) -> Search:
        """A search for the marks of some keys, in about as much memory for several voices as for one."""
        self._check_code()
        codes = [locating_code(self.code_bits, key) for key in keys]
        return Search([self._network.with_key(key) for key in keys], codes, CHUNK // voices)

    def _check_code(self) -> None:
        if not self.code_bits:
            raise ModelError(
                f"the model {self.card.name} has no locating code: its marks can only be read at known places"
            )

    def _snr(self, snr: float | None) -> float:
        wanted = self.card.snr if snr is None else snr
        if not isinstance(wanted, int | float | np.number) or not LOWEST_SNR <= wanted <= HIGHEST_SNR:
            raise IdeawError(f"an SNR of {wanted} cannot be kept; give {LOWEST_SNR:g} to {HIGHEST_SNR:g} dB")
        return float(wanted)


class _Marking:
    """Marks samples of any type that arrive in blocks; what comes out is of their type, and within full scale."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding, self._originals = embedding, SampleBuffer()
        self._meant = self._left = 0.0

    @single_threaded()
    def push(self, block: NDArray) -> NDArray:
        """Go on with `(n,)` or `(n, channels)`; maybe nothing comes out yet."""
        self._originals.append(block)
        marked = self._embedding.push(as_float(block))
        return self._restored(marked) if len(marked) else block[:0]

    @single_threaded()
    def finish(self) -> NDArray:
        """The rest."""
        return self._restored(self._embedding.finish())

    def check(self) -> None:
        """Raises `AudioError` if there was nothing to hide a mark under, or too little of it is left."""
        embedding = self._embedding
        check_not_silent(embedding.power)
        if embedding.narrow_power < 10 ** (MIN_LEVEL_DBFS / 10):
            raise AudioError(f"the audio is silent below {SAMPLE_RATE // 2} Hz; a mark needs sound to hide under there")
        if embedding.left < LEFT:
            raise AudioError(
                f"too quiet: a mark {embedding.snr:g} dB below this audio rounds away; use wider samples or a lower SNR"
            )
        if self._left < UNCLIPPED * self._meant:
            raise AudioError(
                f"too loud: a mark {embedding.snr:g} dB below this audio is clipped away; make the audio quieter"
            )

    def _restored(self, marked: NDArray[np.float64]) -> NDArray:
        """Marked samples as the original ones were; and how much of the mark that leaves of it."""
        original = self._originals.pop(len(marked))
        out, before = restore(marked, original), as_float(original)
        added = marked - before
        self._meant += float(np.vdot(added, added))
        self._left += float(np.vdot(as_float(out) - before, added))
        return out


def _surest(answer: Detection) -> tuple[bool, float]:
    return not answer.found, answer.p_value


def embed_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    message: Given,
    *,
    model: str | None = None,
    snr: float | None = None,
    progress: Progress | None = None,
) -> None:
    """Mark the file `source` as `target`; see `Marker.embed_file`."""
    _shared(model).embed_file(source, target, message, snr=snr, progress=progress)


def detect_file(
    path: str | os.PathLike[str],
    *,
    model: str | None = None,
    keys: Sequence[Key] | None = None,
    speeds: Speeds = "near",
    progress: Progress | None = None,
) -> Detection:
    """Search the file at `path` for a mark; see `Marker.detect`."""
    return _shared(model).detect_file(path, keys=keys, speeds=speeds, progress=progress)


_shared = cache(load)


def _check_latency(latency: int, least: int) -> None:
    if latency < least:
        raise IdeawError(f"a latency of {latency} s is too short; give {least} s or more")


def _segments(array: NDArray) -> NDArray[np.float64]:
    """`(16000,)` or `(batch, 16000)` as `(batch, 16000)` floats; `AudioError` for anything else."""
    if array.ndim not in (1, 2) or array.shape[-1] != SEGMENT_SAMPLES or not array.size:
        raise AudioError(
            f"segments of shape {array.shape} cannot be used; give ({SEGMENT_SAMPLES},) or (batch, {SEGMENT_SAMPLES})"
        )
    audio = as_float(np.atleast_2d(array))
    if not np.isfinite(audio).all():
        raise AudioError("some samples are NaN or infinite; replace them, for instance with numpy.nan_to_num")
    return audio


def _bits(given: ArrayLike, batch: int, count: int, what: str) -> NDArray[np.uint8]:
    """Zeros and ones `(count,)` or `(batch, count)` as `(batch, count)`; else `MessageError`."""
    bits = np.asarray(given)
    if bits.shape not in ((count,), (batch, count)):
        raise MessageError(f"{what} bits of shape {bits.shape} do not fit; give ({count},) or ({batch}, {count})")
    if bits.dtype.kind not in "biuf" or not np.isin(bits, (0, 1)).all():
        raise MessageError(f"the {what} bits are not all 0 or 1")
    return np.broadcast_to(bits.astype(np.uint8), (batch, count))
