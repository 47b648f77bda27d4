"""`ideaw evidence`: a dated report of what the installed version promises and was measured to do."""

from pathlib import Path
from typing import Annotated

import typer

from ideaw.cli import console, options, outputs
from ideaw.errors import IdeawError

PAGE_EXTENSIONS = (".html",)


def evidence(
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="HTML", help="Write the report as a page that needs nothing else."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Report what this version promises and was measured to do, with versions, hashes and limits: for an auditor."""
    from ideaw.evidence.report import collect

    if out is None and not as_json:
        raise IdeawError("give --out report.html for a page, or --json for a machine")
    if out is not None:
        outputs.check(out, PAGE_EXTENSIONS)
    collected = collect()
    if out is not None:
        outputs.write(out, collected.as_page().encode())
    if as_json:
        console.say_json(collected.as_json())
    elif out is not None:
        console.say(f"{out}: ideaw {collected.versions['ideaw']} as of {collected.date}; open it in a browser")
