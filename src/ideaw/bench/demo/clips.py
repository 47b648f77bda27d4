"""The clips of the demo: the packaged ones, of which each has its credit beside it, or files of a user's own."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import msgspec

from ideaw.bench.corpus import evenly_spaced, list_audio_files
from ideaw.bench.listen import may_last
from ideaw.errors import FileError


@dataclass(frozen=True)
class Credit:
    """Whose a recording is, and what was done to it."""

    author: str
    licence: str
    licence_url: str
    source: str
    changes: str


@dataclass(frozen=True)
class Clip:
    """A recording that is marked in the demo."""

    name: str
    """Of its page and its files: lower-case letters, digits, hyphens."""
    title: str
    path: Path
    about: str = ""
    credit: Credit | None = None


class _Entry(msgspec.Struct):
    """An entry of `recordings/credits.json`; `file` is seen from there."""

    name: str
    file: str
    title: str
    about: str
    author: str
    licence: str
    licence_url: str
    source: str
    changes: str


def packaged_clips() -> list[Clip]:
    """Speech and music, quiet and loud, under free licences."""
    folder = Path(str(resources.files("ideaw.bench.demo").joinpath("recordings")))
    entries = msgspec.json.decode((folder / "credits.json").read_bytes(), type=list[_Entry])
    return [
        Clip(
            entry.name,
            entry.title,
            folder / entry.file,
            entry.about,
            Credit(entry.author, entry.licence, entry.licence_url, entry.source, entry.changes),
        )
        for entry in entries
    ]


def clips_of(data: Path, seconds: float, limit: int) -> list[Clip]:
    """At most `limit` files under a folder that last so many seconds, evenly spaced.

    Raises:
        FileError: There is none, or one cannot be read.
    """
    paths = [path for path in list_audio_files(data) if may_last(path, seconds)]
    if not paths:
        raise FileError(f"{data} holds no audio file of {seconds:g} s or more, which is what the demo plays of each")
    chosen = (paths[i] for i in evenly_spaced(len(paths), limit))
    return [Clip(f"clip-{number + 1}", path.relative_to(data).as_posix(), path) for number, path in enumerate(chosen)]
