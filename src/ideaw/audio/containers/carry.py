"""Which container copier takes everything but the samples from a source to what was coded anew."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeAlias

from ideaw.audio.containers.bytes import UnfitContainerError
from ideaw.audio.containers.chunks import carry_around_samples
from ideaw.audio.containers.comments import carry_comments
from ideaw.audio.containers.flac import carry_flac
from ideaw.audio.containers.left_behind import name_left_behind
from ideaw.audio.containers.mp3 import carry_mp3
from ideaw.audio.containers.ogg import carry_ogg
from ideaw.audio.containers.trailers import carry_trailing_tags
from ideaw.audio.formats import FORMATS, SOUND_CONTAINERS, Encoding, import_pyav
from ideaw.errors import FileError

Copier: TypeAlias = Callable[[BinaryIO, BinaryIO, BinaryIO], None]
"""Writes the audio of its second file with everything else of its first to its third."""

_logger = logging.getLogger("ideaw")

_CHUNKED = ("WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF")
_SAME_CONTAINER: dict[str, Copier] = {
    **dict.fromkeys(_CHUNKED, carry_around_samples),
    "FLAC": carry_flac,
    "MP3": carry_mp3,
    "OGG": carry_ogg,
    "WV": carry_trailing_tags,
}
_COMMENTED = ("FLAC", "OGG")
"""Containers with Vorbis comments."""


def find_copier(path: Path, source: Encoding, target: Encoding, track: int) -> Copier | None:
    """What carries over everything but the samples; None if the two have nothing but usual tags in common.

    Args:
        path: what is written, in whose name FFmpeg's container is told.
        source, target: how the samples were coded, and will be.
        track: which of the source's sounds is replaced.
    """
    sound_container = SOUND_CONTAINERS.get(source.container, source.container)
    if sound_container in SOUND_CONTAINERS.values() and target.container in (source.container, sound_container):
        import_pyav(path)
        from ideaw.audio.containers.streams import carry_streams

        return partial(
            carry_streams,
            muxer=FORMATS[path.suffix.lower()].muxer,
            track=track,
            folder=path.parent,
            with_video=target.container in SOUND_CONTAINERS,
        )
    if source.container == target.container and source.subtype == target.subtype:
        return _SAME_CONTAINER.get(target.container)
    if source.container in _COMMENTED and target.container in _COMMENTED:
        return carry_comments
    return None


def warn_of_losses(path: Path, source: Path, encoding: Encoding, copier: Copier | None) -> None:
    """Log what of `source` has no place in the format of `path`, in one line, if there is anything."""
    if copier is None or copier is carry_comments:
        with source.open("rb") as file:
            names = name_left_behind(file, encoding, comments_stay=copier is carry_comments)
        if names:
            _logger.warning("%s has no place for all of its source; left behind: %s", path, ", ".join(names))


def carry(path: Path, copier: Copier, source: Path, coded: Path, output: Path) -> None:
    """Run a copier on three files; `path` names what is written in errors.

    Raises:
        FileError: the source's parts cannot be carried over.
        OSError: a file cannot be read or written.
    """
    with source.open("rb") as theirs, coded.open("rb") as ours, output.open("wb") as whole:
        try:
            copier(theirs, ours, whole)
        except UnfitContainerError as problem:
            raise FileError(f"{path} cannot be written: of the source, {problem}") from problem
        except (ValueError, IndexError, RecursionError) as problem:  # places and sizes that nothing could have
            raise FileError(
                f"{path} cannot be written: what surrounds the samples of the source is damaged"
            ) from problem
