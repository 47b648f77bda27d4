"""Audio files in and out, in blocks or as a whole, and written whole or not at all.

A marked file should differ from its source by the mark alone: the same container, sample width or
bitrate, length and tags. libsndfile does the work; PyAV (the extra `formats`) adds what it lacks.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from ideaw.audio import atomic
from ideaw.audio import read as sndfile_reader
from ideaw.audio import write as sndfile_writer
from ideaw.audio.buffer import CODEC_BLOCK_SAMPLES, SampleBuffer, split_blocks
from ideaw.audio.encoding import Encoding
from ideaw.audio.read import Source
from ideaw.errors import FileError, MissingExtraError

__all__ = ["CODEC_BLOCK_SAMPLES", "EXTENSIONS", "WITH_AV", "Encoding", "Recording", "Source", "Write"]

WITH_AV = {".m4a": "M4A", ".mp4": "M4A"}
"""Extensions written through PyAV."""

EXTENSIONS = (*sndfile_writer.EXTENSIONS, *WITH_AV)
"""Extensions that can be written."""

Write = Callable[[NDArray[np.floating]], None]
"""Appends `(n, channels)` floats to a file."""


@dataclass(frozen=True)
class Recording:
    """What a file holds: `samples` `(n, channels)` float64 at `rate` Hz, and how they were coded."""

    samples: NDArray[np.float64]
    rate: int
    encoding: Encoding


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Source]:
    """The file at `path`, whatever its extension says, to be read in blocks: in the memory of one, however long."""
    path = Path(path)
    with atomic.opened(path) as file:
        reader = _with_av(path) if _needs_av(path, file.peek(16)) else sndfile_reader
        with reader.opened(path, file) as source:
            yield source


def read(path: str | os.PathLike[str]) -> Recording:
    """The whole file at `path`, whatever its extension says; PCM of every width exactly."""
    with opened(path) as source:
        held = bytearray()  # grows as samples come, since what a header claims may be far more than there is
        for block in source.blocks():
            held += block.data
    samples = np.frombuffer(held, np.float64).reshape(-1, source.channels)
    return Recording(samples, source.rate, source.encoding)


def check_target(
    path: str | os.PathLike[str],
    rate: int,
    channels: int,
    encoding: Encoding | None = None,
    frames: int | None = None,
) -> None:
    """Whether `writing` with the same arguments can begin; raises `FileError` or `MissingExtraError` if not."""
    path = Path(path)
    writer = _with_av(path) if _extension(path) in WITH_AV else sndfile_writer
    writer.check(path, rate, channels, encoding, frames)
    atomic.check_place(path)


@contextlib.contextmanager
def writing(
    path: str | os.PathLike[str],
    rate: int,
    channels: int,
    encoding: Encoding | None = None,
    frames: int | None = None,
) -> Iterator[Write]:
    """A function that appends blocks to what will be at `path`, in the container that its extension names.

    The container that `encoding` came from keeps its subtype, bitrate and tags; another one gets its
    nearest lossless width or a default bitrate, and the tags. `frames`, where it is known, is how many
    samples per channel will come; it decides whether a WAV file needs RF64. What is at `path` stays until
    the `with` ends well, and then is replaced at once; if it ends otherwise, nothing has happened.
    """
    path = Path(path)
    check_target(path, rate, channels, encoding, frames)
    writer = _with_av(path) if _extension(path) in WITH_AV else sndfile_writer
    buffer, empty = SampleBuffer(channels), True

    def write(piece: NDArray[np.floating]) -> None:
        nonlocal empty
        if piece.ndim != 2 or piece.shape[1] != channels:
            raise FileError(f"samples of shape {piece.shape} cannot be written; give (samples, {channels})")
        buffer.append(piece)
        for block in buffer.pop_blocks(CODEC_BLOCK_SAMPLES):
            target.write(block)
        empty = empty and not len(piece)

    with atomic.placed(path) as temporary:
        target = writer.Target(path, temporary, rate, channels, encoding, frames)
        try:
            yield write
            if empty:
                raise FileError(f"there are no samples to write to {path}")
            if len(buffer):
                target.write(buffer.pop(len(buffer)))
            target.finish()
        except BaseException:
            target.abandon()
            raise


def write(
    path: str | os.PathLike[str], samples: NDArray[np.floating], rate: int, encoding: Encoding | None = None
) -> None:
    """Write `(n, channels)` floats at `rate` Hz, as `writing` does."""
    if samples.ndim != 2:
        raise FileError(f"samples of shape {samples.shape} cannot be written; give (samples, channels)")
    with writing(path, rate, samples.shape[1], encoding, len(samples)) as append:
        for block in split_blocks(samples, CODEC_BLOCK_SAMPLES):
            append(block)


def step(path: str | os.PathLike[str], encoding: Encoding) -> float:
    """The distance of two neighbouring sample values of what `write` would make of `encoding` there; 0 if any goes."""
    path = Path(path)
    subtype = encoding.subtype if _extension(path) in WITH_AV else sndfile_writer.fitting(path, encoding, 0).subtype
    bits = re.fullmatch(r"(?:PCM|ALAC)_[SU]?(\d+)", subtype)
    return 2.0 ** (1 - int(bits[1])) if bits else 0.0


def same_file(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Raises `FileError` if both names lead to one file, by another spelling or a link too."""
    if atomic.same(Path(source), Path(target)):
        raise FileError(f"{target} is the input itself; give another name for the output")


def _needs_av(path: Path, opening: bytes) -> bool:
    matroska, asf = b"\x1aE\xdf\xa3", b"\x30\x26\xb2\x75"
    bare = path.suffix.lower() == ".aac" and not opening.startswith(sndfile_reader.KNOWN)  # AAC has no magic number
    return bare or opening[4:8] == b"ftyp" or opening.startswith((matroska, asf))


def _extension(path: Path) -> str:
    """The extension of a file to be written; `FileError` if there is no such."""
    extension = path.suffix.lower()
    if extension == ".aac":
        raise FileError(f"{path}: a bare .aac stream cannot hold its length or tags; use .m4a")
    if extension not in EXTENSIONS:
        named = f'of the unknown type "{extension}"' if extension else "without an extension"
        raise FileError(f"{path} is an output {named}; use one of {', '.join(EXTENSIONS)}")
    return extension


def _with_av(path: Path) -> ModuleType:
    """The module on PyAV, which is an optional package."""
    try:
        from ideaw.audio import pyav
    except ImportError as problem:
        raise MissingExtraError(f'{path} needs PyAV; install it with: pip install "ideaw[formats]"') from problem
    return pyav
