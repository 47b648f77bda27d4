"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from ideaw.keys import PUBLIC, Key
from ideaw.marker import DEFAULT_MODEL

Model = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A packaged model, or a model folder.", show_default=DEFAULT_MODEL),
]
Snr = Annotated[
    float | None,
    typer.Option(
        metavar="DB", help="SNR in dB that every second keeps at least.", show_default="what the model's card says"
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="A key that `keygen` wrote.", show_default="the public key"),
]
KeyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--key", metavar="FILE", help="A key that `keygen` wrote; several may be given.", show_default="the public key"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Plot = Annotated[Path | None, typer.Option(metavar="PNG", help="Draw a picture too: .png, .svg or .pdf.")]


def read_key(path: Path | None) -> Key:
    """The key in a file; the public one without a file."""
    return PUBLIC if path is None else Key.read(path)
