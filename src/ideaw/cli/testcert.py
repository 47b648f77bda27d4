"""`ideaw testcert`: make an authority for tests, which nobody trusts."""

from pathlib import Path
from typing import Annotated

import typer

from ideaw.cli import console
from ideaw.cli.extras import extra


def testcert(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where its three files go; made if needed.", show_default=False)
    ],
) -> None:
    """Make a certificate to sign manifests with in tests, of an authority that nobody trusts and whose name says so."""
    with extra("provenance", "`ideaw testcert`"):
        from ideaw.provenance.credentials import make_test_authority
    made = make_test_authority(folder)
    console.say(f"{made.chain}, {made.key}: sign with these in tests; readers that trust {made.roots} accept it")
