"""Audio files in and out, whole or not at all.

A marked file should differ from its source by the mark alone: the same container, sample width or
bitrate, length and tags. libsndfile does the work; PyAV (the extra `formats`) adds what it lacks.
PCM passes through integers, because libsndfile reads with a full scale of 2^k but writes floats
with 2^k - 1, which would move every loud sample by one step.
"""

import contextlib
import errno
import io
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from ideaw.audio import mpeg
from ideaw.errors import FileError, MissingExtraError

BLOCK = 1 << 16
"""Samples written at a time: bounds memory, and libsndfile crashes on minutes of Vorbis at once."""

TAGS = ("title", "artist", "album", "date", "comment", "genre", "tracknumber", "copyright", "license")
"""Tags that libsndfile carries. Its `software` is left out: it grows by its own name at every write."""

WITH_AV = {".m4a": "M4A", ".mp4": "M4A"}
"""Extensions written through PyAV."""

OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)

_LOSSY_DEFAULT = {"MP3": 192, "VORBIS": 192, "OPUS": 160}
"""Bitrates in kbit/s of lossy files that come from something else; their containers lower it where they must."""

_PCM_BITS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}


@dataclass(frozen=True)
class Encoding:
    """How a file holds its samples.

    `container` and `subtype` are libsndfile's names (`WAV`, `PCM_24`) or PyAV's codec (`M4A`, `AAC`);
    `bitrate` is in kbit/s, None where the coding is lossless; `head` is an MP3's own ID3v2 tag, which
    is carried over as it is, pictures included.
    """

    container: str
    subtype: str
    bitrate: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    head: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Recording:
    """What a file holds: `samples` `(n, channels)` float64 at `rate` Hz, and how they were coded."""

    samples: NDArray[np.float64]
    rate: int
    encoding: Encoding


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
_ALIASES = {".aif": ".aiff", ".oga": ".ogg", ".wave": ".wav"}

EXTENSIONS = (*_KINDS, *_ALIASES, *WITH_AV)
"""Extensions that can be written."""


def read(path: str | os.PathLike[str]) -> Recording:
    """The whole file at `path`, whatever its extension says; PCM of every width exactly."""
    path = Path(path)
    head = _head(path)
    if _needs_av(path, head):
        return _with_av(path).read(path)
    try:
        return _read_mp3(path) if _is_mp3(path, head) else _read(path, path)
    except (sf.SoundFileError, TypeError, ValueError) as problem:
        known = (b"RIFF", b"RF64", b"riff", b"fLaC", b"OggS", b"FORM", b".snd")
        if head.startswith(known):
            raise FileError(f"{path} is damaged or truncated: it cannot be decoded to its end") from problem
        raise FileError(f"{path} is not an audio file of a known format") from problem


def write(
    path: str | os.PathLike[str], samples: NDArray[np.floating], rate: int, encoding: Encoding | None = None
) -> None:
    """Write `(n, channels)` floats at `rate` Hz as the container that the extension of `path` names.

    The container that `encoding` came from keeps its subtype, bitrate and tags; another one gets its
    nearest lossless width or a default bitrate, and the tags. What is at `path` stays until all is written.
    """
    path = Path(path)
    extension = _known_extension(path)
    if samples.ndim != 2:
        raise FileError(f"samples of shape {samples.shape} cannot be written; give (samples, channels)")
    if samples.size == 0:
        raise FileError(f"there are no samples to write to {path}")
    if extension in WITH_AV:
        codec = _with_av(path)
        codec.check(path, samples.shape[1], rate, encoding)
        with _whole(path) as temporary:
            codec.write(temporary, samples, rate, encoding)
        return
    kind = _KINDS[extension]
    _check_holds(path, kind, samples.shape[1], rate)
    with _whole(path) as temporary:
        _write(temporary, samples, rate, _fitting(kind, encoding, samples))


def step(path: str | os.PathLike[str], encoding: Encoding) -> float:
    """The distance of two neighbouring sample values of what `write` would make of `encoding` there; 0 if any goes."""
    kind = _KINDS.get(_known_extension(Path(path)))
    subtype = _fitting(kind, encoding, np.zeros((0, 1))).subtype if kind else encoding.subtype
    bits = re.fullmatch(r"(?:PCM|ALAC)_[SU]?(\d+)", subtype)
    return 2.0 ** (1 - int(bits[1])) if bits else 0.0


