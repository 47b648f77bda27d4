"""Containers that libsndfile does not know, through PyAV: M4A and MP4 in and out, and whatever else FFmpeg reads.

Imported only where it is needed, since PyAV is optional and slow to load. The edit list of an MP4
undoes the encoder's delay; it is written in samples, not in FFmpeg's default milliseconds, so that
the length comes back exactly.
"""

import contextlib
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import av
import numpy as np
from av.stream import Disposition
from numpy.typing import NDArray

from ideaw.audio.formats import VIDEO_CONTAINER, Encoding
from ideaw.audio.read import Source, check_claims
from ideaw.audio.samples import as_float, as_integers
from ideaw.errors import FileError

DEMUXERS = ("aac", "asf", "flac", "loas", "matroska", "mov", "mp3", "ogg", "wav")
"""FFmpeg's demuxers that may be tried."""

DEFAULT_AAC_KBPS = 192
"""Bitrate of AAC whose source does not name one."""

_LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1"}
_NAMES_OF_FFMPEG_TAGS = {"track": "tracknumber"}
_TECHNICAL_TAGS = ("major_brand", "minor_version", "compatible_brands", "encoder", "creation_time", "vendor_id")


@contextlib.contextmanager
def open_source(path: Path, file: BinaryIO) -> Iterator[Source]:
    """Open the first audio stream of `file`; `path` names it in errors.

    FFmpeg gets the open file, since it would take some names for addresses, and may use only demuxers of containers
    that hold what they play: a playlist would make it open whatever files it names.

    Raises:
        FileError: it is damaged, truncated, of an unknown format, or holds no audio.
    """
    with _decoder_errors(path):
        container = av.open(file, "r", options={"format_whitelist": ",".join(DEMUXERS)})
    with container:
        with _decoder_errors(path):
            if not container.streams.audio:
                raise FileError(f"{path} holds no audio")
            stream = container.streams.audio[0]
            decoded = container.decode(stream)
            first = next(decoded, None)  # only a decoded frame tells the rate of HE-AAC
            rate = first.sample_rate if first else stream.codec_context.sample_rate
            channels = len(first.layout.channels) if first else stream.codec_context.channels
            check_claims(path, rate, channels)
            is_mp4 = "mp4" in container.format.name
            num_samples = None
            if is_mp4 and stream.duration is not None and stream.time_base is not None:
                num_samples = max(0, round(stream.duration * stream.time_base * rate))
            has_video = any(not video.disposition & Disposition.attached_pic for video in container.streams.video)
            name = (VIDEO_CONTAINER if has_video else "M4A") if is_mp4 else container.format.name
            encoding = _read_encoding(container, stream, name)
        packets = itertools.chain([first] if first else [], decoded)
        yield Source(rate, channels, num_samples, encoding, _read_pieces(path, packets, rate, channels, num_samples))


class Encoder:
    """Writes samples as M4A."""

    errors: ClassVar[tuple[type[Exception], ...]] = (OSError, ValueError, av.FFmpegError)

    def __init__(self, temporary: Path, rate: int, channels: int, encoding: Encoding) -> None:
        """Open the file; `rate` is in Hz, and `encoding` one that `choose_encoding` gave."""
        lossless = encoding.subtype.startswith("ALAC")
        self._rate, self._num_written = rate, 0
        self._layout = _LAYOUTS[channels]
        self._sample_format = {"ALAC_16": "s16p", "ALAC_24": "s32p"}.get(encoding.subtype, "fltp")
        self._file = temporary.open("wb")
        self._container = av.open(self._file, "w", format="ipod", options={"movie_timescale": str(rate)})
        ffmpeg_names = {ours: theirs for theirs, ours in _NAMES_OF_FFMPEG_TAGS.items()}
        texts = {ffmpeg_names.get(name, name): text for name, text in encoding.tags.items()}
        self._container.metadata.update(texts)
        self._stream = self._container.add_stream(
            "alac" if lossless else "aac", rate=rate, layout=self._layout, format=self._sample_format
        )
        if not lossless:
            self._stream.bit_rate = 1000 * (encoding.bitrate or DEFAULT_AAC_KBPS)

    def write(self, block: NDArray[np.floating]) -> None:
        """Append `(n, channels)` floats, at most `CODEC_BLOCK_SAMPLES` at a time."""
        rows = _as_stored(block.T, self._sample_format)
        frame = av.AudioFrame.from_ndarray(rows, format=self._sample_format, layout=self._layout)
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


def _as_columns(frame: av.AudioFrame) -> NDArray[np.float64]:
    """One decoded frame as `(n, channels)`."""
    array = frame.to_ndarray()
    columns = array.T if frame.format.is_planar else array.reshape(-1, len(frame.layout.channels))
    return np.ascontiguousarray(as_float(columns))


def _read_encoding(container: av.container.InputContainer, stream: av.AudioStream, name: str) -> Encoding:
    codec = stream.codec_context.name
    tags = {
        _NAMES_OF_FFMPEG_TAGS.get(key, key): text
        for key, text in (*container.metadata.items(), *stream.metadata.items())
        if key not in (*_TECHNICAL_TAGS, "language", "handler_name")
    }
    if codec == "alac":
        return Encoding(name, "ALAC_16" if stream.codec_context.format.name == "s16p" else "ALAC_24", None, tags)
    bitrate = stream.bit_rate or container.bit_rate
    return Encoding(name, codec.upper(), round(bitrate / 1000) if bitrate else None, tags)


def _as_stored(rows: NDArray[np.floating], sample_format: str) -> NDArray[Any]:
    """`(channels, n)` as the encoder takes them: ALAC as integers of 16 or 24 bits."""
    if sample_format == "fltp":
        return np.ascontiguousarray(rows, dtype=np.float32)
    if sample_format == "s16p":
        return np.ascontiguousarray(as_integers(rows, 16), dtype=np.int16)
    return np.ascontiguousarray(as_integers(rows, 24) << 8, dtype=np.int32)
