"""The one table of audio files that can be written: containers, codecs, rates, channels and bitrates by extension.

A marked file should differ from its source by the mark alone, so `choose_encoding` keeps what the source had as far as
the new container can hold it.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ideaw.audio import tags
from ideaw.errors import FileError

MP3_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
AAC_RATES = (*MP3_RATES, 64_000, 88_200, 96_000)
"""Sampling rates in Hz that each codec has."""

VIDEO_CONTAINER = "M4A with video"
"""Container name of an MP4 file that holds moving pictures too."""

PCM_BITS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}
_SAMPLE_BITS = {"FLOAT": 32, "DOUBLE": 64, "ULAW": 8, "ALAW": 8, **PCM_BITS}

_MAX_DATA_BYTES = (1 << 32) - (1 << 20)
"""Bytes of samples in containers with 32-bit lengths, with room for tags."""

_CONTAINERS_OF_32_BITS = ("WAV", "WAVEX", "AIFF", "AU")


@dataclass(frozen=True)
class Encoding:
    """How a file holds its samples.

    Attributes:
        container: libsndfile's name (`WAV`), `M4A`, or FFmpeg's name of anything else.
        subtype: libsndfile's name of the sample format (`PCM_24`), or FFmpeg's of the codec (`AAC`).
        bitrate: kbit/s; None where the coding is lossless.
        tags: texts by libsndfile's names (`title`, `artist` …).
        id3: an MP3's own ID3v2 tag, which is carried over byte for byte, pictures included.
    """

    container: str
    subtype: str
    bitrate: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    id3: bytes = field(default=b"", repr=False)


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
    """

    containers: tuple[str, ...]
    subtypes: tuple[str, ...]
    rates: tuple[int, ...] = ()
    max_channels: int = 16
    default_bitrate: int | None = None
    writer: Literal["libsndfile", "PyAV"] = "libsndfile"


_WIDE = ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
_WAV = FileFormat(("WAV", "WAVEX", "RF64"), (*_WIDE, "PCM_U8"))
_AIFF = FileFormat(("AIFF",), (*_WIDE, "PCM_S8", "PCM_U8"))
_VORBIS = FileFormat(("OGG",), ("VORBIS",), default_bitrate=192)
_M4A = FileFormat(("M4A",), ("AAC", "ALAC_16", "ALAC_24"), AAC_RATES, 6, 192, "PyAV")

FORMATS = {
    ".wav": _WAV,
    ".flac": FileFormat(("FLAC",), ("PCM_16", "PCM_24", "PCM_S8"), max_channels=8),
    ".mp3": FileFormat(("MP3",), ("MPEG_LAYER_III",), MP3_RATES, 2, 192),
    ".ogg": _VORBIS,
    ".opus": FileFormat(("OGG",), ("OPUS",), OPUS_RATES, default_bitrate=160),
    ".aiff": _AIFF,
    ".au": FileFormat(("AU",), (*_WIDE, "PCM_S8")),
    ".w64": FileFormat(("W64",), (*_WIDE, "PCM_U8")),
    ".rf64": FileFormat(("RF64",), (*_WIDE, "PCM_U8")),
    ".aif": _AIFF,
    ".oga": _VORBIS,
    ".wave": _WAV,
    ".m4a": _M4A,
    ".mp4": _M4A,
}

EXTENSIONS = tuple(FORMATS)
"""Extensions that can be written."""


def file_format(path: Path) -> FileFormat:
    """The format that the extension of an output names; raise `FileError` if there is none."""
    extension = path.suffix.lower()
    if extension == ".aac":
        raise FileError(f"{path}: a bare .aac stream cannot hold its length or tags; use .m4a")
    if extension not in FORMATS:
        named = f'of the unknown type "{extension}"' if extension else "without an extension"
        raise FileError(f"{path} is an output {named}; use one of {', '.join(EXTENSIONS)}")
    return FORMATS[extension]


