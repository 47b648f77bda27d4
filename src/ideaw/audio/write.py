"""Audio files out: the encoding that a path gets, libsndfile's encoder, and files that appear whole or not at all.

A marked file should differ from its source by the mark alone: the same container, sample width or bitrate, length, and
everything that surrounds the samples.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ideaw.audio import atomic, tags
from ideaw.audio.blocks import CODEC_BLOCK_SAMPLES, SampleBuffer, split_blocks
from ideaw.audio.companding import COMPANDED_SUBTYPES
from ideaw.audio.containers.carry import carry, find_copier, warn_of_losses
from ideaw.audio.formats import (
    CONSTANT_RATE,
    CONTAINERS_OF_32_BITS,
    EXTENSIONS,
    FORMATS,
    MAX_DATA_BYTES,
    RATELESS_SUBTYPES,
    SAMPLE_BITS,
    SOUND_CONTAINERS,
    Encoding,
    FileFormat,
    PathLike,
    import_pyav,
)
from ideaw.audio.read import open_audio
from ideaw.audio.sndfile_encoder import SndfileEncoder
from ideaw.errors import FileError, error_reason

Errors: TypeAlias = tuple[type[Exception], ...]
"""Kinds of exceptions."""

WriteBlock = Callable[[NDArray[np.floating]], None]
"""Appends `(n, channels)` floats to a file."""


class Encoder(Protocol):
    """Writes a file; made from a temporary path, the rate in Hz, the channels and the encoding."""

    errors: ClassVar[Errors]
    """What its methods raise where the file cannot be written."""

    def __init__(self, temporary: Path, rate: int, channels: int, encoding: Encoding) -> None: ...

    def write(self, block: NDArray[np.floating]) -> None:
        """Append `(n, channels)` floats, at most `CODEC_BLOCK_SAMPLES` at a time."""

    def finish(self) -> None:
        """Write what comes last."""

    def abort(self) -> None:
        """Close a file that will not be needed."""


@contextlib.contextmanager
def create_audio(
    path: PathLike,
    rate: int,
    channels: int,
    encoding: Encoding | None = None,
    num_samples: int | None = None,
    *,
    source: PathLike | None = None,
    track: int = 0,
    inspect: Callable[[Path], None] | None = None,
    overwrite: bool = True,
    into: Path | None = None,
) -> Iterator[WriteBlock]:
    """Yield a function that appends blocks to what will be at `path`, in the container that its extension names.

    What is at `path` stays until the `with` ends well, and then is replaced at once; if it ends otherwise, nothing
    has happened.

    Args:
        path: the output.
        rate: sampling rate in Hz.
        channels: number of channels.
        encoding: how the source held the samples; it is kept as far as `choose_encoding` can.
        num_samples: length per channel, if it is known; decides whether a WAV file needs RF64.
        source: file of that encoding, as long, of which everything but the samples is to be kept.
        track: which of the source's sounds, counted from 0, the samples replace.
        inspect: called with the finished file before it gets its place; what it raises prevents that.
        overwrite: whether there may be a file at `path` already.
        into: an empty file that is written instead; `path` then only names it and its format.

    Raises:
        FileError: the format cannot hold this, the place cannot be written, or there were no samples.
        MissingExtraError: the container needs PyAV, which is not installed.
    """
    path = Path(path)
    check_format(path, rate, channels, encoding, num_samples, source is not None)
    chosen = choose_encoding(path, encoding, channels * (num_samples or 0))
    make_encoder, errors = _encoder(path, chosen)
    copier = None
    if source is not None and encoding is not None:
        check_kept(path, encoding)
        copier = find_copier(path, encoding, chosen, track)
    buffer = SampleBuffer(channels)

    def write_held(size: int) -> None:
        while buffer.end - buffer.start >= size:
            block = buffer.pop(CODEC_BLOCK_SAMPLES)
            check_size(path, chosen, buffer.start * channels)
            encoder.write(block)

    def write(samples: NDArray[np.floating]) -> None:
        if samples.ndim != 2 or samples.shape[1] != channels:
            raise FileError(f"samples of shape {samples.shape} cannot be written; give (samples, {channels})")
        buffer.append(samples)
        with _encoder_errors(path, errors):
            write_held(CODEC_BLOCK_SAMPLES)

    with contextlib.ExitStack() as files:
        finished = into or files.enter_context(atomic.replace_on_success(path, overwrite))
        coded = finished if copier is None else files.enter_context(atomic.scratch_file(path))
        with _encoder_errors(path, errors):
            encoder = make_encoder(coded, rate, channels, chosen)
        try:
            yield write
            if not buffer.end:
                raise FileError(f"there are no samples to write to {path}")
            with _encoder_errors(path, errors):
                write_held(1)
                encoder.finish()
        except BaseException:
            encoder.abort()
            raise
        if make_encoder is SndfileEncoder:
            _check_complete(path, coded, buffer.end)
        if copier is not None:
            assert source is not None
            with atomic.file_errors(path):
                carry(path, copier, Path(source), coded, finished)
        if inspect is not None:
            inspect(finished)
        if source is not None and encoding is not None:
            warn_of_losses(path, Path(source), encoding, copier)


def write_audio(path: PathLike, samples: NDArray[np.floating], rate: int, encoding: Encoding | None = None) -> None:
    """Write `(n, channels)` floats of full scale 1 at `rate` Hz, as `create_audio` does."""
    if samples.ndim != 2:
        raise FileError(f"samples of shape {samples.shape} cannot be written; give (samples, channels)")
    with create_audio(path, rate, samples.shape[1], encoding, len(samples)) as append:
        for block in split_blocks(samples, CODEC_BLOCK_SAMPLES):
            append(block)


def check_place(path: PathLike, overwrite: bool = True) -> None:
    """Raise `FileError` if no file can be created at `path`, or, unless that may be, there is one."""
    atomic.check_writable(Path(path))
    if not overwrite:
        atomic.check_absent(Path(path))


def check_distinct(source: PathLike, target: PathLike) -> None:
    """Raise `FileError` if both names lead to one file, also by another spelling or a link."""
    if atomic.is_same_file(Path(source), Path(target)):
        raise FileError(f"{target} is the input itself; give another name for the output")


def stored_step(path: PathLike, encoding: Encoding) -> float:
    """Distance of two neighbouring sample values in what `encoding` becomes at `path`, full scale 1; 0 if any goes."""
    subtype = choose_encoding(Path(path), encoding, 0).subtype
    integers = re.fullmatch(r"(?:PCM|ALAC|FLAC|WAVPACK)_[SU]?(\d+)(?:LE|BE)?", subtype)
    return 2.0 ** (1 - int(integers[1])) if integers else 0.0


def stored_companding(path: PathLike, encoding: Encoding) -> str | None:
    """The law, A or µ, by which samples of `encoding` are stored in what it becomes at `path`, as they were before."""
    subtype = choose_encoding(Path(path), encoding, 0).subtype
    return subtype if subtype == encoding.subtype and subtype in COMPANDED_SUBTYPES else None


def written_by_pyav(path: PathLike) -> bool:
    """Whether a file with the extension of `path` is written through PyAV."""
    return file_format(Path(path)).writer == "PyAV"


def file_format(path: Path) -> FileFormat:
    """The format that the extension of an output names; raise `FileError` if there is none."""
    extension = path.suffix.lower()
    if extension == ".aac":
        raise FileError(f"{path}: a bare .aac stream cannot hold its length or tags; use .m4a")
    if extension not in FORMATS:
        named = f'of the unknown type "{extension}"' if extension else "without an extension"
        raise FileError(f"{path} is an output {named}; use one of {', '.join(EXTENSIONS)}")
    return FORMATS[extension]


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
    if source.container not in target.containers and source.subtype == "VORBIS" and target.writer == "PyAV":
        source = replace(source, subtype="")  # is written to Ogg, and needs a source to be carried around it
    container = source.container if source.container in target.containers else target.containers[0]
    subtype = source.subtype
    if subtype not in target.subtypes:
        shallow = subtype in ("", "PCM_U8", "PCM_S8", "PCM_16", "ALAC_16")
        deep = not shallow and "PCM_24" in target.subtypes
        subtype = "PCM_24" if deep else target.subtypes[0]
    if container in ("WAV", "WAVEX") and _num_bytes(subtype, num_values) >= MAX_DATA_BYTES:
        container = "RF64"
    # AAC has a bitrate of its own in whatever container; libsndfile's codecs are told by quality, which others lack.
    same_codec = source.subtype == subtype and (source.container in target.containers or target.writer == "PyAV")
    bitrate = source.bitrate if same_codec else target.default_bitrate
    id3 = ((source.id3 if same_codec else b"") or tags.encode_id3(source.tags)) if container == "MP3" else b""
    same_container = source.container == container
    endian = source.endian if same_container else None
    control = source.rate_control if same_container else CONSTANT_RATE
    return Encoding(container, subtype, bitrate, source.tags, id3, endian, control)


def check_format(
    path: Path,
    rate: int,
    channels: int,
    encoding: Encoding | None = None,
    num_samples: int | None = None,
    keeps_video: bool = False,
) -> None:
    """Check whether the format that `path` names can hold some audio.

    Args:
        path: the output.
        rate: sampling rate in Hz.
        channels: number of channels.
        encoding: how the source holds it, if there is one.
        num_samples: length per channel, if it is known.
        keeps_video: whether the moving pictures of the source come along.

    Raises:
        FileError: it cannot.
    """
    extension, target = path.suffix.lower(), file_format(path)
    video_lost = encoding is not None and encoding.container in SOUND_CONTAINERS and not keeps_video
    if video_lost and any(container in SOUND_CONTAINERS for container in target.containers):
        raise FileError(f"{path} would lose the video of its source; write the sound alone as .m4a and mux it yourself")
    num_values = channels * (num_samples or 0)
    chosen = choose_encoding(path, encoding, num_values)
    if target.rates and rate not in target.rates and not chosen.subtype.startswith(RATELESS_SUBTYPES):
        accepted = ", ".join(map(str, target.rates))
        raise FileError(f"{extension} cannot hold {rate} Hz; use .wav or .flac, or one of {accepted} Hz")
    if "FLAC" in target.containers and rate > 0xFFFF and rate % 10:
        raise FileError(f"{extension} cannot hold {rate} Hz; use .wav, or a multiple of 10 Hz")
    if not 1 <= channels <= target.max_channels:
        raise FileError(f"{extension} cannot hold {channels} channels; use .wav, or at most {target.max_channels}")
    check_size(path, chosen, num_values)


def check_kept(path: Path, encoding: Encoding) -> None:
    """Raise `FileError` if `path` is to have the container of its source, but cannot have its coding.

    Another coding would be another file, many times as large or worse, under the same kind of name.
    """
    target = file_format(path)
    if encoding.container in target.containers and encoding.subtype not in target.subtypes:
        coding = encoding.subtype.replace("_", " ")
        raise FileError(f"{path} cannot have the coding of its source, {coding}; give another format, such as .flac")


def check_size(path: Path, encoding: Encoding, num_values: int) -> None:
    """Raise `FileError` if so many values (samples times channels) overflow the lengths of the container."""
    if encoding.container in CONTAINERS_OF_32_BITS and _num_bytes(encoding.subtype, num_values) >= MAX_DATA_BYTES:
        raise FileError(f"{path} would grow beyond the 4 GiB that {path.suffix.lower()} can hold; use .w64 or .flac")


def _num_bytes(subtype: str, num_values: int) -> int:
    return num_values * SAMPLE_BITS.get(subtype, 0) // 8


def _encoder(path: Path, chosen: Encoding) -> tuple[Callable[..., Encoder], Errors]:
    """What writes what the extension names, in the chosen encoding, and what that raises."""
    if chosen.subtype != "VORBIS" and written_by_pyav(path):
        make = import_pyav(path).Encoder
        return partial(make, muxer=file_format(path).muxer), make.errors
    return SndfileEncoder, SndfileEncoder.errors


def _check_complete(path: Path, coded: Path, length: int) -> None:
    """Raise `FileError` unless `length` samples were written: libsndfile's MP3 does not say that a disk is full."""
    try:
        with open_audio(coded) as opened:
            complete = opened.num_samples is None or opened.num_samples >= length
    except FileError as problem:
        raise FileError(f"{path} cannot be written: its end is missing; the disk may be full") from problem
    if not complete:
        raise FileError(f"{path} cannot be written: its end is missing; the disk may be full")


@contextlib.contextmanager
def _encoder_errors(path: Path, errors: Errors) -> Iterator[None]:
    """Turn what an encoder raises into a `FileError` of one line."""
    try:
        yield
    except errors as problem:
        raise FileError(f"{path} cannot be written: {error_reason(problem)}") from problem
