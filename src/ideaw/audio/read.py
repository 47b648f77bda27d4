"""Audio files in, in blocks or as a whole: opened only if regular, decoded by libsndfile, or by PyAV where it cannot.

A header is a claim that anyone can write: nothing is allocated by it, and what nobody records is refused. A file is
read through one descriptor, so that its name's letters and extension do not matter.
"""

import contextlib
import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from ideaw.audio import mpeg, ogg, tags
from ideaw.audio.blocks import CODEC_BLOCK_SAMPLES, regroup
from ideaw.audio.containers.ogg import header_bytes
from ideaw.audio.formats import CONSTANT_RATE, Encoding, PathLike, RateControl, import_pyav
from ideaw.audio.samples import MAX_CHANNELS, check_finite, check_length
from ideaw.audio.xing import rate_control
from ideaw.errors import FileError, error_reason

MAX_FILE_RATE_HZ = 768_000
"""The highest rate in Hz that recorders have."""

MAX_ID3_BYTES = 1 << 25
"""Bytes of an ID3v2 tag, which is held in memory: room for a few large pictures."""

OPENING_BYTES = 1 << 12
"""Bytes at the start of a file that say what it is."""

MAGIC_NUMBERS = (b"RIFF", b"RIFX", b"RF64", b"riff", b"fLaC", b"OggS", b"FORM", b".snd", b"dns.", b"caff")
"""How the common formats of libsndfile open."""

_SDS_MAGIC = b"\xf0\x7e"
"""How a MIDI sample dump opens, whose reader prints its doubts into our own output."""

_MP3_MAGIC = (b"ID3", b"\xff\xfb", b"\xff\xfa", b"\xff\xf3", b"\xff\xf2", b"\xff\xe3", b"\xff\xe2")


@dataclass(frozen=True)
class Source:
    """An open file, to be read once from its start to its end.

    Attributes:
        rate: sampling rate in Hz.
        channels: number of channels.
        num_samples: length per channel that the header claims, which may be more than there is; None if it claims none.
        encoding: how the file holds them.
        pieces: `(n, channels)` float64 as the decoder gives them.
        pieces_from: gives them from about a sample on instead; afterwards `pieces` is of no use.
        num_tracks: how many sounds the file holds side by side, of which this is one.
    """

    rate: int
    channels: int
    num_samples: int | None
    encoding: Encoding
    pieces: Iterator[NDArray[np.float64]] = field(repr=False)
    pieces_from: Callable[[int], Iterator[NDArray[np.float64]]] = field(repr=False)
    num_tracks: int = 1

    def blocks(self, size: int = CODEC_BLOCK_SAMPLES) -> Iterator[NDArray[np.float64]]:
        """The samples as `(size, channels)` float64, PCM of every width exactly; the last block may be shorter.

        Raises:
            FileError: the file turns out to be damaged or truncated.
        """
        return regroup(self.pieces, size)

    def stretches(self, spans: Iterable[tuple[int, int]]) -> Iterator[NDArray[np.float64]]:
        """`(n, channels)` pieces of some stretches, one after the other; each begins at about the sample that is asked.

        Args:
            spans: first sample and number of samples of each.

        Raises:
            FileError: the file turns out to be damaged or truncated.
        """
        for start, count in spans:
            left = count
            for piece in self.pieces_from(start):
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    break

    def checked_blocks(self, longest: float | None = None) -> Iterator[NDArray[np.float64]]:
        """The same in blocks of the usual size, each checked, and their length in the end.

        Raises:
            FileError: the file turns out to be damaged or truncated.
            AudioError: a sample is not finite, or there is less than a second or more than `longest` seconds.
        """
        length = 0
        for block in regroup(self.pieces, CODEC_BLOCK_SAMPLES):
            check_finite(block)
            length += len(block)
            if longest is not None:
                check_length(max(length, self.rate), self.rate, longest)
            yield block
        check_length(length, self.rate)


@dataclass(frozen=True)
class Recording:
    """A whole file: `samples` `(n, channels)` float64 at `rate` Hz, and how they were coded."""

    samples: NDArray[np.float64]
    rate: int
    encoding: Encoding


@contextlib.contextmanager
def open_audio(path: PathLike, track: int = 0) -> Iterator[Source]:
    """Open an audio file, whatever its extension says, to be read in blocks: in the memory of one, however long.

    Args:
        path: the file.
        track: which of its sounds is read, counted from 0, if it holds several side by side.

    Raises:
        FileError: it cannot be read, is damaged, truncated, or no audio file.
        MissingExtraError: its container needs PyAV, which is not installed.
    """
    path = Path(path)
    with open_regular(path) as file:
        if _needs_pyav(path, file.peek(16)):
            with import_pyav(path).open_source(path, file, track) as source:
                yield source
        else:
            with _open_sndfile(path, file) as source:
                yield source


