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
        Path | None, typer.Option(metavar="DIR", help="A folder of model folders, named M1 and M2.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer segments and shorter files: about a minute on two cores.")
    ] = False,
) -> None:
    """The paper's tables and figures with its printed values beside ours; goes on where it was stopped."""
    with extra("bench", "drawing"):
        from ideaw.bench.paper import FULL, QUICK, run
    from ideaw.bench.folder import packaged
    from ideaw.bench.report import shown

    with console.progress("measuring") as progress:
        outcome = run(packaged() if data is None else data, out, QUICK if quick else FULL, ablations, progress)
    for section in outcome.sections:
        if section.table is not None:
            console.say(section.title)
            rows = [[shown(cell) for cell in row] for row in section.table.rows]
            console.say_table(section.table.heads, rows, numbers=section.table.heads[1:])
    console.say(outcome.lacking)
    console.say(f"{outcome.page}: tables, figures and sounds")
