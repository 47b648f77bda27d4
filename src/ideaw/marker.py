"""The front door: load a model, mark audio, find the mark again; arrays, streams or files.

Marking: samples → 16 kHz → the network's residual → back to their rate → added to the original (`engine/embedder.py`).
Detection: the mix at 16 kHz → locating code → message; else channels apart, and other speeds (`detector.py`).
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio.blocks import ARRAY_BLOCK_SECONDS, Progress, split_blocks, with_progress
from ideaw.audio.formats import PathLike
from ideaw.audio.read import open_audio, read_blocks
from ideaw.audio.samples import (
    as_float,
    check_blocks,
    check_length,
    check_samples,
    check_source,
    integer_rate,
    quantisation_step,
)
from ideaw.audio.write import check_distinct, create_audio, stored_step
from ideaw.detector import STREAM_ANSWER_SECONDS, Detector
from ideaw.engine.embedder import MIN_WHOLE_LATENCY_SECONDS, WAIT_BEYOND_BLOCK_SECONDS, Embedder
from ideaw.engine.gain import SHORT_BOOSTS_DB, SHORT_SECONDS, MarkLevel, check_level
from ideaw.engine.live import LiveEmbedder, check_live_latency
from ideaw.engine.mixer import EmbedSettings
from ideaw.engine.network import Network, single_threaded_blas
from ideaw.errors import AudioError, IdeawError
from ideaw.hypotheses import Speeds
from ideaw.keys import PUBLIC, Key, require_key
from ideaw.models import find_model
from ideaw.payload.framing import plan_blocks
from ideaw.payload.message import Message, MessageLike, Plan
from ideaw.results import Detection
from ideaw.segment_marker import SegmentMarker
from ideaw.streams import MIN_SOUND_SHARE, EmbedStream, StartEmbedder, mark_asynchronously


def load(model: PathLike | None = None, *, key: Key = PUBLIC, threads: int | None = None) -> "Marker":
    """A marker that is ready to embed and detect.

    Args:
        model: name of a packaged model, or path of a model folder that you trust (None: the default, "46+10").
        key: marks made with it are found with no other. Keys separate owners and obscure what a message says; they do
            not hide that a mark is there, do not stop its removal, and a found mark alone does not prove who made it.
        threads: how many threads the network may use (None: all cores).

    Raises:
        ModelError: there is no such model, or it does not fit this version.
        IdeawError: `key` is no key, or `threads` is less than 1.
    """
    return Marker(Network(find_model(model), threads), require_key(key))


class Marker(SegmentMarker):
    """One model with a key; made by `load`. It may be shared between threads, and pickled while its key is public.

    Samples are `(n,)` or `(n, channels)` floats or integer PCM, 0.5 s or more, up to 16 channels; rates whole numbers
    of Hz from 8,000 to 192,000. `progress` is called with the share of the work that is done, 0 to 1. Files of more
    than `longest` seconds are refused (None: none).
    """

    @single_threaded_blas()
    def embed(
        self,
        samples: ArrayLike,
        rate: float,
        message: MessageLike,
        *,
        snr: float | None = None,
        audibility: float | None = None,
        progress: Progress | None = None,
    ) -> NDArray[Any]:
        """Samples, of the same shape and type, with the message in every second or spread over as many as it needs.

        Args:
            samples, rate, progress: see `Marker`.
            message: text, bytes, or a sequence of zeros and ones; `capacity` says how much fits.
            snr: dB that every second of every channel, counted from the start, keeps at least, instead of `audibility`.
            audibility: dB of noise to mask that hearing sets the level to (None: the card's, and up to 6 dB more where
                less than a second cannot be read else); lower is quieter.

        Raises:
            AudioError: the samples cannot be marked, the mark would round or clip away, or less than a second cannot
                be read back.
            MessageError: the message is empty, or does not fit into this audio.
            IdeawError: `snr` or `audibility` is out of range, or both are given.
        """
        floats = as_float(array := np.asarray(samples))
        rate, plan = check_samples(floats, rate), self._plan(message)
        plan.check_seconds(len(array) / rate)
        check_length(len(array), rate, least=self.card.min_seconds)
        step, short = quantisation_step(array.dtype), len(array) < SHORT_SECONDS * rate
        boosts = SHORT_BOOSTS_DB if short and snr is None and audibility is None else (None,)
        for boost in boosts:
            level = snr, audibility if boost is None else self.card.audibility + boost
            embedder = self._embedder(plan, rate, level, None, floats.shape[1], step)
            blocks = with_progress(split_blocks(array, ARRAY_BLOCK_SECONDS * rate), len(array), progress)
            marked = np.concatenate(list(embedder.run(blocks)))
            embedder.check()
            if embedder.marked_seconds < MIN_SOUND_SHARE * self.card.min_seconds:
                held = f"only {embedder.marked_seconds:.2f} s of the audio hold sound that can be marked"
                raise AudioError(f"{held}; at least {self.card.min_seconds:g} s is needed")
            if not short or self.detect(marked, rate, speeds="none").message == Message.of(message).content:
                return marked
        raise AudioError(f"the mark in these {len(array) / rate:.2f} s cannot be read back; longer audio can hold it")

    def embed_many(
        self, arrays: Sequence[ArrayLike], rate: float, messages: str | bytes | Sequence[MessageLike]
    ) -> list[NDArray[Any]]:
        """Mark many short pieces on all threads, at the level of the card.

        Args:
            arrays, rate: the pieces, each as the samples of `embed`, and the rate of all in Hz.
            messages: one text or bytes for all, or a list of one message for each piece.

        Raises:
            IdeawError: as `embed`, or there is another number of messages than of pieces.
        """
        texts = [messages] * len(arrays) if isinstance(messages, str | bytes) else list(messages)
        if len(texts) != len(arrays):
            raise IdeawError(f"{len(arrays)} arrays need one message, or a list of {len(arrays)}, not of {len(texts)}")
        alone = Marker(self.network.single_worker(), self._key)
        return self.network.map(lambda pair: alone.embed(pair[0], rate, pair[1]), list(zip(arrays, texts, strict=True)))

    def embed_stream(
        self,
        blocks: Iterable[ArrayLike],
        rate: float,
        message: MessageLike,
        *,
        snr: float | None = None,
        audibility: float | None = None,
        latency: float | None = None,
    ) -> EmbedStream:
        """Mark audio that arrives in blocks; what comes out, in blocks of other lengths, is as long as what went in.

        Args:
            blocks, rate, message, snr, audibility: as for `embed`; blocks of one type and number of channels.
            latency: seconds after which a sample comes out at the latest (None: 0.1, or 0.13 at other rates than 16
                kHz); more is faster, and from 3 on the stream is marked as an array is.

        Raises:
            IdeawError: as `embed`, after the last block what only the end can tell; or `latency` is too short.
        """
        return self._open_stream(check_blocks(blocks), rate, message, (snr, audibility), latency)

    def open_stream(
        self,
        rate: float,
        message: MessageLike,
        *,
        snr: float | None = None,
        audibility: float | None = None,
        latency: float | None = None,
    ) -> EmbedStream:
        """A stream whose blocks are pushed, with the arguments of `embed_stream`."""
        return self._open_stream(None, rate, message, (snr, audibility), latency)

    def aembed_stream(
        self, blocks: AsyncIterable[ArrayLike] | Iterable[ArrayLike], rate: float, message: MessageLike, **level: Any
    ) -> AsyncIterator[NDArray[Any]]:
        """`embed_stream` for asyncio: blocks are awaited, and marked in threads, so that the event loop goes on.

        Args:
            blocks, rate, message: as for `embed_stream`; blocks of an asynchronous iterable or a plain one.
            level: `snr`, `audibility` and `latency` of `embed_stream`.
        """
        return mark_asynchronously(self.open_stream(rate, message, **level), blocks)

    @single_threaded_blas()
    def embed_file(
        self,
        source: PathLike,
        target: PathLike,
        message: MessageLike,
        *,
        snr: float | None = None,
        audibility: float | None = None,
        longest: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Mark a file as another one, which appears whole or not at all; rate, channels, length and usual tags stay.

        Args:
            source, target: the two files; the target's extension gives its format.
            message, snr, audibility, longest, progress: as for `embed`, or see `Marker`.

        Raises:
            AudioError, MessageError, FileError: as `embed`; too long, or a file cannot be read or written.
        """
        check_distinct(source, target)
        plan = self._plan(message)
        with open_audio(source) as recording:
            rate, channels, length = recording.rate, recording.channels, recording.num_samples
            check_source(rate, channels, length, longest)
            plan.check_seconds(inf if length is None else length / rate)
            step = stored_step(target, recording.encoding)
            embedder = self._embedder(plan, rate, (snr, audibility), None, channels, step)
            with create_audio(target, rate, channels, recording.encoding, length) as write:
                for marked in embedder.run(with_progress(recording.checked_blocks(longest), length, progress)):
                    write(marked)
                plan.check_seconds(embedder.length / rate)
                embedder.check()
        if progress:
            progress(1.0)

    def detect(
        self,
        samples: ArrayLike,
        rate: float,
        *,
        keys: Sequence[Key] | None = None,
        speeds: Speeds = "near",
        progress: Progress | None = None,
    ) -> Detection:
        """Search samples for a mark: in their mix, then in all channels apart or in one, then at other speeds.

        Args:
            samples, rate, progress: see `Marker`.
            keys: whose marks are looked for (None: the marker's own key).
            speeds: tried where nothing is found: "near" up to 6 % off, "all" from 0.8 to 1.25, or "none".

        Raises:
            AudioError, IdeawError: the samples cannot be searched; `keys` holds none or no keys; `speeds` is not known.
        """
        rate = check_samples(floats := as_float(samples), rate)
        blocks = partial(split_blocks, floats, ARRAY_BLOCK_SECONDS * rate)
        return self._detector(keys, speeds).detect(blocks, rate, floats.shape[1], len(floats), progress)

    def detect_many(
        self, arrays: Sequence[ArrayLike], rate: float, *, keys: Sequence[Key] | None = None, speeds: Speeds = "near"
    ) -> list[Detection]:
        """Search many short pieces on all threads; arguments and errors as for `detect`."""
        alone = Marker(self.network.single_worker(), self._key)
        return self.network.map(lambda samples: alone.detect(samples, rate, keys=keys, speeds=speeds), list(arrays))

    def detect_stream(
        self,
        blocks: Iterable[ArrayLike],
        rate: float,
        *,
        keys: Sequence[Key] | None = None,
        latency: int = STREAM_ANSWER_SECONDS,
    ) -> Iterator[Detection]:
        """Search the mix of audio that arrives in blocks: an answer every few seconds, each a trial, and at the end.

        Args:
            blocks, rate, keys: as for `detect`; blocks of one number of channels.
            latency: seconds, 5 or more, within which a complete mark is reported; longer ones find fainter marks.

        Raises:
            IdeawError: as `detect`, or `latency` is too short.
        """
        yield from self._detector(keys, "none").detect_stream(blocks, integer_rate(rate), latency)

    def detect_file(
        self,
        path: PathLike,
        *,
        keys: Sequence[Key] | None = None,
        speeds: Speeds = "near",
        longest: float | None = None,
        progress: Progress | None = None,
    ) -> Detection:
        """Search the file at `path`, of any length.

        Args:
            keys, speeds, longest, progress: as for `detect`, or see `Marker`.

        Raises:
            AudioError, IdeawError, FileError: as `detect`; it is longer than `longest`, or cannot be read.
        """
        with open_audio(path) as recording:
            rate, channels, length = recording.rate, recording.channels, recording.num_samples
        check_source(rate, channels, length, longest)
        blocks = partial(read_blocks, path, longest)
        return self._detector(keys, speeds).detect(blocks, rate, channels, length, progress)

    def _plan(self, message: MessageLike) -> Plan:
        content, bits = Message.of(message), self.network.card.message_bits
        return content.plan(bits, self._key) if content.fits(bits) else plan_blocks(content, bits, self._key)

    def _open_stream(
        self,
        blocks: Iterable[ArrayLike] | None,
        rate: float,
        message: MessageLike,
        level: MarkLevel,
        latency: float | None,
    ) -> EmbedStream:
        plan, rate = self._plan(message), integer_rate(rate)
        seconds = check_live_latency(rate, latency)
        if seconds < MIN_WHOLE_LATENCY_SECONDS:
            start: StartEmbedder = partial(self._live_embedder, plan, rate, level, seconds)
        else:
            start = partial(self._embedder, plan, rate, level, int(seconds) - WAIT_BEYOND_BLOCK_SECONDS)
        check_level(*level, self.card.audibility)
        return EmbedStream(start, rate, plan, self.card.min_seconds, blocks)

    def _live_embedder(
        self, plan: Plan, rate: int, level: MarkLevel, latency: float, channels: int, step: float
    ) -> LiveEmbedder:
        settings = self._settings(rate, level, None, channels, step)
        return LiveEmbedder(self.network, self._channels, plan.period_payloads, settings, latency)

    def _embedder(
        self, plan: Plan, rate: int, level: MarkLevel, block_seconds: int | None, channels: int, step: float
    ) -> Embedder:
        settings = self._settings(rate, level, block_seconds, channels, step)
        return Embedder(self.network, self._channels, plan.period_payloads, settings)

    def _settings(
        self, rate: int, level: MarkLevel, block_seconds: int | None, channels: int, step: float
    ) -> EmbedSettings:
        snr, audibility = check_level(*level, self.card.audibility)
        return EmbedSettings(rate, channels, snr, step, block_seconds, audibility or 0.0)

    def _detector(self, keys: Sequence[Key] | None, speeds: str) -> Detector:
        return Detector(self.network, [self._key] if keys is None else list(map(require_key, keys)), speeds)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._key != PUBLIC:
            raise TypeError("a marker with a secret key is not pickled; load() it with its key where it is needed")
        return partial(load, self.network.files.source, threads=self.network.threads), ()
