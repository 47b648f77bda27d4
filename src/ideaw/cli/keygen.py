"""`ideaw keygen`: make a key."""

from pathlib import Path
from typing import Annotated

import typer

from ideaw.cli import console
from ideaw.keys import Key


def keygen(
    target: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A new file for the key, for its owner's eyes only.")
    ] = None,
) -> None:
    """Make a key, and write it to a file or print it.

    Keys separate owners and obscure what a message says. They do not hide that a mark is there, do not stop its removal
    by someone who has the software, and a found mark alone does not prove who made it.
    """
    key = Key.fresh()
    if target is None:
        console.say(key.hex())
        return
    key.write(target)
    console.say(f"{target}: a new key of {8 * len(key)} bits; keep it, marks made with it are found with no other")
