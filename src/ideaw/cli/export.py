"""`ideaw export`: from a training run to a model folder that needs no PyTorch."""

from pathlib import Path
from typing import Annotated

import typer

from ideaw.cli import console
from ideaw.cli.extras import extra


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `train` wrote.", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The model folder to write.", show_default=False)],
    snr: Annotated[
        float | None,
        typer.Option(metavar="DB", help="Default SNR of marks of single segments.", show_default="as it was trained"),
    ] = None,
    shaping: Annotated[
        float | None,
        typer.Option(
            metavar="POWER",
            help="Power of the host's spectral envelope that the marks follow, 0 to 2.",
            show_default="as it was trained",
        ),
    ] = None,
    headroom: Annotated[
        float | None,
        typer.Option(
            metavar="DB",
            help="dB by which the network's residual may exceed the host's masking threshold, 0 to 100.",
            show_default="as it was trained",
        ),
    ] = None,
    eight_bit: Annotated[
        bool, typer.Option("--eight-bit", help="Convolutions in eight bits: less than half the time.")
    ] = False,
    mean_with: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A model: export the mean of its weights and the run's."),
    ] = None,
) -> None:
    """Export a training run as a model folder, for `--model` and `ideaw.load`."""
    with extra("train", "exporting"):
        from ideaw.train.export import export_run
    export_run(run, target, snr, shaping, headroom, eight_bit, mean_with)
    console.say(f"{target}: model of {run}; use it with --model {target}")
