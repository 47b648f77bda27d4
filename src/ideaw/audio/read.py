"""Decoding of files through libsndfile, block by block.

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

from ideaw.audio import mpeg, tags
from ideaw.audio.atomic import error_reason
from ideaw.audio.buffer import CODEC_BLOCK_SAMPLES, regroup
from ideaw.audio.checks import MAX_CHANNELS
from ideaw.audio.formats import Encoding
from ideaw.errors import FileError

MAX_FILE_RATE_HZ = 768_000
"""The highest rate in Hz that recorders have."""

MAX_ID3_BYTES = 1 << 25
"""Bytes of an ID3v2 tag, which is held in memory: room for a few large pictures."""

OPENING_BYTES = 1 << 12
"""Bytes at the start of a file that say what it is."""

MAGIC_NUMBERS = (b"RIFF", b"RF64", b"riff", b"fLaC", b"OggS", b"FORM", b".snd")
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
    """

    rate: int
    channels: int
    num_samples: int | None
    encoding: Encoding
    pieces: Iterator[NDArray[np.float64]] = field(repr=False)

    def blocks(self, size: int = CODEC_BLOCK_SAMPLES) -> Iterator[NDArray[np.float64]]:
        """The samples as `(size, channels)` float64, PCM of every width exactly; the last block may be shorter.

        Raises:
            FileError: the file turns out to be damaged or truncated.
        """
        return regroup(self.pieces, size)


@contextlib.contextmanager
def open_source(path: Path, file: BinaryIO) -> Iterator[Source]:
    """Open what libsndfile can read from `file`; `path` names it in errors.

    Raises:
        FileError: it is damaged, truncated, of an unknown format, or claims what no recorder has.
    """
    opening = file.read(OPENING_BYTES)
    with _decoder_errors(path, opening):
        data, bitrate, id3 = _prepare(path, file, opening)
        sound = _ForwardFile(data, closefd=False)
    with sound:
        with _decoder_errors(path, opening):
            check_claims(path, sound.samplerate, sound.channels)
            _check_log(path, sound.extra_info)
            texts = {name: text for name, text in sound.copy_metadata().items() if name in tags.TAG_NAMES and text}
        num_samples = sound.frames if sound.frames < _UNKNOWN_LENGTH else None
        if sound.format == "OGG" and not bitrate:
            seconds = max((num_samples or 0) / sound.samplerate, 0.02)
            bitrate = _num_bytes(file) * 8 / 1000 / seconds
        encoding = Encoding(sound.format, sound.subtype, None if bitrate is None else round(bitrate), texts, id3)
        yield Source(sound.samplerate, sound.channels, num_samples, encoding, _read_pieces(sound, path, opening))


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


def _prepare(path: Path, file: BinaryIO, opening: bytes) -> tuple[int | BinaryIO, float | None, bytes]:
    """What libsndfile is to read, at its start; the bitrate in kbit/s if it is known; and an MP3's ID3v2 tag.

    All that is looked up in the file is looked up here: libsndfile relies on the place where it left the descriptor.
    """
    if opening.startswith(_SDS_MAGIC):
        raise FileError(f"{path} is a MIDI sample dump, which cannot be read; give an audio file")
    bitrate, id3 = None, b""
    if opening.startswith(b"OggS"):
        _check_last_page(path, file)
        bitrate = max(0, vorbis_nominal_bitrate(opening))
    elif opening.startswith(_MP3_MAGIC) or (path.suffix.lower() == ".mp3" and not opening.startswith(MAGIC_NUMBERS)):
        stream = mpeg.scan(file)
        if stream is None:
            raise FileError(f"{path} holds no MP3 frames")
        if stream.num_frames < stream.claimed_frames - 1:
            raise FileError(f"{path} is truncated: {stream.num_frames} of {stream.claimed_frames} frames are there")
        bitrate, id3 = stream.bitrate, _read_id3(path, file, opening)
        if stream.variable and not stream.has_xing:
            return mpeg.with_xing_header(file, id3, stream), bitrate, id3
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    return file.fileno(), bitrate, id3


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


def _check_last_page(path: Path, file: BinaryIO) -> None:
    """Raise `FileError` unless the last page of an Ogg file says that it is the last, and is complete."""
    longest_page = 27 + 255 + 255 * 255
    file.seek(max(0, _num_bytes(file) - 2 * longest_page))
    tail = file.read()
    page = tail[tail.rfind(b"OggS") :]
    lengths = page[27 : 27 + page[26]] if len(page) > 26 else b""
    if not lengths or not page[5] & 4 or len(page) < 27 + len(lengths) + sum(lengths):
        raise FileError(f"{path} is truncated: its last page is missing")


def vorbis_nominal_bitrate(opening: bytes) -> float:
    """Nominal bitrate in kbit/s in a Vorbis identification header: the quality that an encoder can be asked for again.

    Not above 0 where there is none.
    """
    at = opening.find(b"\x01vorbis")
    return int.from_bytes(opening[at + 20 : at + 24], "little", signed=True) / 1000 if at >= 0 else 0


def _num_bytes(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size
