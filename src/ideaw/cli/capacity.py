"""`ideaw capacity`: what fits into a file."""

from pathlib import Path
from typing import Annotated

import typer

import ideaw
from ideaw.audio.read import open_audio
from ideaw.audio.samples import check_source
from ideaw.cli import console, options


def capacity(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The audio file to be marked.", show_default=False)],
    model: options.Model = None,
    as_json: options.Json = False,
) -> None:
    """Tell how long a message fits into an audio file."""
    marker = ideaw.load(model)
    with open_audio(path) as source:
        check_source(source.rate, source.channels, None)
        num_samples = source.num_samples or sum(map(len, source.blocks()))
        seconds = num_samples / source.rate
    total, per_second = marker.capacity(seconds), min(marker.capacity(seconds), marker.capacity(1))
    if as_json:
        answer = {"file": str(path), "seconds": round(seconds, 2), "bytes": total, "bytes_in_every_second": per_second}
        console.say_json(answer)
    elif total:
        console.say(f"{path}: {seconds:.1f} s hold up to {total} bytes, or {per_second} in every single second")
    else:
        console.say(f"{path}: {seconds:.1f} s hold no text with model {marker.card.name}")
