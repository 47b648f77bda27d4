"""`ideaw keygen`: make a key."""

from pathlib import Path
from typing import Annotated

import typer

from ideaw.cli import console
from ideaw.errors import IdeawError
from ideaw.keys import Key


def keygen(
    target: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A new file for the key, for its owner's eyes only.")
    ] = None,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Add a new key to FILE: it marks from now on, and all are searched for.")
    ] = False,
    master: Annotated[
        Path | None, typer.Option("--from", metavar="MASTER", help="A key file from which the key is derived.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What a derived key is for, such as a customer.")
    ] = None,
) -> None:
    """Make a key, and write it to a file or print it.

    Keys separate owners and obscure what a message says. They do not hide that a mark is there, do not stop its removal
    by someone who has the software, and a found mark alone does not prove who made it.
    """
    if (master is None) != (label is None):
        raise IdeawError("a derived key needs both --from MASTER and --label TEXT")
    if rotate:
        if target is None or master is not None:
            raise IdeawError("--rotate adds a random key to a FILE; give that alone")
        key = Key.rotate(target)
        count = len(Key.read_all(target))
        console.say(f"{target}: a new key of {8 * len(key)} bits marks from now on; {count} are there")
        return
    key = Key.fresh() if master is None or label is None else Key.read(master).derive(label)
    if target is None:
        console.say(key.hex())
        return
    key.write(target)
    kind = "new" if master is None else "derived"
    console.say(f"{target}: a {kind} key of {8 * len(key)} bits; keep it, marks made with it are found with no other")