def same_file(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Raises `FileError` if both names lead to one file, by another spelling or a link too."""
    same = Path(source).resolve() == Path(target).resolve()
    with contextlib.suppress(OSError):
        same = same or os.path.samefile(source, target)
    if same:
        raise FileError(f"{target} is the input itself; give another name for the output")


# Reading


def _head(path: Path) -> bytes:
    """The first bytes of a file, or the one line that says why there are none."""
    if path.is_dir():
        raise FileError(f"{path} is a directory; give an audio file")
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except (OSError, ValueError) as problem:
        raise FileError(f"{path} cannot be read: {_reason(problem)}") from problem
    if not head:
        raise FileError(f"{path} is empty (0 bytes)")
    return head


def _needs_av(path: Path, head: bytes) -> bool:
    matroska, asf = b"\x1aE\xdf\xa3", b"\x30\x26\xb2\x75"
    return head[4:8] == b"ftyp" or head.startswith((matroska, asf)) or path.suffix.lower() == ".aac"


def _is_mp3(path: Path, head: bytes) -> bool:
    return head.startswith((b"ID3", b"\xff\xfb", b"\xff\xfa", b"\xff\xf3", b"\xff\xf2", b"\xff\xe3", b"\xff\xe2")) or (
        path.suffix.lower() == ".mp3" and not head.startswith((b"RIFF", b"fLaC", b"OggS", b"FORM"))
    )


def _read(path: Path, source: Path | io.BytesIO, bitrate: float | None = None, head: bytes = b"") -> Recording:
    with sf.SoundFile(source) as file:
        samples = file.read(dtype="float64", always_2d=True)
        _refuse_truncated(path, file.extra_info)
        if file.format == "OGG":
            _refuse_unended(path)
            bitrate = _ogg_bitrate(path, file.frames / file.samplerate)
        tags = {name: text for name, text in file.copy_metadata().items() if name in TAGS and text}
        encoding = Encoding(file.format, file.subtype, None if bitrate is None else round(bitrate), tags, head)
        return Recording(samples, file.samplerate, encoding)


def _read_mp3(path: Path) -> Recording:
    data = path.read_bytes()
    stream = mpeg.scan(data)
    head = data[: mpeg.tag_length(data)]
    if stream is None:
        raise FileError(f"{path} holds no MP3 frames")
    if stream.frames < stream.promised - 1:
        raise FileError(f"{path} is truncated: {stream.frames} of {stream.promised} frames are there")
    if stream.varying and not stream.indexed:
        return _read(path, io.BytesIO(head + stream.index() + data[stream.start :]), stream.bitrate, head)
    return _read(path, path, stream.bitrate, head)


def _refuse_truncated(path: Path, log: str) -> None:
    """libsndfile reads what is there of a cut file and only its log says so.

    A header written to a pipe promises the most that its field holds, and is no sign of a cut.
    """
    promised = re.search(r"^ *(?:data|SSND|Data Size|riff) *: (\d+) \(should be (\d+)\)", log, re.MULTILINE)
    cut = promised is not None and int(promised[2]) < int(promised[1]) < 0x7FFF_F000
    cut = cut or re.search(r"Calculated frame count \d+ does not match value from 'ds64'", log) is not None
    if cut:
        raise FileError(f"{path} is truncated: it ends before its header says")


def _refuse_unended(path: Path) -> None:
    """The last page of an Ogg file says that it is the last, and is whole."""
    longest_page = 27 + 255 + 255 * 255
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 2 * longest_page))
        tail = file.read()
    page = tail[tail.rfind(b"OggS") :]
    lengths = page[27 : 27 + page[26]] if len(page) > 26 else b""
    if not lengths or not page[5] & 4 or len(page) < 27 + len(lengths) + sum(lengths):
        raise FileError(f"{path} is truncated: its last page is missing")


def _ogg_bitrate(path: Path, seconds: float) -> float:
    """kbit/s: the quality that a Vorbis header names, which the encoder can be asked for again; else the mean."""
    with path.open("rb") as file:
        nominal = _nominal(file.read(4096))
    return nominal if nominal > 0 else path.stat().st_size * 8 / 1000 / max(seconds, 0.02)


def _nominal(opening: bytes) -> float:
    """Nominal bitrate in kbit/s in a Vorbis identification header; not above 0 where there is none."""
    at = opening.find(b"\x01vorbis")
    return int.from_bytes(opening[at + 20 : at + 24], "little", signed=True) / 1000 if at >= 0 else 0


# Writing


def _known_extension(path: Path) -> str:
    extension = path.suffix.lower()
    extension = _ALIASES.get(extension, extension)
    if extension == ".aac":
        raise FileError(f"{path}: a bare .aac stream cannot hold its length or tags; use .m4a")
    if extension not in EXTENSIONS:
        named = f'of the unknown type "{extension}"' if extension else "without an extension"
        raise FileError(f"{path} is an output {named}; use one of {', '.join(EXTENSIONS)}")
    return extension


def _check_holds(path: Path, kind: _Kind, channels: int, rate: int) -> None:
    name = path.suffix.lower()
    if kind.rates and rate not in kind.rates:
        raise FileError(
            f"{name} cannot hold {rate} Hz; use .wav or .flac, or one of {', '.join(map(str, kind.rates))} Hz"
        )
    if "FLAC" in kind.containers and rate > 0xFFFF and rate % 10:
        raise FileError(f"{name} cannot hold {rate} Hz; use .wav, or a multiple of 10 Hz")
    if not 1 <= channels <= kind.channels:
        raise FileError(f"{name} cannot hold {channels} channels; use .wav, or at most {kind.channels}")


def _fitting(kind: _Kind, encoding: Encoding | None, samples: NDArray[np.floating]) -> Encoding:
    """What to write into a container of this kind, so that it is as near to `encoding` as can be."""
    given = encoding or Encoding("", "")
    container = given.container if given.container in kind.containers else kind.containers[0]
    subtype = given.subtype
    if subtype not in kind.subtypes:
        shallow = subtype in ("", "PCM_U8", "PCM_S8", "PCM_16", "ALAC_16")
        deep = not shallow and "PCM_24" in kind.subtypes
        subtype = "PCM_24" if deep else kind.subtypes[0]
    width = {"FLOAT": 32, "DOUBLE": 64, **_PCM_BITS}.get(subtype, 8) // 8
    if container in ("WAV", "WAVEX") and samples.size * width >= (1 << 32) - (1 << 20):  # room for tags
        container = "RF64"
    same = given.subtype == subtype and given.container in kind.containers
    bitrate = given.bitrate if same else _LOSSY_DEFAULT.get("MP3" if container == "MP3" else subtype)
    head = ((same and given.head) or mpeg.tag(given.tags)) if container == "MP3" else b""
    return Encoding(container, subtype, bitrate, given.tags, head)


def _write(path: Path, samples: NDArray[np.floating], rate: int, target: Encoding) -> None:
    channels = samples.shape[1]
    with sf.SoundFile(
        path,
        "w",
        rate,
        channels,
        format=target.container,
        subtype=target.subtype,
        compression_level=_compression_level(target, rate, channels),
        bitrate_mode="CONSTANT" if target.container == "MP3" else None,
    ) as file:
        for name, text in target.tags.items():
            if name in TAGS and target.container != "MP3":
                with contextlib.suppress(sf.SoundFileError):  # AU and W64 have no tags
                    setattr(file, name, text)
        for start in range(0, len(samples), BLOCK):
            file.write(_as_stored(samples[start : start + BLOCK], target.subtype))
    if target.head:
        data = path.read_bytes()
        path.write_bytes(target.head + data[mpeg.tag_length(data) :])


def _as_stored(samples: NDArray[np.floating], subtype: str) -> NDArray:
    """Samples as libsndfile stores them without touching them again: PCM on its own grid, in the high bits of int32."""
    bits = _PCM_BITS.get(subtype)
    if bits is None:
        return np.asarray(samples, dtype=np.float64)
    scale = 2.0 ** (bits - 1)
    steps = np.clip(np.rint(samples * scale), -scale, scale - 1).astype(np.int64)
    return (steps << (32 - bits)).astype(np.int32)


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
        if _nominal(opening.getvalue()) >= bitrate - 0.5:
            return step / 20
    return 0.0


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place once all went well, and vanishes if anything did not."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FileError(f"{path} is a directory; give a file name for the output")
    if not target.parent.is_dir():
        raise FileError(f"the folder {path.parent} does not exist; make it first")
    if target.exists() and not (target.is_file() and os.access(target, os.W_OK)):
        raise FileError(f"{path} cannot be written: it is protected or not a plain file")
    temporary = target.with_name(f".{target.stem[:64]}-{secrets.token_hex(6)}{target.suffix}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except (OSError, sf.SoundFileError) as problem:
        raise FileError(f"{path} cannot be written: {_reason(problem)}") from problem
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _reason(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.errno is not None:
        return os.strerror(problem.errno).lower()
    return " ".join(str(problem).split()) or os.strerror(errno.EIO).lower()


def _with_av(path: Path) -> ModuleType:
    """The module on PyAV, which is an optional package."""
    try:
        from ideaw.audio import containers
    except ImportError as problem:
        raise MissingExtraError(f'{path} needs PyAV; install it with: pip install "ideaw[formats]"') from problem
    return containers
