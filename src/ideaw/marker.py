"""The front door: load a model, mark audio, find the mark again; arrays, streams or files.

Marking: samples → 16 kHz → the network's residual → back to their rate → added to the original (`engine/embedder.py`).
Detection: the mix at 16 kHz → locating code → message; else channels apart, other speeds and tempos (`detector.py`),
and the deep layer (`layered_detector.py`).
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio.blocks import ARRAY_BLOCK_SECONDS, Progress, run_stage, split_blocks, with_progress
from ideaw.audio.formats import PathLike
from ideaw.audio.read import open_audio, read_blocks
from ideaw.audio.samples import as_float, check_blocks, check_samples, check_source, integer_rate, quantisation_step
from ideaw.audio.spool import AudioInput, AudioOutput, as_path, as_paths
from ideaw.detector import STREAM_ANSWER_SECONDS
from ideaw.engine.gain import MIN_UNREAD_SECONDS, SHORT_SECONDS, MarkLevel, check_level
from ideaw.engine.live import check_live_latency
from ideaw.engine.network import Network, single_threaded_blas
from ideaw.errors import AudioError, IdeawError
from ideaw.file_marking import FileMarking
from ideaw.hypotheses import Speeds
from ideaw.keys import PUBLIC, Key, require_key
from ideaw.layered_detector import LayeredDetector, check_expected, check_proof
from ideaw.layered_embedder import EmbedRequest
from ideaw.layers import ALL_LAYERS, FAST_ALONE, LayersLike, check_layers, default_layers
from ideaw.models import find_model
from ideaw.payload.message import Message, MessageLike
from ideaw.results import Detection
from ideaw.segment_marker import SegmentMarker
from ideaw.streams import EmbedStream, mark_asynchronously


def load(
    model: PathLike | None = None, *, key: Key = PUBLIC, older_keys: Sequence[Key] = (), threads: int | None = None
) -> "Marker":
    """A marker that is ready to embed and detect.

    Args:
        model: name of a packaged model, or path of a model folder that you trust (None: the default, "46+10").
        key: marks made with it are found with no other. Keys separate owners and obscure what a message says; they do
            not hide that a mark is there, do not stop its removal, and a found mark alone does not prove who made it.
        older_keys: keys that marked before `key` did: their marks are looked for and respected too.
        threads: how many threads the network may use (None: all cores).

    Raises:
        ModelError: there is no such model, or it does not fit this version.
        IdeawError: a key is none, or `threads` is less than 1.
    """
    return Marker(Network(find_model(model), threads), require_key(key), tuple(map(require_key, older_keys)))


class Marker(SegmentMarker):
    """One model with a key; made by `load`. It may be shared between threads, and pickled while its key is public.

    Samples are `(n,)` or `(n, channels)` floats or integer PCM, 0.5 s or more, up to 16 channels; rates whole numbers
    of Hz from 8,000 to 192,000. `progress` is called with the share of the work that is done, 0 to 1. Files of more
    than `longest` seconds are refused (None: none).
    """

    def __init__(self, network: Network, key: Key = PUBLIC, older_keys: tuple[Key, ...] = ()) -> None:
        super().__init__(network, key)
        self._keys = tuple(dict.fromkeys((key, *older_keys)))

    @property
    def key_fingerprint(self) -> str:
        """Fingerprint of the key that it marks with (`Key.fingerprint`)."""
        return self._key.fingerprint

    @single_threaded_blas()
    def embed(
        self,
        samples: ArrayLike,
        rate: float,
        message: MessageLike,
        *,
        snr: float | None = None,
        audibility: float | None = None,
        layers: LayersLike | None = None,
        progress: Progress | None = None,
    ) -> NDArray[Any]:
        """Samples, of the same shape and type, with the message in every second or spread over as many as it needs.

        Args:
            samples, rate, progress: see `Marker`.
            message: text, bytes, or a sequence of zeros and ones; `capacity` says how much fits.
            snr: dB that every second of every channel, counted from the start, keeps at least, instead of `audibility`.
            audibility: dB of noise to mask that hearing sets the level to (None: the card's, and up to 6 dB more where
                less than two seconds cannot be read else); lower is quieter.
            layers: of the mark: "fast", the network's, whose level `snr` or `audibility` sets, and "deep", in the
                loudness of bands, which survives codecs that draw audio anew; hearing sets its level (None: both in
                three seconds or more, and "fast" alone where `snr` is given, which "deep" does not keep).

        Raises:
            AudioError: the samples cannot be marked, the mark would round or clip away, or less than a second cannot
                be read back.
            MessageError: the message is empty, or does not fit into this audio.
            IdeawError: `snr` or `audibility` is out of range, or both are given; a layer is not known.
        """
        floats = as_float(array := np.asarray(samples))
        rate = check_samples(floats, rate)
        seconds = len(array) / rate
        layers = default_layers(snr, seconds) if layers is None else layers
        request = self._request(message, layers, (snr, audibility))
        request.check_seconds(seconds)
        first_tile = request.choose_start(split_blocks(floats, ARRAY_BLOCK_SECONDS * rate), rate, seconds)
        step = quantisation_step(array.dtype)
        results = []
        for attempt in request.attempts(seconds):
            embedder = attempt.start(rate, floats.shape[1], step, seconds=seconds, first_tile=first_tile)
            blocks = with_progress(split_blocks(array, ARRAY_BLOCK_SECONDS * rate), len(array), progress)
            marked = np.concatenate(list(run_stage(embedder, blocks)))
            attempt.check_marked(embedder)
            if seconds >= SHORT_SECONDS or self._holds(marked, rate, request):
                return marked
            results.append(marked)
        if seconds < MIN_UNREAD_SECONDS:
            raise AudioError(f"the mark in these {seconds:.2f} s cannot be read back; longer audio can hold it")
        return results[0]

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
        alone = Marker(self.network.single_worker(), self._key, self._keys[1:])
        return self.network.map(lambda pair: alone.embed(pair[0], rate, pair[1]), list(zip(arrays, texts, strict=True)))

    def embed_stream(
        self,
        blocks: Iterable[ArrayLike],
        rate: float,
        message: MessageLike,
        *,
        snr: float | None = None,
        audibility: float | None = None,
        layers: LayersLike = FAST_ALONE,
        latency: float | None = None,
    ) -> EmbedStream:
        """Mark audio that arrives in blocks; what comes out, in blocks of other lengths, is as long as what went in.

        Args:
            blocks, rate, message, snr, audibility: as for `embed`; blocks of one type and number of channels.
            layers: as for `embed`; "deep" waits 3 s more, and is found later than in arrays.
            latency: seconds after which a sample comes out at the latest, without a deep layer (None: 0.1, or 0.13 at
                other rates than 16 kHz); more is faster, and from 3 on the stream is marked as an array is.

        Raises:
            IdeawError: as `embed`, after the last block what only the end can tell; or `latency` is too short.
        """
        return self._open_stream(check_blocks(blocks), rate, message, (snr, audibility), layers, latency)

    def open_stream(
        self,
        rate: float,
        message: MessageLike,
        *,
        snr: float | None = None,
        audibility: float | None = None,
        layers: LayersLike = FAST_ALONE,
        latency: float | None = None,
    ) -> EmbedStream:
        """A stream whose blocks are pushed, with the arguments of `embed_stream`."""
        return self._open_stream(None, rate, message, (snr, audibility), layers, latency)

    def aembed_stream(
        self, blocks: AsyncIterable[ArrayLike] | Iterable[ArrayLike], rate: float, message: MessageLike, **options: Any
    ) -> AsyncIterator[NDArray[Any]]:
        """`embed_stream` for asyncio: blocks are awaited, and marked in threads, so that the event loop goes on.

        Args:
            blocks, rate, message: as for `embed_stream`; blocks of an asynchronous iterable or a plain one.
            options: `snr`, `audibility`, `layers` and `latency` of `embed_stream`.
        """
        return mark_asynchronously(self.open_stream(rate, message, **options), blocks)

    @single_threaded_blas()
    def embed_file(
        self,
        source: AudioInput,
        target: AudioOutput,
        message: MessageLike,
        *,
        snr: float | None = None,
        audibility: float | None = None,
        layers: LayersLike | None = None,
        longest: float | None = None,
        verify: bool = True,
        over: bool = False,
        other_keys: Sequence[Key] = (),
        overwrite: bool = True,
        into: Path | None = None,
        progress: Progress | None = None,
    ) -> MarkLevel:
        """Mark a file as another one, which appears whole or not at all; everything but the samples stays.

        Args:
            source, target: paths, or binary files; a source may be its content in bytes. The target's extension gives
                its format; an open file gets that of the source.
            message, snr, audibility, layers, longest, progress: as for `embed`, or see `Marker`; A-law and µ-law files
                hold no deep layer.
            verify: whether what was written is read back before it is handed over: the fast layer, where it has one.
            over: whether to mark even over a mark of the marker's keys, the public one or one of `other_keys`.
            other_keys: further keys whose marks are respected.
            overwrite: whether a file at `target` may be replaced.
            into: an empty file that is written instead of `target`, which then only names it and its format.

        Returns:
            The level that was taken, SNR and noise to mask in dB, one of them None; see `audibility` of `embed`.

        Raises:
            AudioError, MessageError, FileError: as `embed`; too long, or a file cannot be read or written.
            LostMarkError: the mark cannot be read back; nothing is written.
            AlreadyMarkedError: there is a mark already.
        """
        check_level(snr, audibility, self.card.audibility)
        request = self._request(message, default_layers(snr) if layers is None else layers, (snr, audibility))
        respected = () if over else dict.fromkeys((*self._keys, PUBLIC, *map(require_key, other_keys)))
        marking = FileMarking(request, layers is not None, verify, tuple(respected), longest, overwrite)
        with as_paths(source, target) as places:
            source_path, target_path, spooled = places
            return marking.mark(source_path, target_path, into or spooled, progress)

    def detect(
        self,
        samples: ArrayLike,
        rate: float,
        *,
        keys: Sequence[Key] | None = None,
        speeds: Speeds | None = None,
        layers: LayersLike = ALL_LAYERS,
        expected: Sequence[MessageLike] = (),
        min_check_bits: int = 0,
        progress: Progress | None = None,
    ) -> Detection:
        """Search samples for a mark: in their mix, in all channels apart or in one, at other speeds and tempos.

        Args:
            samples, rate, progress: see `Marker`.
            keys: whose marks are looked for (None: the marker's own key and its older ones).
            speeds: tried, with and without change of pitch, where nothing or pieces are found: "near" up to 6 % off,
                "all" from 0.8 to 1.25, or "none" (None: all, but near for the deep layer, where they take long).
            layers: which are looked for: "fast", "deep", or "deep" where "fast" is not found or not readable.
            expected: messages that the deep layer is tested for by themselves: found in shorter and worse audio.
            min_check_bits: 0 to 48, the least proof that a message was made with its key (`Detection.check_bits`):
                more of the audio is read for it, and a message with less is as if it could not be read.

        Raises:
            AudioError, IdeawError: the samples cannot be searched; `keys` holds none or no keys; `speeds` or a layer is
                not known; `min_check_bits` is not from 0 to 48.
        """
        rate = check_samples(floats := as_float(samples), rate)
        blocks = partial(split_blocks, floats, ARRAY_BLOCK_SECONDS * rate)
        return self._detector(keys, speeds, layers, expected, min_check_bits).detect(
            blocks, rate, floats.shape[1], len(floats), progress
        )

    def detect_many(
        self,
        arrays: Sequence[ArrayLike],
        rate: float,
        *,
        keys: Sequence[Key] | None = None,
        speeds: Speeds | None = None,
    ) -> list[Detection]:
        """Search many short pieces on all threads; arguments and errors as for `detect`."""
        alone = Marker(self.network.single_worker(), self._key, self._keys[1:])
        return self.network.map(lambda samples: alone.detect(samples, rate, keys=keys, speeds=speeds), list(arrays))

    def detect_stream(
        self,
        blocks: Iterable[ArrayLike],
        rate: float,
        *,
        keys: Sequence[Key] | None = None,
        layers: LayersLike = ALL_LAYERS,
        expected: Sequence[MessageLike] = (),
        min_check_bits: int = 0,
        latency: int = STREAM_ANSWER_SECONDS,
    ) -> Iterator[Detection]:
        """Search the mix of audio that arrives in blocks: an answer every few seconds, each a trial, and at the end.

        Args:
            blocks, rate, keys, layers, expected, min_check_bits: as for `detect`; blocks of one number of channels.
            latency: seconds, 3 or more, within which a complete mark is reported; longer ones find fainter marks.

        Raises:
            IdeawError: as `detect`, or `latency` is too short.
        """
        detector = self._detector(keys, "none", layers, expected, min_check_bits)
        yield from detector.detect_stream(blocks, integer_rate(rate), latency)

    def detect_file(
        self,
        path: AudioInput,
        *,
        keys: Sequence[Key] | None = None,
        speeds: Speeds | None = None,
        layers: LayersLike = ALL_LAYERS,
        expected: Sequence[MessageLike] = (),
        min_check_bits: int = 0,
        longest: float | None = None,
        progress: Progress | None = None,
    ) -> Detection:
        """Search a file, of any length.

        Args:
            path: the file's path, an open binary file, or its content in bytes.
            keys, speeds, layers, expected, min_check_bits, longest, progress: as for `detect`, or see `Marker`.

        Raises:
            AudioError, IdeawError, FileError: as `detect`; it is longer than `longest`, or cannot be read.
        """
        with as_path(path) as named:
            with open_audio(named) as recording:
                rate, channels, length = recording.rate, recording.channels, recording.num_samples
            check_source(rate, channels, length, longest)
            blocks = partial(read_blocks, named, longest)
            detector = self._detector(keys, speeds, layers, expected, min_check_bits)
            return detector.detect(blocks, rate, channels, length, progress)

    def _request(self, message: MessageLike, layers: LayersLike, level: MarkLevel) -> EmbedRequest:
        return EmbedRequest(self.network, self._channels, self._key, Message.of(message), check_layers(layers), level)

    def _holds(self, marked: NDArray[Any], rate: int, request: EmbedRequest) -> bool:
        """Whether a message can be read from marked samples."""
        found = self.detect(marked, rate, speeds="none", layers=request.layers[:1], expected=[request.message.content])
        return found.message == request.message.content

    def _open_stream(
        self,
        blocks: Iterable[ArrayLike] | None,
        rate: float,
        message: MessageLike,
        level: MarkLevel,
        layers: LayersLike,
        latency: float | None,
    ) -> EmbedStream:
        rate, request = integer_rate(rate), self._request(message, layers, level)
        request.check_seconds(None)
        check_level(*level, self.card.audibility)
        start = partial(request.start, rate, latency=check_live_latency(rate, latency))
        return EmbedStream(start, rate, request.min_seconds, request.needed_seconds, blocks)

    def _detector(
        self,
        keys: Sequence[Key] | None,
        speeds: Speeds | None,
        layers: LayersLike,
        expected: Sequence[MessageLike],
        min_check_bits: int,
    ) -> LayeredDetector:
        wanted = list(self._keys if keys is None else map(require_key, keys))
        asked = check_layers(layers), speeds, check_expected(expected), check_proof(min_check_bits)
        return LayeredDetector(self.network, wanted, *asked)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._keys != (PUBLIC,):
            raise TypeError("a marker with a secret key is not pickled; load() it with its key where it is needed")
        return partial(load, self.network.files.source, threads=self.network.threads), ()
