"""The one table of audio files that can be written: containers, codecs, rates, channels and bitrates by extension.

`write.py` chooses from it; nothing else knows what a format can hold.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeAlias

from ideaw.audio.av_codecs import AV_CODECS
from ideaw.errors import MissingExtraError

PathLike: TypeAlias = str | os.PathLike[str]

MP3_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
AAC_RATES = (*MP3_RATES, 64_000, 88_200, 96_000)
"""Sampling rates in Hz that each codec has."""

RATELESS_SUBTYPES = ("VORBIS", "PCM", "FLAC", "WAVPACK")
"""How subtypes begin that have any rate, also in containers whose other codecs do not."""

VIDEO_CONTAINER, MATROSKA_VIDEO_CONTAINER = "M4A with video", "MKA with video"
"""Container names of MP4 and Matroska files that hold moving pictures too."""

SOUND_CONTAINERS = {VIDEO_CONTAINER: "M4A", MATROSKA_VIDEO_CONTAINER: "MKA"}
"""The same without them."""

PCM_BITS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}
SAMPLE_BITS = {"FLOAT": 32, "DOUBLE": 64, "ULAW": 8, "ALAW": 8, **PCM_BITS}

MAX_DATA_BYTES = (1 << 32) - (1 << 20)
"""Bytes of samples in containers with 32-bit lengths, with room for tags."""

CONTAINERS_OF_32_BITS = ("WAV", "WAVEX", "AIFF", "AU")


@dataclass(frozen=True)
class RateControl:
    """How an MP3 encoder chose the bitrates of its frames.

    Attributes:
        mode: libsndfile's name: "CONSTANT", "AVERAGE" or "VARIABLE".
        quality: of LAME, 0 (V0) to 10, where it is variable.
    """

    mode: Literal["CONSTANT", "AVERAGE", "VARIABLE"] = "CONSTANT"
    quality: float | None = None


CONSTANT_RATE = RateControl()
"""How an encoder works that is not told otherwise."""


@dataclass(frozen=True)
class Encoding:
    """How a file holds its samples.

    Attributes:
        container: libsndfile's name (`WAV`), `M4A`, or FFmpeg's name of anything else.
        subtype: libsndfile's name of the sample format (`PCM_24`), or FFmpeg's of the codec (`AAC`).
        bitrate: kbit/s; None where the coding is lossless.
        tags: texts by libsndfile's names (`title`, `artist` …).
        id3: an MP3's own ID3v2 tag, which is carried over byte for byte, pictures included.
        endian: libsndfile's name of a byte order that is not the container's usual one: "BIG" or "LITTLE".
        rate_control: how an MP3 chose the bitrates of its frames.
    """

    container: str
    subtype: str
    bitrate: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    id3: bytes = field(default=b"", repr=False)
    endian: str | None = None
    rate_control: RateControl = CONSTANT_RATE


@dataclass(frozen=True)
class FileFormat:
    """What an extension stands for when a file is written.

    Attributes:
        containers: names that an `Encoding` may have; the first is the default.
        subtypes: sample formats or codecs; the first is the default.
        rates: sampling rates in Hz; empty if any goes.
        max_channels: most channels that are written.
        default_bitrate: kbit/s of audio that comes from another codec; None if lossless.
        writer: the library that writes it.
        muxer: FFmpeg's name of the container, if PyAV writes it.
    """

    containers: tuple[str, ...]
    subtypes: tuple[str, ...]
    rates: tuple[int, ...] = ()
    max_channels: int = 16
    default_bitrate: int | None = None
    writer: Literal["libsndfile", "PyAV"] = "libsndfile"
    muxer: str = ""


_WIDE = ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
_WAV = FileFormat(("WAV", "WAVEX", "RF64"), (*_WIDE, "PCM_U8"))
_AIFF = FileFormat(("AIFF",), (*_WIDE, "PCM_S8", "PCM_U8"))
_VORBIS = FileFormat(("OGG",), ("VORBIS", "OPUS"), default_bitrate=192)
_M4A = FileFormat(("M4A",), ("AAC", "ALAC_16", "ALAC_24"), AAC_RATES, 6, 192, "PyAV", "ipod")
_IN_MP4 = ("AAC", "ALAC_16", "ALAC_24", "FLAC_16", "FLAC_24", "OPUS", "MP3", "MP2", "AC3", "EAC3")
_IN_MOV = ("AAC", "ALAC_16", "ALAC_24", "MP3", "AC3", "EAC3", *(name for name in AV_CODECS if name.startswith("PCM")))
_MP4 = FileFormat(("M4A", VIDEO_CONTAINER), _IN_MP4, AAC_RATES, 8, 192, "PyAV", "mp4")
_MOV = FileFormat(("M4A", VIDEO_CONTAINER), _IN_MOV, AAC_RATES, 8, 192, "PyAV", "mov")
_IN_MATROSKA = ("FLAC_24", *(name for name in AV_CODECS if not name.startswith(("ALAC", "WAVPACK"))), "VORBIS")
_MKA = FileFormat(("MKA", MATROSKA_VIDEO_CONTAINER), _IN_MATROSKA, AAC_RATES, 8, None, "PyAV", "matroska")
_WEBM = FileFormat(("MKA", MATROSKA_VIDEO_CONTAINER), ("OPUS", "VORBIS"), (48_000,), 8, 160, "PyAV", "webm")
_CAF = FileFormat(("CAF",), (*_WIDE, "PCM_S8"))
_WAVPACK = FileFormat(("WV",), ("WAVPACK_16", "WAVPACK_32", "WAVPACK_FLOAT"), (), 8, None, "PyAV", "wv")

FORMATS = {
    ".wav": _WAV,
    ".flac": FileFormat(("FLAC",), ("PCM_16", "PCM_24", "PCM_S8"), max_channels=8),
    ".mp3": FileFormat(("MP3",), ("MPEG_LAYER_III",), MP3_RATES, 2, 192),
    ".opus": FileFormat(("OGG",), ("OPUS",), OPUS_RATES, default_bitrate=160),
    ".ogg": _VORBIS,
    ".aiff": _AIFF,
    ".au": FileFormat(("AU",), (*_WIDE, "PCM_S8")),
    ".w64": FileFormat(("W64",), (*_WIDE, "PCM_U8")),
    ".rf64": FileFormat(("RF64",), (*_WIDE, "PCM_U8")),
    ".aif": _AIFF,
    ".oga": _VORBIS,
    ".wave": _WAV,
    ".m4a": _M4A,
    ".mp4": _MP4,
    ".m4b": _M4A,
    ".m4v": _MP4,
    ".mov": _MOV,
    ".mkv": _MKA,
    ".mka": _MKA,
    ".webm": _WEBM,
    ".caf": _CAF,
    ".wv": _WAVPACK,
}

EXTENSIONS = tuple(FORMATS)
"""Extensions that can be written."""


def import_pyav(path: Path) -> ModuleType:
    """The module on PyAV, which is an optional package."""
    try:
        from ideaw.audio import pyav
    except ImportError as problem:
        raise MissingExtraError(f'{path} needs PyAV; install it with: pip install "ideaw[formats]"') from problem
    return pyav
