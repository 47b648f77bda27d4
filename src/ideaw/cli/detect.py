"""`ideaw detect`: look for a message in files."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

import ideaw
from ideaw.audio import files
from ideaw.cli import console, options, outputs
from ideaw.cli.embed import kind
from ideaw.cli.extras import extra
from ideaw.errors import IdeawError
from ideaw.payload.message import Content
from ideaw.results import Detection, Segment

FOUND, NOT_FOUND, ERROR = 0, 1, 2
"""Exit codes; the highest of all files counts."""


def detect(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Audio files to search.", show_default=False)],
    model: options.Model = None,
    key: options.KeyFile = None,
    as_json: options.Json = False,
    plot: options.Plot = None,
) -> None:
    """Look for a message in audio files.

    The exit code is 0 if every file holds one, 1 if one does not, 2 if one cannot be searched.
    """
    if plot is not None:
        _check_plot(plot, paths)
    marker = ideaw.load(model, key=options.read_key(key))
    worst, answers = FOUND, []
    for path in paths:
        try:
            found = _search(marker, path, plot)
        except IdeawError as problem:
            told = str(problem) if str(path) in str(problem) else f"{path}: {problem}"
            console.complain(told)
            answers.append({"file": str(path), "error": told})
            worst = ERROR
            continue
        worst = max(worst, FOUND if found.found else NOT_FOUND)
        answers.append({"file": str(path)} | _answer(found))
        if not as_json:
            console.say(f"{path}: {found}")
    if as_json:
        console.say_json(answers[0] if len(paths) == 1 else answers)
    raise typer.Exit(worst)


def _check_plot(plot: Path, paths: list[Path]) -> None:
    with extra("bench", "a plot"):
        from ideaw.quality import plots
    if len(paths) > 1:
        raise IdeawError(f"a plot shows one file, and {len(paths)} are given; give one at a time")
    outputs.check(plot, plots.FORMATS)


def _search(marker: ideaw.Marker, path: Path, plot: Path | None) -> Detection:
    with console.progress(f"searching {path.name}") as progress:
        recording = files.read(path)
        found = marker.detect(recording.samples, recording.rate, progress=progress)
        if plot is not None:
            from ideaw.quality import plots

            outputs.write(plot, plots.detection(recording.samples, recording.rate, found, path.name, plot.suffix))
    return found


def _answer(found: Detection) -> dict[str, Any]:
    """A detection as JSON has it: bytes in hexadecimal digits, bits as a string of 0 and 1."""
    return {
        "found": found.found,
        "message": _written(found.message),
        "kind": kind(found.message),
        "p_value": found.p_value,
        "segments": [_entries(segment) for segment in found.segments],
    }


def _entries(segment: Segment) -> dict[str, Any]:
    return {
        name: _written(value) if isinstance(value, bytes | tuple) else value
        for name, value in dataclasses.asdict(segment).items()
    }


def _written(content: Content | None) -> str | None:
    if isinstance(content, bytes):
        return content.hex()
    return "".join(map(str, content)) if isinstance(content, tuple) else content
