"""Files being read, block by block, through libsndfile.

A header is a claim that anyone can write: nothing is allocated by it, and what nobody records is
refused. A file is read through one descriptor, so that its name's letters and extension do not matter.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from ideaw.audio import mpeg
from ideaw.audio.atomic import reason
from ideaw.audio.buffer import CODEC_BLOCK_SAMPLES, regroup
from ideaw.audio.encoding import Encoding
from ideaw.audio.samples import MAX_CHANNELS
from ideaw.errors import FileError

TAGS = ("title", "artist", "album", "date", "comment", "genre", "tracknumber", "copyright", "license")
"""Tags that libsndfile carries. Its `software` is left out: it grows by its own name at every write."""

MAX_RATE = 768_000
"""The highest rate in Hz that recorders have."""

MAX_HEAD = 1 << 25
"""Bytes of an ID3v2 tag, which is held in memory: room for a few large pictures."""

OPENING = 1 << 12
"""Bytes at the start of a file that say what it is."""

KNOWN = (b"RIFF", b"RF64", b"riff", b"fLaC", b"OggS", b"FORM", b".snd")
"""How the common formats of libsndfile open."""

_SDS = b"\xf0\x7e"
"""How a MIDI sample dump opens, whose reader prints its doubts into our own output."""

_MP3 = (b"ID3", b"\xff\xfb", b"\xff\xfa", b"\xff\xf3", b"\xff\xf2", b"\xff\xe3", b"\xff\xe2")


@dataclass(frozen=True)
class Source:
    """An open file, to be read once from its start to its end.

    `rate` is in Hz; `frames` is the length in samples per channel that the header claims, None where
    it claims none, and what comes may be less; `pieces` come as the decoder gives them.
    """

    rate: int
    channels: int
    frames: int | None
    encoding: Encoding
    pieces: Iterator[NDArray[np.float64]] = field(repr=False)

    def blocks(self, size: int = CODEC_BLOCK_SAMPLES) -> Iterator[NDArray[np.float64]]:
        """The samples as `(size, channels)` float64, PCM of every width exactly; the last block may be shorter.

        Raises `FileError` where the file turns out to be damaged or cut.
        """
        return regroup(self.pieces, size)


@contextlib.contextmanager
def opened(path: Path, file: BinaryIO) -> Iterator[Source]:
    """What libsndfile reads from `file`; `path` names it in errors."""
    opening = file.read(OPENING)
    with _told(path, opening):
        data, bitrate, head = _prepared(path, file, opening)
        sound = _Forward(data, closefd=False)
    with sound:
        with _told(path, opening):
            check_claims(path, sound.samplerate, sound.channels)
            _refuse_truncated(path, sound.extra_info)
            tags = {name: text for name, text in sound.copy_metadata().items() if name in TAGS and text}
        frames = sound.frames if sound.frames < _UNKNOWN else None
        if sound.format == "OGG" and not bitrate:
            seconds = max((frames or 0) / sound.samplerate, 0.02)
            bitrate = _size(file) * 8 / 1000 / seconds
        encoding = Encoding(sound.format, sound.subtype, None if bitrate is None else round(bitrate), tags, head)
        yield Source(sound.samplerate, sound.channels, frames, encoding, _pieces(sound, path, opening))


def check_claims(path: Path, rate: int, channels: int) -> None:
    """Raises `FileError` for a rate or a number of channels that no recorder has."""
    if not 1 <= rate <= MAX_RATE:
        raise FileError(f"{path} claims a rate of {rate} Hz; at most {MAX_RATE} Hz can be read")
    if not 1 <= channels <= MAX_CHANNELS:
        raise FileError(f"{path} claims {channels} channels; at most {MAX_CHANNELS} can be read")


class _Forward(sf.SoundFile):
    """A file read from start to end. soundfile seeks after every read, at which Opus gives other samples."""

    def seekable(self) -> bool:
        return False


_UNKNOWN = 1 << 62
"""libsndfile tells a length that it does not know as the highest number there is."""


def _pieces(sound: sf.SoundFile, path: Path, opening: bytes) -> Iterator[NDArray[np.float64]]:
    count = 0
    while True:
        with _told(path, opening):
            piece = sound.read(CODEC_BLOCK_SAMPLES, dtype="float64", always_2d=True)
        if not len(piece):
            break
        yield piece
        count += len(piece)
    if sound.format == "FLAC" and count < sound.frames < _UNKNOWN:  # its decoder does not mind a cut between frames
        raise FileError(f"{path} is truncated: it ends before its header says")


@contextlib.contextmanager
def _told(path: Path, opening: bytes) -> Iterator[None]:
    """What libsndfile complains about, as one line."""
    try:
        yield
    except (sf.SoundFileError, TypeError, ValueError) as problem:
        if opening.startswith(KNOWN):
            raise FileError(f"{path} is damaged or truncated: it cannot be decoded to its end") from problem
        raise FileError(f"{path} is not an audio file of a known format") from problem
    except OSError as problem:
        raise FileError(f"{path} cannot be read: {reason(problem)}") from problem


def _prepared(path: Path, file: BinaryIO, opening: bytes) -> tuple[int | BinaryIO, float | None, bytes]:
    """What libsndfile is to read, at its start; the bitrate in kbit/s if it is told; and an MP3's ID3v2 tag.

    All that is looked up in the file is looked up here: libsndfile relies on the place where it left the descriptor.
    """
    if opening.startswith(_SDS):
        raise FileError(f"{path} is a MIDI sample dump, which cannot be read; give an audio file")
    bitrate, head = None, b""
    if opening.startswith(b"OggS"):
        _refuse_unended(path, file)
        bitrate = max(0, vorbis_nominal(opening))
    elif opening.startswith(_MP3) or (path.suffix.lower() == ".mp3" and not opening.startswith(KNOWN)):
        stream = mpeg.scan(file)
        if stream is None:
            raise FileError(f"{path} holds no MP3 frames")
        if stream.frames < stream.promised - 1:
            raise FileError(f"{path} is truncated: {stream.frames} of {stream.promised} frames are there")
        bitrate, head = stream.bitrate, _tag(path, file, opening)
        if stream.varying and not stream.indexed:
            return mpeg.with_index(file, head, stream), bitrate, head
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    return file.fileno(), bitrate, head


def _tag(path: Path, file: BinaryIO, opening: bytes) -> bytes:
    length = mpeg.tag_length(opening)
    if length > MAX_HEAD:
        raise FileError(f"{path} has a tag of {length >> 20} MiB; at most {MAX_HEAD >> 20} MiB can be kept")
    file.seek(0)
    return file.read(length)


def _refuse_truncated(path: Path, log: str) -> None:
    """libsndfile reads what is there of a cut file and only its log says so.

    A header written to a pipe promises the most that its field holds, and is no sign of a cut.
    """
    promised = re.search(r"^ *(?:data|SSND|Data Size|riff) *: (\d+) \(should be (\d+)\)", log, re.MULTILINE)
    cut = promised is not None and int(promised[2]) < int(promised[1]) < 0x7FFF_F000
    cut = cut or re.search(r"Calculated frame count \d+ does not match value from 'ds64'", log) is not None
    if cut:
        raise FileError(f"{path} is truncated: it ends before its header says")


def _refuse_unended(path: Path, file: BinaryIO) -> None:
    """The last page of an Ogg file says that it is the last, and is whole."""
    longest_page = 27 + 255 + 255 * 255
    file.seek(max(0, _size(file) - 2 * longest_page))
    tail = file.read()
    page = tail[tail.rfind(b"OggS") :]
    lengths = page[27 : 27 + page[26]] if len(page) > 26 else b""
    if not lengths or not page[5] & 4 or len(page) < 27 + len(lengths) + sum(lengths):
        raise FileError(f"{path} is truncated: its last page is missing")


def vorbis_nominal(opening: bytes) -> float:
    """Nominal bitrate in kbit/s in a Vorbis identification header: the quality that an encoder can be asked for again.

    Not above 0 where there is none.
    """
    at = opening.find(b"\x01vorbis")
    return int.from_bytes(opening[at + 20 : at + 24], "little", signed=True) / 1000 if at >= 0 else 0


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size
