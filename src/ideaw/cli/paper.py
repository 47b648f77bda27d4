"""`ideaw bench paper`: the paper's tables and figures, ours beside what it prints."""

from pathlib import Path
from typing import Annotated

import typer

from ideaw.cli import console
from ideaw.cli.extras import extra


def paper(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the results.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder of audio files.", show_default="the packaged samples"),
    ] = None,
    ablations: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder of exported models, named as their recipes.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Fewer segments and shorter files: about two minutes on two cores, else twenty."),
    ] = False,
) -> None:
    """The paper's tables and figures with its printed values beside ours; goes on where it was stopped."""
    with extra("bench", "drawing"):
        from ideaw.bench.tables.paper import FULL, QUICK, run
    from ideaw.bench.corpus import packaged_samples
    from ideaw.bench.reports.html import REPORT_FILE

    with console.progress("measuring") as progress:
        outcome = run(packaged_samples() if data is None else data, out, QUICK if quick else FULL, ablations, progress)
    for sheet in outcome.sheets:
        console.say(f"{sheet.title} ({sheet.count})")
        console.say_table(sheet.heads, sheet.shown(), numbers=sheet.heads[1:])
    console.say(outcome.lacking)
    console.say(f"{out / REPORT_FILE}: tables, figures and sounds")
