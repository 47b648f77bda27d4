"""Audio that is no file yet, or not to become one: bytes and open binary files go through temporary files.

Decoders seek, and what is written is read back before it is handed over, so both need files that they can name.
"""

import contextlib
import io
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

from ideaw.audio import atomic
from ideaw.audio.formats import FORMATS, SOUND_CONTAINERS, Encoding, PathLike
from ideaw.audio.read import open_audio
from ideaw.errors import FileError, IdeawError, error_reason

_logger = logging.getLogger("ideaw")

SPOOL = Path(tempfile.gettempdir()) / "audio"
"""Names the disk on which content without a place of its own is kept meanwhile."""

AudioInput: TypeAlias = PathLike | bytes | BinaryIO
"""A path, the content of a file, or an open binary file."""

AudioOutput: TypeAlias = PathLike | BinaryIO
"""A path, or an open binary file."""


@contextlib.contextmanager
def as_path(source: AudioInput) -> Iterator[Path]:
    """Yield where the content of `source` lies.

    Raises:
        FileError: it cannot be read.
    """
    if isinstance(source, str | os.PathLike):
        yield Path(source)
        return
    with atomic.scratch_file(SPOOL) as path:
        try:
            with path.open("wb") as file:
                shutil.copyfileobj(io.BytesIO(source) if isinstance(source, bytes) else source, file)
        except (OSError, ValueError, TypeError, AttributeError) as problem:
            raise FileError(f"the audio cannot be read: {error_reason(problem)}") from problem
        with name_in_errors(path):
            yield path


@contextlib.contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Call a file "the audio" in errors, whose name on the disk nobody knows."""
    try:
        yield
    except IdeawError as problem:
        if str(path) not in str(problem):
            raise
        raise type(problem)(str(problem).replace(str(path), "the audio")) from problem


@contextlib.contextmanager
def as_paths(source: AudioInput, target: AudioOutput) -> Iterator[tuple[Path, Path, Path | None]]:
    """Yield where the content of `source` lies, the target's name, and where its content goes if not there.

    Once the block has ended well, an open target gets that content.

    Raises:
        FileError: the source cannot be read, or the target not be written.
    """
    with as_path(source) as source_path:
        if isinstance(target, str | os.PathLike):
            yield source_path, Path(target), None
            return
        with open_audio(source_path) as opened:
            name = Path(f"marked{extension_for(opened.encoding, source_path.suffix.lower())}")
        with atomic.scratch_file(SPOOL) as into:
            yield source_path, name, into
            try:
                with into.open("rb") as file:
                    shutil.copyfileobj(file, target)
            except (OSError, ValueError, TypeError, AttributeError) as problem:
                raise FileError(f"the marked audio cannot be handed over: {error_reason(problem)}") from problem


def extension_for(encoding: Encoding, suffix: str) -> str:
    """The extension of a marked file in the format of its source: the source's own, or one that can hold its coding.

    What cannot be written as it is becomes WAV or, if it was WAV, FLAC; a warning says so.
    """
    if encoding.container in SOUND_CONTAINERS:
        own = [suffix] if suffix in FORMATS else []
        movies = (name for name in (*own, *FORMATS) if encoding.container in FORMATS[name].containers)
        return next((name for name in movies if encoding.subtype in FORMATS[name].subtypes), ".mkv")
    own = [suffix] if suffix in FORMATS else []
    by_container = [name for name in (*own, *FORMATS) if encoding.container in FORMATS[name].containers]
    fitting = [name for name in (*by_container, *own, *FORMATS) if encoding.subtype in FORMATS[name].subtypes]
    if fitting:
        return fitting[0]
    other = next(name for name in (".wav", ".flac") if encoding.container not in FORMATS[name].containers)
    coding = encoding.subtype.replace("_", " ")
    _logger.warning("%s in %s cannot be written; what is marked becomes %s", coding, encoding.container, other)
    return other
