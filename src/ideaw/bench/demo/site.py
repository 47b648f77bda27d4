"""The demo as a folder of static pages, which needs no server and asks no other host: `ideaw demo --site`.

The folder appears whole or not at all. It carries a list of its files, and only a folder that holds nothing else is
replaced.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from ideaw.audio import atomic
from ideaw.audio.blocks import Progress
from ideaw.bench import listen
from ideaw.bench.demo.clips import Clip, clips_of, packaged_clips
from ideaw.bench.demo.pages import CLIPS_FOLDER, INDEX_PAGE, RESULTS_PAGE, Frame, clip_page, index_page, results_page
from ideaw.bench.demo.sounds import Sounds, make_sounds
from ideaw.errors import FileError
from ideaw.marker import Marker
from ideaw.payload.message import Content

LIST_FILE = "demo-files.json"
"""File of the site that names all others, so that a later run knows what it may replace."""

CLIP_SECONDS, LISTEN_SECONDS = 5.0, 3.0
"""Seconds of a clip on its page, and in the listening test, which loops it."""


@dataclass(frozen=True)
class Site:
    """What was written."""

    path: Path
    model: str
    shown: Sequence[Sounds]
    num_bytes: int
    """Of all files together."""


def write_site(
    folder: Path,
    message: Content,
    marker: Marker,
    data: Path | None = None,
    limit: int = 6,
    home: str | None = None,
    seconds: float = CLIP_SECONDS,
    progress: Progress | None = None,
) -> Site:
    """Write the demo into a folder, which is made, is empty, or holds an earlier demo.

    Args:
        folder: Of the site.
        message: What clips are marked with.
        marker: What marks and searches.
        data: A folder of audio files; None for the packaged ones.
        limit: At most so many files of `data`, evenly spaced.
        home: Address of the page that the site belongs to, for a link.
        seconds: Of each clip.
        progress: Called with the share that is done.

    Raises:
        FileError: The folder holds something else or cannot be written, or no file is long enough.
        AudioError: A clip cannot be marked or played.
    """
    _check_replaceable(folder)
    clips = packaged_clips() if data is None else clips_of(data, seconds, limit)
    frame = Frame(marker.card.name, version("ideaw"), home)
    with atomic.replace_folder_on_success(folder) as temporary, atomic.file_errors(folder):
        shown = []
        for number, clip in enumerate(clips):
            shown.append(_write_sounds(temporary, clip, marker, message, seconds))
            if progress:
                progress((number + 1) / (len(clips) + 1))
        _write_pages(temporary, frame, shown)
        titled = {clip.title: clip.path for clip in clips}
        listen.write_page(temporary / listen.LISTEN_FILE, marker, titled, min(seconds, LISTEN_SECONDS), home=INDEX_PAGE)
        files = sorted(path.relative_to(temporary).as_posix() for path in temporary.rglob("*") if path.is_file())
        _write_text(temporary / LIST_FILE, json.dumps({"version": frame.version, "files": files}, indent=1) + "\n")
        num_bytes = sum(path.stat().st_size for path in temporary.rglob("*") if path.is_file())
    return Site(folder, frame.model, shown, num_bytes)


def _write_sounds(site: Path, clip: Clip, marker: Marker, message: Content, seconds: float) -> Sounds:
    folder = site / CLIPS_FOLDER / clip.name
    folder.mkdir(parents=True)
    return make_sounds(folder, clip, marker, message, seconds)


def _write_pages(site: Path, frame: Frame, shown: Sequence[Sounds]) -> None:
    for name in ("site.css", "site.js"):
        _write_text(site / name, resources.files("ideaw.bench.demo").joinpath("assets", name).read_text("utf-8"))
    _write_text(site / INDEX_PAGE, index_page(frame, shown))
    _write_text(site / RESULTS_PAGE, results_page(frame))
    for number, sounds in enumerate(shown):
        _write_text(site / f"{sounds.clip.name}.html", clip_page(frame, shown, number))


def _write_text(path: Path, content: str) -> None:
    path.write_text(content, "utf-8", newline="\n")


def _check_replaceable(folder: Path) -> None:
    """Raise `FileError` if something lies at `folder` that this command did not write."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileError(f"{folder} is a file; give a folder for the site")
    with atomic.file_errors(folder):
        files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    if not files:
        return
    try:
        listed = set(json.loads((folder / LIST_FILE).read_text("utf-8"))["files"]) | {LIST_FILE}
    except (OSError, ValueError, KeyError, TypeError):
        raise FileError(f"{folder} holds other files and no demo; choose another folder") from None
    if other := sorted(files - listed):
        raise FileError(f"{folder} holds {other[0]}, which is not of the demo; choose another folder")
