"""Containers that libsndfile does not know, through PyAV: M4A and MP4 in and out, and whatever else FFmpeg reads.

Imported only where it is needed, since PyAV is optional and slow to load. The edit list of an MP4
undoes the encoder's delay; it is written in samples, not in FFmpeg's default milliseconds, so that
the length comes back exactly.
"""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.stream import Disposition
from numpy.typing import NDArray

from ideaw.audio.files import BLOCK, Encoding, Recording
from ideaw.audio.samples import as_float
from ideaw.errors import FileError

RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 64_000, 88_200, 96_000)

DEFAULT_BITRATE = 192

FILM = "M4A with video"
"""Container of a recording whose file holds a film too."""

_LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1"}
_RENAMED = {"track": "tracknumber"}
_NOT_TAGS = ("major_brand", "minor_version", "compatible_brands", "encoder", "creation_time", "vendor_id")


def read(path: Path) -> Recording:
    """The first audio stream of the file at `path`."""
    try:
        with av.open(str(path)) as container:
            if not container.streams.audio:
                raise FileError(f"{path} holds no audio")
            stream = container.streams.audio[0]
            blocks, rate = [], stream.codec_context.sample_rate
            for frame in container.decode(stream):
                rate = frame.sample_rate
                blocks.append(_columns(frame))
            samples = np.concatenate(blocks) if blocks else np.zeros((0, stream.codec_context.channels))
            movie = "mp4" in container.format.name
            if movie and stream.duration is not None and stream.time_base is not None:
                samples = samples[: round(stream.duration * stream.time_base * rate)]
            film = any(not video.disposition & Disposition.attached_pic for video in container.streams.video)
            name = (FILM if film else "M4A") if movie else container.format.name
            return Recording(samples, rate, _encoding(container, stream, name))
    except (av.FFmpegError, ValueError) as problem:
        raise FileError(f"{path} is damaged, truncated or of an unknown format") from problem


def check(path: Path, channels: int, rate: int, encoding: Encoding | None) -> None:
    """Whether an M4A file can hold this, without losing a picture that moved; raises `FileError` if not."""
    if encoding is not None and encoding.container == FILM and path.suffix.lower() == ".mp4":
        raise FileError(f"{path} would lose the video of its source; write the sound alone as .m4a and mux it yourself")
    if rate not in RATES:
        raise FileError(
            f"{path.suffix} cannot hold {rate} Hz; use .wav or .flac, or one of {', '.join(map(str, RATES))} Hz"
        )
    if channels not in _LAYOUTS:
        raise FileError(f"{path.suffix} cannot hold {channels} channels; use .wav, or at most {max(_LAYOUTS)}")


def write(path: Path, samples: NDArray[np.floating], rate: int, encoding: Encoding | None) -> None:
    """Write `(n, channels)` floats as M4A: ALAC if that is what they came from, else AAC."""
    given = encoding or Encoding("", "")
    lossless = given.subtype.startswith("ALAC")
    layout = _LAYOUTS[samples.shape[1]]
    sample_format = {"ALAC_16": "s16p", "ALAC_24": "s32p"}.get(given.subtype, "fltp")
    try:
        with av.open(str(path), "w", format="ipod", options={"movie_timescale": str(rate)}) as container:
            back = {ours: theirs for theirs, ours in _RENAMED.items()}
            container.metadata.update({back.get(name, name): text for name, text in given.tags.items()})
            stream = container.add_stream("alac" if lossless else "aac", rate=rate, layout=layout, format=sample_format)
            if not lossless:
                kept = given.bitrate if given.subtype == "AAC" else None
                stream.bit_rate = 1000 * (kept or DEFAULT_BITRATE)
            for start in range(0, len(samples), BLOCK):
                block = _as_stored(samples[start : start + BLOCK].T, sample_format)
                frame = av.AudioFrame.from_ndarray(block, format=sample_format, layout=layout)
                frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    except (av.FFmpegError, ValueError) as problem:
        raise FileError(f"the samples cannot be written as M4A: {problem}") from problem


def _columns(frame: av.AudioFrame) -> NDArray[np.float64]:
    """One decoded frame as `(n, channels)`."""
    array = frame.to_ndarray()
    return as_float(array.T if frame.format.is_planar else array.reshape(-1, len(frame.layout.channels)))


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
    bits = 16 if sample_format == "s16p" else 24
    scale = 2.0 ** (bits - 1)
    steps = np.clip(np.rint(rows * scale), -scale, scale - 1).astype(np.int64)
    if bits == 16:
        return np.ascontiguousarray(steps, dtype=np.int16)
    return np.ascontiguousarray(steps << 8, dtype=np.int32)
