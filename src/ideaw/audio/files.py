"""Audio files in and out, in blocks or as a whole, and written whole or not at all.

A marked file should differ from its source by the mark alone: the same container, sample width or
bitrate, length and tags. libsndfile does the work; PyAV (the extra `formats`) adds what it lacks.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from ideaw.audio import atomic, formats
from ideaw.audio import read as sndfile_reader
from ideaw.audio import write as sndfile_writer
from ideaw.audio.buffer import CODEC_BLOCK_SAMPLES, SampleBuffer, split_blocks
from ideaw.audio.checks import check_finite, check_length
from ideaw.audio.formats import EXTENSIONS, Encoding
from ideaw.audio.read import Source
from ideaw.errors import FileError, MissingExtraError

__all__ = ["EXTENSIONS", "Encoding", "Recording", "Source", "WriteBlock"]

WriteBlock = Callable[[NDArray[np.floating]], None]
"""Appends `(n, channels)` floats to a file."""


@dataclass(frozen=True)
class Recording:
    """A whole file: `samples` `(n, channels)` float64 at `rate` Hz, and how they were coded."""

    samples: NDArray[np.float64]
    rate: int
    encoding: Encoding


@contextlib.contextmanager
def open_audio(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open an audio file, whatever its extension says, to be read in blocks: in the memory of one, however long.

    Raises:
        FileError: it cannot be read, is damaged, truncated, or no audio file.
        MissingExtraError: its container needs PyAV, which is not installed.
    """
    path = Path(path)
    with atomic.open_regular(path) as file:
        reader = _import_pyav(path) if _read_by_pyav(path, file.peek(16)) else sndfile_reader
        with reader.open_source(path, file) as source:
            yield source


def read_blocks(path: str | os.PathLike[str], longest: float | None = None) -> Iterator[NDArray[np.float64]]:
    """The samples of the file at `path` in blocks `(n, channels)`, each checked.

    Raises:
        FileError: the file cannot be read.
        AudioError: a sample is not finite, or there is less than a second or more than `longest` seconds.
    """
    with open_audio(path) as source:
        length = 0
        for block in source.blocks():
            check_finite(block)
            length += len(block)
            if longest is not None:
                check_length(max(length, source.rate), source.rate, longest)
            yield block
        check_length(length, source.rate)


def read(path: str | os.PathLike[str]) -> Recording:
    """Read a whole audio file, PCM of every width exactly; raises what `open_audio` raises."""
    with open_audio(path) as source:
        content = bytearray()  # grows as samples come, since what a header claims may be far more than there is
        for block in source.blocks():
            content += block.data
    samples = np.frombuffer(content, np.float64).reshape(-1, source.channels)
    return Recording(samples, source.rate, source.encoding)


def check_target(
    path: str | os.PathLike[str],
    rate: int,
    channels: int,
    encoding: Encoding | None = None,
    num_samples: int | None = None,
) -> None:
    """Check whether `create_audio` with the same arguments can begin; raises what it raises."""
    path = Path(path)
    _encoder(path)
    formats.check_format(path, rate, channels, encoding, num_samples)
    atomic.check_writable(path)


@contextlib.contextmanager
def create_audio(
    path: str | os.PathLike[str],
    rate: int,
    channels: int,
    encoding: Encoding | None = None,
    num_samples: int | None = None,
) -> Iterator[WriteBlock]:
    """Yield a function that appends blocks to what will be at `path`, in the container that its extension names.

    What is at `path` stays until the `with` ends well, and then is replaced at once; if it ends otherwise, nothing
    has happened.

    Args:
        path: the output.
        rate: sampling rate in Hz.
        channels: number of channels.
        encoding: how the source held the samples; it is kept as far as `formats.choose_encoding` can.
        num_samples: length per channel, if it is known; decides whether a WAV file needs RF64.

    Raises:
        FileError: the format cannot hold this, the place cannot be written, or there were no samples.
        MissingExtraError: the container needs PyAV, which is not installed.
    """
    path = Path(path)
    check_target(path, rate, channels, encoding, num_samples)
    chosen = formats.choose_encoding(path, encoding, channels * (num_samples or 0))
    buffer = SampleBuffer(channels)

    def write(samples: NDArray[np.floating]) -> None:
        if samples.ndim != 2 or samples.shape[1] != channels:
            raise FileError(f"samples of shape {samples.shape} cannot be written; give (samples, {channels})")
        buffer.append(samples)
        for block in buffer.pop_blocks(CODEC_BLOCK_SAMPLES):
            encoder.write(block)

    with atomic.replace_on_success(path) as temporary:
        encoder = _encoder(path).Encoder(path, temporary, rate, channels, chosen)
        try:
            yield write
            if not buffer.end:
                raise FileError(f"there are no samples to write to {path}")
            if len(buffer):
                encoder.write(buffer.pop(len(buffer)))
            encoder.finish()
        except BaseException:
            encoder.abort()
            raise


def write(
    path: str | os.PathLike[str], samples: NDArray[np.floating], rate: int, encoding: Encoding | None = None
) -> None:
    """Write `(n, channels)` floats of full scale 1 at `rate` Hz, as `create_audio` does."""
    if samples.ndim != 2:
        raise FileError(f"samples of shape {samples.shape} cannot be written; give (samples, channels)")
    with create_audio(path, rate, samples.shape[1], encoding, len(samples)) as append:
        for block in split_blocks(samples, CODEC_BLOCK_SAMPLES):
            append(block)


def quantisation_step(path: str | os.PathLike[str], encoding: Encoding) -> float:
    """Distance of two neighbouring sample values in what `write` makes of `encoding` at `path`; 0 if any goes."""
    return formats.quantisation_step(Path(path), encoding)


def check_distinct(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Raise `FileError` if both names lead to one file, also by another spelling or a link."""
    if atomic.is_same_file(Path(source), Path(target)):
        raise FileError(f"{target} is the input itself; give another name for the output")


def written_by_pyav(path: str | os.PathLike[str]) -> bool:
    """Whether a file with the extension of `path` is written through PyAV."""
    return formats.file_format(Path(path)).writer == "PyAV"


def _read_by_pyav(path: Path, opening: bytes) -> bool:
    """Whether a file of this opening is read through PyAV."""
    matroska, asf = b"\x1aE\xdf\xa3", b"\x30\x26\xb2\x75"
    no_magic = not opening.startswith(sndfile_reader.MAGIC_NUMBERS)
    bare_aac = path.suffix.lower() == ".aac" and no_magic  # AAC has no magic number of its own
    return bare_aac or opening[4:8] == b"ftyp" or opening.startswith((matroska, asf))


def _encoder(path: Path) -> ModuleType:
    """The module whose `Encoder` writes what the extension names."""
    return _import_pyav(path) if written_by_pyav(path) else sndfile_writer


def _import_pyav(path: Path) -> ModuleType:
    """The module on PyAV, which is an optional package."""
    try:
        from ideaw.audio import pyav
    except ImportError as problem:
        raise MissingExtraError(f'{path} needs PyAV; install it with: pip install "ideaw[formats]"') from problem
    return pyav
