"""Files being written, block by block, through libsndfile: what each extension can hold, and how it is coded.

PCM passes through integers, because libsndfile reads with a full scale of 2^k but writes floats with
2^k - 1, which would move every loud sample by one step.
"""

import contextlib
import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from ideaw.audio import atomic, mpeg
from ideaw.audio.encoding import Encoding, on_grid
from ideaw.audio.read import TAGS, vorbis_nominal
from ideaw.errors import FileError

OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)

_LOSSY_DEFAULT = {"MP3": 192, "VORBIS": 192, "OPUS": 160}
"""Bitrates in kbit/s of lossy files that come from something else; their containers lower it where they must."""

_PCM_BITS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}
_BITS = {"FLOAT": 32, "DOUBLE": 64, "ULAW": 8, "ALAW": 8, **_PCM_BITS}

_LIMIT = (1 << 32) - (1 << 20)
"""Bytes of samples where lengths are told in 32 bits, with room for tags."""

_LIMITED = ("WAV", "WAVEX", "AIFF", "AU")


@dataclass(frozen=True)
class _Kind:
    """What an output extension stands for, and what it can hold."""

    containers: tuple[str, ...]
    subtypes: tuple[str, ...]
    rates: tuple[int, ...] = ()
    channels: int = 16


_WIDE = ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
_KINDS = {
    ".wav": _Kind(("WAV", "WAVEX", "RF64"), (*_WIDE, "PCM_U8")),
    ".flac": _Kind(("FLAC",), ("PCM_16", "PCM_24", "PCM_S8"), channels=8),
    ".mp3": _Kind(("MP3",), ("MPEG_LAYER_III",), mpeg.RATES, channels=2),
    ".ogg": _Kind(("OGG",), ("VORBIS",)),
    ".opus": _Kind(("OGG",), ("OPUS",), OPUS_RATES),
    ".aiff": _Kind(("AIFF",), (*_WIDE, "PCM_S8", "PCM_U8")),
    ".au": _Kind(("AU",), (*_WIDE, "PCM_S8")),
    ".w64": _Kind(("W64",), (*_WIDE, "PCM_U8")),
    ".rf64": _Kind(("RF64",), (*_WIDE, "PCM_U8")),
}
ALIASES = {".aif": ".aiff", ".oga": ".ogg", ".wave": ".wav"}
EXTENSIONS = (*_KINDS, *ALIASES)
"""Extensions that libsndfile writes."""


def check(path: Path, rate: int, channels: int, encoding: Encoding | None, frames: int | None) -> None:
    """Whether the container that `path` names can hold this; raises `FileError` if not."""
    name, kind = path.suffix.lower(), _kind(path)
    if kind.rates and rate not in kind.rates:
        raise FileError(
            f"{name} cannot hold {rate} Hz; use .wav or .flac, or one of {', '.join(map(str, kind.rates))} Hz"
        )
    if "FLAC" in kind.containers and rate > 0xFFFF and rate % 10:
        raise FileError(f"{name} cannot hold {rate} Hz; use .wav, or a multiple of 10 Hz")
    if not 1 <= channels <= kind.channels:
        raise FileError(f"{name} cannot hold {channels} channels; use .wav, or at most {kind.channels}")
    _refuse_too_long(path, fitting(path, encoding, channels * (frames or 0)), channels * (frames or 0))


def fitting(path: Path, encoding: Encoding | None, values: int) -> Encoding:
    """What to write at `path`, so that it is as near to `encoding` as can be; `values` is samples times channels."""
    kind, given = _kind(path), encoding or Encoding("", "")
    container = given.container if given.container in kind.containers else kind.containers[0]
    subtype = given.subtype
    if subtype not in kind.subtypes:
        shallow = subtype in ("", "PCM_U8", "PCM_S8", "PCM_16", "ALAC_16")
        deep = not shallow and "PCM_24" in kind.subtypes
        subtype = "PCM_24" if deep else kind.subtypes[0]
    if container in ("WAV", "WAVEX") and _bytes(subtype, values) >= _LIMIT:
        container = "RF64"
    same = given.subtype == subtype and given.container in kind.containers
    bitrate = given.bitrate if same else _LOSSY_DEFAULT.get("MP3" if container == "MP3" else subtype)
    head = ((same and given.head) or mpeg.tag(given.tags)) if container == "MP3" else b""
    return Encoding(container, subtype, bitrate, given.tags, head)


