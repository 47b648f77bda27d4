"""`ideaw bench`: the tables of the README, made by one command each."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from ideaw.cli import console, options, outputs

app = typer.Typer(help="Measure a model, as the tables of the README do.", no_args_is_help=True)


@app.callback()
def _presets() -> None:
    """One command per preset."""


@app.command()
def segments(
    data: Annotated[Path, typer.Option(metavar="DIR", help="A folder of audio files.", show_default=False)],
    model: options.Model = None,
    snr: options.Snr = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers to this file too.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many segments, evenly chosen.")] = None,
) -> None:
    """Bits read right in one-second segments, clean and under the paper's attacks: its Table 2."""
    from ideaw.bench.segments import run

    if json_file is not None:
        outputs.check(json_file, (".json",))
    with console.progress("measuring segments") as progress:
        table = run(data, model, snr, limit, progress)
    if json_file is not None:
        outputs.write(json_file, (json.dumps(dataclasses.asdict(table), indent=2) + "\n").encode())
    kinds = list(table.rows[0].by_kind)
    heads = ("attack", "label", "bits right", *kinds, "paper")
    rows = [
        (row.attack, row.label, *map(_percent, (row.accuracy, *(row.by_kind[kind] for kind in kinds), row.paper)))
        for row in table.rows
    ]
    console.say_table(heads, rows, numbers=heads[2:])
    console.say(
        f"model {table.model}, {table.segments} segments of a second, {table.snr:g} dB SNR "
        f"(lowest of any segment {table.lowest_snr:.2f} dB)"
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f} %"
