"""Containers that libsndfile does not know, through PyAV: MP4, Matroska and WavPack, and whatever else FFmpeg reads.

Imported only where it is needed, since PyAV is optional and slow to load. The edit list of an MP4
undoes the encoder's delay; it is written in samples, not in FFmpeg's default milliseconds, so that
the length comes back exactly.
"""

import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import av
import numpy as np
from av.stream import Disposition
from numpy.typing import NDArray

from ideaw.audio.av_codecs import AV_CODECS, LOSSLESS_FAMILIES, AvCodec, subtype_of, wavpack_subtype
from ideaw.audio.formats import MATROSKA_VIDEO_CONTAINER, VIDEO_CONTAINER, Encoding
from ideaw.audio.ogg import vorbis_nominal_bitrate
from ideaw.audio.read import Source, check_claims
from ideaw.audio.samples import as_float, as_integers
from ideaw.errors import FileError

DEMUXERS = ("aac", "asf", "flac", "loas", "matroska", "mov", "mp3", "ogg", "wav", "wv")
"""FFmpeg's demuxers that may be tried."""

MP4_MUXERS = ("ipod", "mp4", "mov")
"""FFmpeg's names of containers with edit lists."""

MEASURED_PACKETS = 2000
"""Packets by which the bitrate of a stream is measured."""

_MATROSKA = ("MKA", MATROSKA_VIDEO_CONTAINER)
"""Containers that do not tell bitrates."""

_LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}
_NAMES_OF_FFMPEG_TAGS = {"track": "tracknumber"}
_TECHNICAL_TAGS = (
    "major_brand",
    "minor_version",
    "compatible_brands",
    "encoder",
    "creation_time",
    "vendor_id",
    "duration",
)


@contextlib.contextmanager
def open_source(path: Path, file: BinaryIO, track: int = 0) -> Iterator[Source]:
    """Open an audio stream of `file`, counted from 0; `path` names it in errors.

    FFmpeg gets the open file, since it would take some names for addresses, and may use only demuxers of containers
    that hold what they play: a playlist would make it open whatever files it names.

    Raises:
        FileError: it is damaged, truncated, of an unknown format, or holds no audio.
    """
    with _decoder_errors(path):
        container = open_demuxer(file)
    with container:
        with _decoder_errors(path):
            if not container.streams.audio:
                raise FileError(f"{path} holds no audio")
            stream = container.streams.audio[track]
            decoded = container.decode(stream)
            first = next(decoded, None)  # only a decoded frame tells the rate of HE-AAC
            rate = first.sample_rate if first else stream.codec_context.sample_rate
            channels = len(first.layout.channels) if first else stream.codec_context.channels
            check_claims(path, rate, channels)
            is_mp4 = "mp4" in container.format.name
            num_samples = None
            if is_mp4 and stream.duration is not None and stream.time_base is not None:
                num_samples = max(0, round(stream.duration * stream.time_base * rate))
            encoding = _read_encoding(container, stream, _container_name(container))
            if encoding.container == "WV":
                encoding = replace(encoding, subtype=wavpack_subtype(path, encoding.subtype))
            if encoding.bitrate == 0:
                encoding = replace(encoding, bitrate=_measure_bitrate(path, track))
        packets = itertools.chain([first] if first else [], decoded)
        pieces = _read_pieces(path, packets, rate, channels, num_samples)
        pieces_from = partial(_read_pieces_from, path, container, stream, rate, channels)
        yield Source(rate, channels, num_samples, encoding, pieces, pieces_from, len(container.streams.audio))


def open_demuxer(file: BinaryIO) -> av.container.InputContainer:
    """An open file, from its start, as FFmpeg's container, by the demuxers that may be tried."""
    file.seek(0)
    return av.open(file, "r", options={"format_whitelist": ",".join(DEMUXERS)})


class Encoder:
    """Writes samples through FFmpeg."""

    errors: ClassVar[tuple[type[Exception], ...]] = (OSError, ValueError, av.FFmpegError)

    def __init__(self, temporary: Path, rate: int, channels: int, encoding: Encoding, muxer: str) -> None:
        """Open the file; `rate` is in Hz, `encoding` one that `choose_encoding` gave, `muxer` FFmpeg's container."""
        codec = AV_CODECS[encoding.subtype]
        self._rate, self._num_written, self._codec = rate, 0, codec
        self._layout = _LAYOUTS[channels]
        self._file = temporary.open("wb")
        options = {"movie_timescale": str(rate)} if muxer in MP4_MUXERS else {}
        self._container = av.open(self._file, "w", format=muxer, options=options)
        ffmpeg_names = {ours: theirs for theirs, ours in _NAMES_OF_FFMPEG_TAGS.items()}
        texts = {ffmpeg_names.get(name, name): text for name, text in encoding.tags.items()}
        self._container.metadata.update(texts)
        stream: Any = self._container.add_stream(
            codec.encoder, rate=rate, layout=self._layout, format=codec.sample_format
        )
        if encoding.bitrate is not None:
            stream.bit_rate = 1000 * encoding.bitrate
        self._stream = stream

    def write(self, block: NDArray[np.floating]) -> None:
        """Append `(n, channels)` floats, at most `CODEC_BLOCK_SAMPLES` at a time."""
        rows = _as_stored(block, self._codec)
        frame = av.AudioFrame.from_ndarray(rows, format=self._codec.sample_format, layout=self._layout)
        frame.sample_rate, frame.pts, frame.time_base = self._rate, self._num_written, Fraction(1, self._rate)
        self._num_written += len(block)
        self._container.mux(self._stream.encode(frame))

    def finish(self) -> None:
        """Write what comes last: what the encoder still holds, and the index."""
        self._container.mux(self._stream.encode(None))
        self._container.close()
        self._file.close()

    def abort(self) -> None:
        """Close a file that will not be needed."""
        with contextlib.suppress(OSError, ValueError, av.FFmpegError):
            self._container.close()
        with contextlib.suppress(OSError):
            self._file.close()


