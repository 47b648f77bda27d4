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
from typing import BinaryIO

import av
import numpy as np
from av.stream import Disposition
from numpy.typing import NDArray

from ideaw.audio import atomic
from ideaw.audio.encoding import Encoding, on_grid
from ideaw.audio.read import Source, check_claims
from ideaw.audio.samples import as_float
from ideaw.errors import FileError

FORMATS = ("aac", "asf", "flac", "loas", "matroska", "mov", "mp3", "ogg", "wav")
"""What FFmpeg may take a file for."""

RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 64_000, 88_200, 96_000)

DEFAULT_BITRATE = 192

FILM = "M4A with video"
"""Container of a recording whose file holds a film too."""

_LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1"}
_RENAMED = {"track": "tracknumber"}
_NOT_TAGS = ("major_brand", "minor_version", "compatible_brands", "encoder", "creation_time", "vendor_id")


@contextlib.contextmanager
def opened(path: Path, file: BinaryIO) -> Iterator[Source]:
    """The first audio stream of `file`; `path` names it in errors.

    FFmpeg gets the open file, since it would take some names for addresses, and may use those formats
    alone that hold what they play: a playlist would make it open whatever files it names.
    """
    with _told(path):
        container = av.open(file, "r", options={"format_whitelist": ",".join(FORMATS)})
    with container:
        with _told(path):
            if not container.streams.audio:
                raise FileError(f"{path} holds no audio")
            stream = container.streams.audio[0]
            decoded = container.decode(stream)
            first = next(decoded, None)  # only a decoded frame tells the rate of HE-AAC
            rate = first.sample_rate if first else stream.codec_context.sample_rate
            channels = len(first.layout.channels) if first else stream.codec_context.channels
            check_claims(path, rate, channels)
            movie = "mp4" in container.format.name
            frames = None
            if movie and stream.duration is not None and stream.time_base is not None:
                frames = max(0, round(stream.duration * stream.time_base * rate))
            film = any(not video.disposition & Disposition.attached_pic for video in container.streams.video)
            name = (FILM if film else "M4A") if movie else container.format.name
            encoding = _encoding(container, stream, name)
        all_frames = itertools.chain([first] if first else [], decoded)
        yield Source(rate, channels, frames, encoding, _pieces(path, all_frames, rate, channels, frames))


def check(path: Path, rate: int, channels: int, encoding: Encoding | None, frames: int | None) -> None:
    """Whether an M4A file can hold this, without losing a picture that moved; raises `FileError` if not."""
    if encoding is not None and encoding.container == FILM and path.suffix.lower() == ".mp4":
        raise FileError(f"{path} would lose the video of its source; write the sound alone as .m4a and mux it yourself")
    if rate not in RATES:
        raise FileError(
            f"{path.suffix} cannot hold {rate} Hz; use .wav or .flac, or one of {', '.join(map(str, RATES))} Hz"
        )
    if channels not in _LAYOUTS:
        raise FileError(f"{path.suffix} cannot hold {channels} channels; use .wav, or at most {max(_LAYOUTS)}")


class Target:
    """The file `temporary`, open for samples that are to become the M4A file `path`.

    It holds ALAC if that is what they came from, else AAC.
    """

    def __init__(
        self,
        path: Path,
        temporary: Path,
        rate: int,
        channels: int,
        encoding: Encoding | None,
        frames: int | None,
    ) -> None:
        given = encoding or Encoding("", "")
        lossless = given.subtype.startswith("ALAC")
        self._path, self._rate, self._written = path, rate, 0
        self._layout = _LAYOUTS[channels]
        self._format = {"ALAC_16": "s16p", "ALAC_24": "s32p"}.get(given.subtype, "fltp")
        with self._told():
            self._file = temporary.open("wb")
            self._container = av.open(self._file, "w", format="ipod", options={"movie_timescale": str(rate)})
            back = {ours: theirs for theirs, ours in _RENAMED.items()}
            self._container.metadata.update({back.get(name, name): text for name, text in given.tags.items()})
            self._stream = self._container.add_stream(
                "alac" if lossless else "aac", rate=rate, layout=self._layout, format=self._format
            )
            if not lossless:
                kept = given.bitrate if given.subtype == "AAC" else None
                self._stream.bit_rate = 1000 * (kept or DEFAULT_BITRATE)

    def write(self, block: NDArray[np.floating]) -> None:
        """Append `(n, channels)` floats, at most `CODEC_BLOCK_SAMPLES` at a time."""
        with self._told():
            rows = _as_stored(block.T, self._format)
            frame = av.AudioFrame.from_ndarray(rows, format=self._format, layout=self._layout)
            frame.sample_rate, frame.pts, frame.time_base = self._rate, self._written, Fraction(1, self._rate)
            self._written += len(block)
            self._container.mux(self._stream.encode(frame))

    def finish(self) -> None:
        """What comes last: what the encoder still holds, and the index."""
        with self._told():
            self._container.mux(self._stream.encode(None))
            self._container.close()
            self._file.close()

    def abandon(self) -> None:
        """Let go of a file that will not be needed."""
        with contextlib.suppress(OSError, ValueError, av.FFmpegError):
            self._container.close()
        with contextlib.suppress(OSError):
            self._file.close()

    def _told(self) -> contextlib.AbstractContextManager[None]:
        return atomic.told(self._path, ValueError, av.FFmpegError)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What FFmpeg complains about, as one line."""
    try:
        yield
    except (av.FFmpegError, OSError, ValueError, MemoryError) as problem:
        raise FileError(f"{path} is damaged, truncated or of an unknown format") from problem


def _pieces(
    path: Path, decoded: Iterator[av.AudioFrame], rate: int, channels: int, frames: int | None
) -> Iterator[NDArray[np.float64]]:
    """The samples of each frame, up to `frames`: what comes after is the encoder's padding."""
    left = math.inf if frames is None else frames
    while left:
        with _told(path):
            frame = next(decoded, None)
            if frame is None:
                return
            if (frame.sample_rate, len(frame.layout.channels)) != (rate, channels):
                raise FileError(f"{path} changes its rate or channels in the middle")
            piece = _columns(frame)
        yield piece[: int(min(left, len(piece)))]
        left -= min(left, len(piece))


def _columns(frame: av.AudioFrame) -> NDArray[np.float64]:
    """One decoded frame as `(n, channels)`."""
    array = frame.to_ndarray()
    columns = array.T if frame.format.is_planar else array.reshape(-1, len(frame.layout.channels))
    return np.ascontiguousarray(as_float(columns))


def _encoding(container: av.container.InputContainer, stream: av.AudioStream, name: str) -> Encoding:
    codec = stream.codec_context.name
    tags = {
        _RENAMED.get(key, key): text
        for key, text in (*container.metadata.items(), *stream.metadata.items())
        if key not in (*_NOT_TAGS, "language", "handler_name")
    }
    if codec == "alac":
        return Encoding(name, "ALAC_16" if stream.codec_context.format.name == "s16p" else "ALAC_24", None, tags)
    bitrate = stream.bit_rate or container.bit_rate
    return Encoding(name, codec.upper(), round(bitrate / 1000) if bitrate else None, tags)


def _as_stored(rows: NDArray[np.floating], sample_format: str) -> NDArray:
    """`(channels, n)` as the encoder takes them: ALAC on its own grid of 16 or 24 bits."""
    if sample_format == "fltp":
        return np.ascontiguousarray(rows, dtype=np.float32)
    if sample_format == "s16p":
        return np.ascontiguousarray(on_grid(rows, 16), dtype=np.int16)
    return np.ascontiguousarray(on_grid(rows, 24) << 8, dtype=np.int32)
