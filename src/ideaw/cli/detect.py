"""`ideaw detect`: look for a message in files."""

import dataclasses
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

import ideaw
from ideaw.audio import files
from ideaw.cli import console, options, outputs
from ideaw.cli.embed import kind
from ideaw.cli.extras import extra
from ideaw.errors import IdeawError
from ideaw.keys import PUBLIC, Key
from ideaw.payload.message import Content
from ideaw.results import Detection, Segment


class Speed(Enum):
    """Which other speeds are tried."""

    NONE = "none"
    NEAR = "near"
    ALL = "all"


Owners = dict[Key, str | None]
"""Keys that are tried, with the file of each; the public one has none."""

FOUND, NOT_FOUND, ERROR = 0, 1, 2
"""Exit codes; the highest of all files counts."""


def detect(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Audio files to search.", show_default=False)],
    model: options.Model = None,
    keys: options.KeyFiles = None,
    speeds: Annotated[
        Speed,
        typer.Option(help="Other speeds to try where nothing is found: up to 6 % off, or all from 0.8 to 1.25."),
    ] = Speed.NEAR,
    as_json: options.Json = False,
    plot: options.Plot = None,
) -> None:
    """Look for a message in audio files.

    The exit code is 0 if every file holds one, 1 if one does not, 2 if one cannot be searched.
    """
    if plot is not None:
        _check_plot(plot, paths)
    marker = ideaw.load(model)
    owners: Owners = {Key.read(path): str(path) for path in keys or ()} or {PUBLIC: None}
    worst, answers = FOUND, []
    for path in paths:
        try:
            found = _search(marker, path, list(owners), speeds, plot)
        except IdeawError as problem:
            told = str(problem) if str(path) in str(problem) else f"{path}: {problem}"
            console.complain(told)
            answers.append({"file": str(path), "error": told})
            worst = ERROR
            continue
        worst = max(worst, FOUND if found.found else NOT_FOUND)
        answers.append({"file": str(path)} | _answer(found, owners))
        if not as_json:
            console.say(f"{path}: {found}{_whose(found, owners)}")
            if len({(segment.message, segment.key) for segment in found.segments if segment.message_ok}) > 1:
                for segment in found.segments:
                    console.say(f"  {segment}{_whose(segment, owners)}")
    if as_json:
        console.say_json(answers[0] if len(paths) == 1 else answers)
    raise typer.Exit(worst)


def _check_plot(plot: Path, paths: list[Path]) -> None:
    with extra("bench", "a plot"):
        from ideaw.quality import plots
    if len(paths) > 1:
        raise IdeawError(f"a plot shows one file, and {len(paths)} are given; give one at a time")
    outputs.check(plot, plots.FORMATS)


def _search(marker: ideaw.Marker, path: Path, keys: list[Key], speeds: Speed, plot: Path | None) -> Detection:
    with console.progress(f"searching {path.name}") as progress:
        found = marker.detect_file(path, keys=keys, speeds=speeds.value, progress=progress)
        if plot is not None:
            from ideaw.quality import plots

            recording = files.read(path)
            outputs.write(plot, plots.detection(recording.samples, recording.rate, found, path.name, plot.suffix))
    return found


def _owner(found: Detection | Segment, owners: Owners) -> str | None:
    """The file of the key; None where there is none."""
    return None if found.key is None else owners[found.key]


def _whose(found: Detection | Segment, owners: Owners) -> str:
    return f", key {_owner(found, owners)}" if found.key and len(owners) > 1 else ""


def _answer(found: Detection, owners: Owners) -> dict[str, Any]:
    """A detection as JSON has it: bytes in hexadecimal digits, bits as a string of 0 and 1."""
    return {
        "found": found.found,
        "message": _written(found.message),
        "kind": kind(found.message),
        "p_value": found.p_value,
        "speed": round(found.speed, 4),
        "segments": [_entries(segment, owners) for segment in found.segments],
        "key": _owner(found, owners),
    }


def _entries(segment: Segment, owners: Owners) -> dict[str, Any]:
    return dataclasses.asdict(segment) | {"message": _written(segment.message), "key": _owner(segment, owners)}


def _written(content: Content | None) -> str | None:
    if isinstance(content, bytes):
        return content.hex()
    return "".join(map(str, content)) if isinstance(content, tuple) else content