@contextlib.contextmanager
def _decoder_errors(path: Path) -> Iterator[None]:
    """Turn what FFmpeg raises into a `FileError` of one line."""
    try:
        yield
    except (av.FFmpegError, OSError, ValueError, MemoryError) as problem:
        raise FileError(f"{path} is damaged, truncated or of an unknown format") from problem


def _read_pieces(
    path: Path, decoded: Iterator[av.AudioFrame], rate: int, channels: int, num_samples: int | None
) -> Iterator[NDArray[np.float64]]:
    """The samples of each decoded packet, up to `num_samples`: what comes after is the encoder's padding."""
    left = math.inf if num_samples is None else num_samples
    while left:
        with _decoder_errors(path):
            frame = next(decoded, None)
            if frame is None:
                return
            if (frame.sample_rate, len(frame.layout.channels)) != (rate, channels):
                raise FileError(f"{path} changes its rate or channels in the middle")
            piece = _as_columns(frame)
        yield piece[: int(min(left, len(piece)))]
        left -= min(left, len(piece))


def _read_pieces_from(
    path: Path, container: av.container.InputContainer, stream: av.AudioStream, rate: int, channels: int, start: int
) -> Iterator[NDArray[np.float64]]:
    """The samples from the packet on that holds sample `start`."""
    with _decoder_errors(path):
        assert stream.time_base is not None
        container.seek(round(start / rate / stream.time_base) + (stream.start_time or 0), stream=stream)
    yield from _read_pieces(path, container.decode(stream), rate, channels, None)


def _as_columns(frame: av.AudioFrame) -> NDArray[np.float64]:
    """One decoded frame as `(n, channels)`."""
    array = frame.to_ndarray()
    columns = array.T if frame.format.is_planar else array.reshape(-1, len(frame.layout.channels))
    return np.ascontiguousarray(as_float(columns))


def _read_encoding(container: av.container.InputContainer, stream: av.AudioStream, name: str) -> Encoding:
    codec = stream.codec_context.name
    tags = {
        _NAMES_OF_FFMPEG_TAGS.get(key.lower(), key.lower()): text
        for key, text in (*container.metadata.items(), *stream.metadata.items())
        if key.lower() not in (*_TECHNICAL_TAGS, "language", "handler_name")
    }
    subtype = subtype_of(codec, stream.codec_context.format.name if stream.codec_context.format else "")
    if codec.startswith(LOSSLESS_FAMILIES):
        return Encoding(name, subtype, None, tags)
    only = len(container.streams) == 1
    nominal = vorbis_nominal_bitrate(stream.codec_context.extradata or b"") if codec == "vorbis" else 0
    if nominal > 0:
        return Encoding(name, subtype, round(nominal), tags)
    bitrate = stream.bit_rate or (container.bit_rate if only or name not in _MATROSKA else 0)
    return Encoding(name, subtype, round((bitrate or 0) / 1000) or (0 if name in _MATROSKA else None), tags)


def _container_name(container: av.container.InputContainer) -> str:
    """What an `Encoding` calls it, by whether there are moving pictures, not covers, beside the sound."""
    has_video = any(not video.disposition & Disposition.attached_pic for video in container.streams.video)
    if "mp4" in container.format.name:
        return VIDEO_CONTAINER if has_video else "M4A"
    if "matroska" in container.format.name:
        return MATROSKA_VIDEO_CONTAINER if has_video else "MKA"
    return str(container.format.name.upper() if container.format.name == "wv" else container.format.name)


def _measure_bitrate(path: Path, track: int) -> int | None:
    """Mean bitrate in kbit/s of the first packets of an audio stream, where no header tells it."""
    with path.open("rb") as file, open_demuxer(file) as container:
        packets = itertools.islice(container.demux(container.streams.audio[track]), MEASURED_PACKETS)
        sizes = [(packet.size, float((packet.duration or 0) * packet.time_base)) for packet in packets if packet.size]
    num_bytes, seconds = (sum(column) for column in zip(*sizes, strict=True)) if sizes else (0, 0)
    return round(num_bytes * 8 / 1000 / seconds) if seconds else None


def _as_stored(block: NDArray[np.floating], codec: AvCodec) -> NDArray[Any]:
    """`(n, channels)` as the encoder takes them: `(channels, n)` or `(1, n · channels)`, exact codecs as integers."""
    if codec.bits is None and codec.sample_format.startswith("flt"):
        values: NDArray[Any] = block.astype(np.float32)
    else:
        bits = codec.bits or 16
        values = as_integers(block, bits).astype(np.int32)
        values = values.astype(np.int16) if codec.sample_format.startswith("s16") else values << (32 - bits)
    planar = codec.sample_format.endswith("p")
    return np.ascontiguousarray(values.T if planar else values.reshape(1, -1))
