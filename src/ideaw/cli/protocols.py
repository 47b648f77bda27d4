"""`ideaw bench` with a preset: the public protocols, edits and security, each on the same command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ideaw.bench.peers.systems import SYSTEMS
from ideaw.cli import console, options
from ideaw.cli.extras import extra

PRESETS = {
    "rawbench-loose": "RAW-Bench's attacks at mild strengths: noise, codecs, filters, dynamics, time.",
    "rawbench-strict": "RAW-Bench's attacks at strengths that are heard.",
    "audiomarkbench": "AudioMarkBench's attacks that need no access to the model, from mild to destructive.",
    "edits": "Cuts, splices, speed, pitch, channels, re-recording in simulated rooms.",
    "resynthesis": "Codecs and programs that draw audio anew, and removal of noise, with what each costs.",
    "voice": "Calls, voice messages, voices over music and among others, loudness as platforms set it.",
    "security": "Attacks on marks without their key: copying, erasing, overwriting, averaging, forging, reading.",
}
"""Name → what `--help` says about it."""

QUICK_CLIPS = 2
"""Clips of a quick run."""

Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="A folder of audio files, one clip of each.", show_default="the packaged samples"),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Keep metrics.json, report.csv and report.html in this folder; a run that was interrupted goes on there.",
    ),
]
Peer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"Measure another system instead of ours: {', '.join(SYSTEMS)}."),
]
Weights = Annotated[
    Path | None, typer.Option(metavar="PATH", help="The weights of a peer, where they do not come with its package.")
]
Lyra = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The weights of the neural codec Lyra v2; without them its rows are left out."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many files, evenly spaced.")]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Two clips and the first and last of every list of strengths: about half a minute on two idle cores.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of messages, keys and all random strengths.")]


def add(app: typer.Typer) -> None:
    """The commands of all presets."""
    for name, about in PRESETS.items():
        app.command(name, help=about)(_command(name))


def _command(name: str) -> Callable[..., None]:
    def command(
        data: Data = None,
        model: options.Model = None,
        snr: options.Snr = None,
        audibility: options.Audibility = None,
        peer: Peer = None,
        weights: Weights = None,
        lyra: Lyra = None,
        out: Out = None,
        limit: Limit = None,
        quick: Quick = False,
        seed: Seed = 0,
    ) -> None:
        with extra("bench", "this benchmark"):
            from ideaw.bench.protocols import preset, report, runner
            from ideaw.bench.reports import html

        chosen = preset.load(name, quick)
        if quick:
            limit = min(limit or QUICK_CLIPS, QUICK_CLIPS)
        with console.progress(f"measuring {chosen.title}") as progress:
            table = runner.run(
                chosen,
                data,
                model,
                snr,
                limit,
                progress,
                seed,
                out,
                peer=peer,
                weights=weights,
                audibility=audibility,
                lyra=lyra,
            )
        heads = report.table_heads(chosen)
        console.say_table(heads, report.table_rows(table), numbers=heads[1:])
        means = ", ".join(f"{measure} {mean.value:.4g}" for measure, mean in table.quality.items())
        console.say(f"{report.describe_setting(table)}; quality of the mark: {means}")
        if table.skipped:
            console.say(report.describe_skipped(table))
        if out is not None:
            console.say(f"{out / html.REPORT_FILE}: the same with pictures and sound")

    return command