class Target:
    """The file `temporary`, open for samples that are to become `path`."""

    def __init__(
        self,
        path: Path,
        temporary: Path,
        rate: int,
        channels: int,
        encoding: Encoding | None,
        frames: int | None,
    ) -> None:
        self._path, self._temporary, self._values = path, temporary, 0
        self._encoding = fitting(path, encoding, channels * (frames or 0))
        with self._told():
            self._sound = _open(temporary, rate, channels, self._encoding)

    def write(self, block: NDArray[np.floating]) -> None:
        """Append `(n, channels)` floats, at most `CODEC_BLOCK_SAMPLES` at a time."""
        self._values += block.size
        _refuse_too_long(self._path, self._encoding, self._values)
        with self._told():
            self._sound.write(_as_stored(block, self._encoding.subtype))

    def finish(self) -> None:
        """What comes last: the header's lengths, and the tag of an MP3 before it."""
        with self._told():
            self._sound.close()
            if self._encoding.head:
                atomic.prepend(self._temporary, self._encoding.head)

    def abandon(self) -> None:
        """Let go of a file that will not be needed."""
        with contextlib.suppress(sf.SoundFileError):
            self._sound.close()

    def _told(self) -> contextlib.AbstractContextManager[None]:
        return atomic.told(self._path, sf.SoundFileError)


def _kind(path: Path) -> _Kind:
    extension = path.suffix.lower()
    return _KINDS[ALIASES.get(extension, extension)]


def _bytes(subtype: str, values: int) -> int:
    return values * _BITS.get(subtype, 0) // 8


def _refuse_too_long(path: Path, target: Encoding, values: int) -> None:
    if target.container in _LIMITED and _bytes(target.subtype, values) >= _LIMIT:
        raise FileError(f"{path} would grow beyond the 4 GiB that {path.suffix.lower()} can hold; use .w64 or .flac")


def _open(path: Path, rate: int, channels: int, target: Encoding) -> sf.SoundFile:
    sound = sf.SoundFile(
        os.fsencode(path),
        "w",
        rate,
        channels,
        format=target.container,
        subtype=target.subtype,
        compression_level=_compression_level(target, rate, channels),
        bitrate_mode="CONSTANT" if target.container == "MP3" else None,
    )
    for name, text in target.tags.items():
        if name in TAGS and target.container != "MP3":
            with contextlib.suppress(sf.SoundFileError):  # AU and W64 have no tags
                setattr(sound, name, text)
    return sound


def _as_stored(samples: NDArray[np.floating], subtype: str) -> NDArray:
    """Samples as libsndfile stores them without touching them again: PCM on its own grid, in the high bits of int32."""
    bits = _PCM_BITS.get(subtype)
    if bits is None:
        return np.ascontiguousarray(samples, dtype=np.float64)
    return (on_grid(samples, bits) << (32 - bits)).astype(np.int32)


def _compression_level(target: Encoding, rate: int, channels: int) -> float | None:
    """libsndfile's `compression_level`, 0 to 1, that gives the bitrate; found by measuring its encoders."""
    if target.bitrate is None:
        return None
    if target.container == "MP3":
        highest, lowest = mpeg.highest(rate), 32 if rate >= 32_000 else 8
        return (highest - mpeg.legal_bitrate(target.bitrate, rate)) / (highest - lowest)
    if target.subtype == "OPUS":
        return float(np.clip((256 - target.bitrate / channels) / 250, 0, 1))
    return _vorbis_level(target.bitrate, rate, channels)


def _vorbis_level(bitrate: float, rate: int, channels: int) -> float:
    """The highest level in steps of 0.05 whose nominal bitrate is not below `bitrate` kbit/s."""
    probe = min(rate, 48_000)  # above 50 kHz the encoder names no bitrate; its qualities mean the same
    for step in range(20, 0, -1):
        opening = io.BytesIO()
        with sf.SoundFile(
            opening, "w", probe, channels, format="OGG", subtype="VORBIS", compression_level=step / 20
        ) as file:
            file.write(np.zeros((1, channels)))
        if vorbis_nominal(opening.getvalue()) >= bitrate - 0.5:
            return step / 20
    return 0.0