def check_format(
    path: Path, rate: int, channels: int, encoding: Encoding | None = None, num_samples: int | None = None
) -> None:
    """Check whether the format that `path` names can hold some audio.

    Args:
        path: the output.
        rate: sampling rate in Hz.
        channels: number of channels.
        encoding: how the source holds it, if there is one.
        num_samples: length per channel, if it is known.

    Raises:
        FileError: it cannot.
    """
    extension, target = path.suffix.lower(), file_format(path)
    if encoding is not None and encoding.container == VIDEO_CONTAINER and extension == ".mp4":
        raise FileError(f"{path} would lose the video of its source; write the sound alone as .m4a and mux it yourself")
    if target.rates and rate not in target.rates:
        accepted = ", ".join(map(str, target.rates))
        raise FileError(f"{extension} cannot hold {rate} Hz; use .wav or .flac, or one of {accepted} Hz")
    if "FLAC" in target.containers and rate > 0xFFFF and rate % 10:
        raise FileError(f"{extension} cannot hold {rate} Hz; use .wav, or a multiple of 10 Hz")
    if not 1 <= channels <= target.max_channels:
        raise FileError(f"{extension} cannot hold {channels} channels; use .wav, or at most {target.max_channels}")
    num_values = channels * (num_samples or 0)
    check_size(path, choose_encoding(path, encoding, num_values), num_values)


def choose_encoding(path: Path, encoding: Encoding | None, num_values: int) -> Encoding:
    """The encoding that `path` can hold and that is nearest to the source's.

    The format that `encoding` came from keeps its subtype, bitrate and tags; another one gets its nearest lossless
    width or its default bitrate, and the tags.

    Args:
        path: the output, whose extension names the format.
        encoding: how the source holds it, if there is one.
        num_values: samples times channels; decides whether a WAV file needs RF64.
    """
    target, source = file_format(path), encoding or Encoding("", "")
    container = source.container if source.container in target.containers else target.containers[0]
    subtype = source.subtype
    if subtype not in target.subtypes:
        shallow = subtype in ("", "PCM_U8", "PCM_S8", "PCM_16", "ALAC_16")
        deep = not shallow and "PCM_24" in target.subtypes
        subtype = "PCM_24" if deep else target.subtypes[0]
    if container in ("WAV", "WAVEX") and _num_bytes(subtype, num_values) >= _MAX_DATA_BYTES:
        container = "RF64"
    # AAC has a bitrate of its own in whatever container; libsndfile's codecs are told by quality, which others lack.
    kept = source.subtype == subtype and (source.container in target.containers or target.writer == "PyAV")
    bitrate = source.bitrate if kept else target.default_bitrate
    id3 = ((source.id3 if kept else b"") or tags.encode_id3(source.tags)) if container == "MP3" else b""
    return Encoding(container, subtype, bitrate, source.tags, id3)


def check_size(path: Path, encoding: Encoding, num_values: int) -> None:
    """Raise `FileError` if so many values (samples times channels) overflow the lengths of the container."""
    if encoding.container in _CONTAINERS_OF_32_BITS and _num_bytes(encoding.subtype, num_values) >= _MAX_DATA_BYTES:
        raise FileError(f"{path} would grow beyond the 4 GiB that {path.suffix.lower()} can hold; use .w64 or .flac")


def quantisation_step(path: Path, encoding: Encoding) -> float:
    """Distance of two neighbouring sample values in what `encoding` becomes at `path`, full scale 1; 0 if any goes."""
    integers = re.fullmatch(r"(?:PCM|ALAC)_[SU]?(\d+)", choose_encoding(path, encoding, 0).subtype)
    return 2.0 ** (1 - int(integers[1])) if integers else 0.0


def _num_bytes(subtype: str, num_values: int) -> int:
    return num_values * _SAMPLE_BITS.get(subtype, 0) // 8