def read_blocks(path: PathLike, longest: float | None = None, track: int = 0) -> Iterator[NDArray[np.float64]]:
    """The samples of the file at `path`, as `Source.checked_blocks` gives them; raises what `open_audio` raises too."""
    with open_audio(path, track) as source:
        yield from source.checked_blocks(longest)


def read_audio(path: PathLike) -> Recording:
    """Read a whole audio file, PCM of every width exactly; raises what `open_audio` raises."""
    with open_audio(path) as source:
        content = bytearray()  # grows as samples come, since what a header claims may be far more than there is
        for block in source.blocks():
            content += block.data
    samples = np.frombuffer(content, np.float64).reshape(-1, source.channels)
    return Recording(samples, source.rate, source.encoding)


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[io.BufferedReader]:
    """Open a regular file that is not empty; raise `FileError` with one line why not."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise FileError(f"{path} is a directory; give an audio file")
        if not stat.S_ISREG(status.st_mode):  # a pipe might never end, nor even begin
            raise FileError(f"{path} is a pipe or a device; give an audio file")
        if not status.st_size:
            raise FileError(f"{path} is empty (0 bytes)")
        file = path.open("rb")
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except (OSError, ValueError) as problem:
        raise FileError(f"{path} cannot be read: {error_reason(problem)}") from problem
    with file:
        yield file


@contextlib.contextmanager
def _open_sndfile(path: Path, file: BinaryIO) -> Iterator[Source]:
    """Open what libsndfile can read from `file`; `path` names it in errors.

    Raises:
        FileError: it is damaged, truncated, of an unknown format, or claims what no recorder has.
    """
    opening = file.read(OPENING_BYTES)
    with _decoder_errors(path, opening):
        data, hints = _prepare(path, file, opening)
        sound = _ForwardFile(data, closefd=False)
    with sound:
        with _decoder_errors(path, opening):
            check_claims(path, sound.samplerate, sound.channels)
            _check_log(path, sound.extra_info)
            texts = {name: text for name, text in sound.copy_metadata().items() if name in tags.TAG_NAMES and text}
        num_samples = sound.frames if sound.frames < _UNKNOWN_LENGTH else None
        bitrate = hints.bitrate
        if sound.format == "OGG" and not bitrate:
            seconds = max((num_samples or 0) / sound.samplerate, 0.02)
            bitrate = hints.audio_bytes * 8 / 1000 / seconds
        encoding = Encoding(
            sound.format,
            sound.subtype,
            None if bitrate is None else round(bitrate),
            texts,
            hints.id3,
            sound.endian if sound.endian in ("BIG", "LITTLE") else None,
            hints.rate_control,
        )
        pieces, pieces_from = _read_pieces(sound, path, opening), partial(_read_pieces_from, sound, path, opening)
        yield Source(sound.samplerate, sound.channels, num_samples, encoding, pieces, pieces_from)


def check_claims(path: Path, rate: int, channels: int) -> None:
    """Raise `FileError` for a rate or a number of channels that no recorder has."""
    if not 1 <= rate <= MAX_FILE_RATE_HZ:
        raise FileError(f"{path} claims a rate of {rate} Hz; at most {MAX_FILE_RATE_HZ} Hz can be read")
    if not 1 <= channels <= MAX_CHANNELS:
        raise FileError(f"{path} claims {channels} channels; at most {MAX_CHANNELS} can be read")


class _ForwardFile(sf.SoundFile):  # type: ignore[misc]
    """A file read from start to end. soundfile seeks after every read, at which Opus gives other samples."""

    def seekable(self) -> bool:
        return False


_UNKNOWN_LENGTH = 1 << 62
"""libsndfile reports a length that it does not know as the highest number there is."""


def _read_pieces(sound: sf.SoundFile, path: Path, opening: bytes) -> Iterator[NDArray[np.float64]]:
    count = 0
    while True:
        with _decoder_errors(path, opening):
            piece = sound.read(CODEC_BLOCK_SAMPLES, dtype="float64", always_2d=True)
        if not len(piece):
            break
        yield piece
        count += len(piece)
    if (
        sound.format == "FLAC" and count < sound.frames < _UNKNOWN_LENGTH
    ):  # its decoder does not mind a cut between frames
        raise FileError(f"{path} is truncated: it ends before its header says")


def _read_pieces_from(sound: sf.SoundFile, path: Path, opening: bytes, start: int) -> Iterator[NDArray[np.float64]]:
    """The samples from one on. MP3 is decoded up to there: its decoder complains aloud if it begins in the middle."""
    skipped = start if sound.format == "MP3" else 0
    with _decoder_errors(path, opening):
        sound.seek(start - skipped)
    while True:
        with _decoder_errors(path, opening):
            piece = sound.read(CODEC_BLOCK_SAMPLES, dtype="float64", always_2d=True)
        if not len(piece):
            return
        if len(piece) > skipped:
            yield piece[skipped:]
        skipped = max(0, skipped - len(piece))


@contextlib.contextmanager
def _decoder_errors(path: Path, opening: bytes) -> Iterator[None]:
    """Turn what libsndfile raises into a `FileError` of one line."""
    try:
        yield
    except (sf.SoundFileError, TypeError, ValueError) as problem:
        if opening.startswith(MAGIC_NUMBERS):
            raise FileError(f"{path} is damaged or truncated: it cannot be decoded to its end") from problem
        raise FileError(f"{path} is not an audio file of a known format") from problem
    except OSError as problem:
        raise FileError(f"{path} cannot be read: {error_reason(problem)}") from problem


@dataclass(frozen=True)
class _Hints:
    """What a file says of its coding, and libsndfile does not.

    Attributes:
        bitrate: kbit/s; 0 for an Ogg file that does not name it, None for others.
        audio_bytes: bytes of an Ogg file without its headers.
        id3: an MP3's ID3v2 tag.
        rate_control: how an MP3 chose the bitrates of its frames.
    """

    bitrate: float | None = None
    audio_bytes: int = 0
    id3: bytes = b""
    rate_control: RateControl = CONSTANT_RATE


def _prepare(path: Path, file: BinaryIO, opening: bytes) -> tuple[int | BinaryIO, _Hints]:
    """What libsndfile is to read, at its start, and what it does not tell of it.

    All that is looked up in the file is looked up here: libsndfile relies on the place where it left the descriptor.
    """
    if opening.startswith(_SDS_MAGIC):
        raise FileError(f"{path} is a MIDI sample dump, which cannot be read; give an audio file")
    hints = _Hints()
    if opening.startswith(b"OggS"):
        ogg.check_last_page(path, file)
        audio_bytes = _num_bytes(file) - header_bytes(file)
        hints = _Hints(max(0, ogg.vorbis_nominal_bitrate(opening)), audio_bytes)
    elif _is_tagged_flac(file, opening):  # libsndfile loses its place there when it seeks
        return mpeg.without_opening(file, tags.id3_length(opening)), hints
    elif opening.startswith(_MP3_MAGIC) or (path.suffix.lower() == ".mp3" and not opening.startswith(MAGIC_NUMBERS)):
        stream = mpeg.scan(file)
        if stream is None:
            raise FileError(f"{path} holds no MP3 frames")
        if stream.num_frames < stream.claimed_frames - 1:
            raise FileError(f"{path} is truncated: {stream.num_frames} of {stream.claimed_frames} frames are there")
        id3 = _read_id3(path, file, opening)
        hints = _Hints(stream.bitrate, 0, id3, rate_control(file, stream))
        if stream.variable and not stream.has_xing:
            return mpeg.with_xing_header(file, id3, stream), hints
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    return file.fileno(), hints


def _is_tagged_flac(file: BinaryIO, opening: bytes) -> bool:
    """Whether FLAC lies behind an ID3 tag, where C2PA puts its manifests."""
    if not opening.startswith(b"ID3"):
        return False
    file.seek(tags.id3_length(opening))
    return file.read(4) == b"fLaC"


def _read_id3(path: Path, file: BinaryIO, opening: bytes) -> bytes:
    length = tags.id3_length(opening)
    if length > MAX_ID3_BYTES:
        raise FileError(f"{path} has a tag of {length >> 20} MiB; at most {MAX_ID3_BYTES >> 20} MiB can be kept")
    file.seek(0)
    return file.read(length)


def _check_log(path: Path, log: str) -> None:
    """Raise `FileError` for a truncated file: libsndfile reads what is there, and only its log tells.

    A header written to a pipe promises the most that its field holds, and is no sign of a cut.
    """
    size = re.search(r"^ *(?:data|SSND|Data Size|riff) *: (\d+) \(should be (\d+)\)", log, re.MULTILINE)
    truncated = size is not None and int(size[2]) < int(size[1]) < 0x7FFF_F000
    truncated = truncated or re.search(r"Calculated frame count \d+ does not match value from 'ds64'", log) is not None
    if truncated:
        raise FileError(f"{path} is truncated: it ends before its header says")


def _num_bytes(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _needs_pyav(path: Path, opening: bytes) -> bool:
    """Whether a file of this opening is read through PyAV."""
    matroska, asf, wavpack = b"\x1aE\xdf\xa3", b"\x30\x26\xb2\x75", b"wvpk"
    no_magic = not opening.startswith(MAGIC_NUMBERS)
    bare_aac = path.suffix.lower() == ".aac" and no_magic  # AAC has no magic number of its own
    return bare_aac or opening[4:8] == b"ftyp" or opening.startswith((matroska, asf, wavpack))
