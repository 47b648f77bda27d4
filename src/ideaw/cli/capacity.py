"""`ideaw capacity`: what fits into a file."""

from pathlib import Path
from typing import Annotated

import typer

import ideaw
from ideaw.audio import files
from ideaw.cli import console, options


def capacity(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The audio file to be marked.", show_default=False)],
    model: options.Model = None,
    as_json: options.Json = False,
) -> None:
    """Tell how long a message fits into an audio file."""
    marker = ideaw.load(model)
    with files.open_audio(path) as source:
        frames = source.num_samples or sum(map(len, source.blocks()))
        seconds = frames / source.rate
    most, each = marker.capacity(seconds), min(marker.capacity(seconds), marker.capacity(1))
    if as_json:
        found = {"file": str(path), "seconds": round(seconds, 2), "bytes": most, "bytes_in_every_second": each}
        console.say_json(found)
    elif most:
        console.say(f"{path}: {seconds:.1f} s hold up to {most} bytes, or {each} in every single second")
    else:
        console.say(f"{path}: {seconds:.1f} s hold no text with model {marker.card.name}")
