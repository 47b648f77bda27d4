"""`ideaw train`: from a recipe and a folder of audio to a checkpoint."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ideaw.cli import console
from ideaw.cli.extras import extra


def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe, as YAML.", show_default=False)],
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="A folder of audio files or of tar packs.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the run.", show_default="runs/<name of the recipe>")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Number of steps instead of the recipe's.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Segments in a step instead of the recipe's.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop and save after so many minutes.")] = None,
    begin: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="WEIGHTS", help="Initial weights: a model folder, or a checkpoint's file of weights."
        ),
    ] = None,
    validate_on: Annotated[int, typer.Option(min=1, help="Segments read in each validation.")] = 256,
) -> None:
    """Train a model; a run that was stopped goes on where it stood."""
    with extra("train", "training"):
        from ideaw.train import loop
        from ideaw.train.recipe import read_recipe
    chosen = read_recipe(recipe, steps=steps, batch=batch)
    folder = out or Path("runs") / chosen.name
    metrics = loop.train(chosen, data, folder, minutes=minutes, initial_weights=begin, validate_on=validate_on)
    if os.environ.get("RANK", "0") == "0":
        summary = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        console.say(f"{folder}: {summary}")
