"""`ideaw scan`: search a catalogue, as one job that can be gone on with."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ideaw.catalogue.settings import DEFAULT_SHARD_SIZE, Engine, ScanOptions
from ideaw.cli import console, options
from ideaw.cli.detect import DEFAULT_LONGEST_SECONDS, Speed
from ideaw.cli.extras import extra
from ideaw.errors import IdeawError
from ideaw.keys import PUBLIC, Key

if TYPE_CHECKING:
    from ideaw.catalogue.progress import JobProgress


class EngineName(Enum):
    """Which processes do the work."""

    LOCAL = "local"
    RAY = "ray"


Source = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="A folder, a pattern, a URL (s3://, gs://, https://), or a list of files (.txt, .csv, .parquet).",
        show_default=False,
    ),
]
Out = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="Folder of the job, or its URL.", show_default=False)
]
EngineOption = Annotated[EngineName, typer.Option(help="Processes of this machine, or actors of Ray.")]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A Ray cluster, or auto.", show_default="one is started on this machine"),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="as many as cores")]
ShardSize = Annotated[int, typer.Option(min=1, help="Files in a part.")]
RetryErrors = Annotated[bool, typer.Option("--retry-errors", help="Do files again that were errors.")]
Longest = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="Files that are longer are errors.", show_default="21600, six hours"),
]


def scan(
    source: Source = None,
    out: Out = None,
    engine: EngineOption = EngineName.LOCAL,
    address: Address = None,
    workers: Workers = None,
    model: options.Model = None,
    keys: Annotated[
        list[Path] | None,
        typer.Option("--key", metavar="FILE", help="A key, or a folder of keys.", show_default="the public key"),
    ] = None,
    speeds: Annotated[
        Speed,
        typer.Option(
            help="Other speeds and tempos to try where nothing is found: up to 6 % off, or all from 0.8 to 1.25."
        ),
    ] = Speed.ALL,
    until_sure: Annotated[
        bool, typer.Option("--until-sure/--whole", help="Stop listening to a file once its message is beyond doubt.")
    ] = True,
    probe: Annotated[
        int, typer.Option(min=0, metavar="N", help="Listen to N excerpts of long files, and on only where they hint.")
    ] = 0,
    cache: Annotated[
        bool, typer.Option("--cache", help="Keep what the network heard, 4.7 MB an hour at most, for further keys.")
    ] = False,
    from_cache: Annotated[
        bool, typer.Option("--from-cache", help="SOURCE is the folder of a scan with --cache: do not listen again.")
    ] = False,
    longest: Longest = DEFAULT_LONGEST_SECONDS,
    shard_size: ShardSize = DEFAULT_SHARD_SIZE,
    retry_errors: RetryErrors = False,
    report: Annotated[
        str | None, typer.Option("--report", metavar="DIR", help="Sum up the job in DIR.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Search a catalogue for marks: a Parquet row for each file, whatever is killed; run it again and it goes on."""
    with extra("cluster", "a scan"):
        from ideaw.catalogue import report as reports
        from ideaw.catalogue.run import run_job
    if report is not None:
        if source is not None or out is not None:
            raise IdeawError("--report sums up a job that is there; give it alone")
        summary = reports.write_report(report)
        if as_json:
            console.say_json(summary.as_json())
        else:
            for line in summary.lines():
                console.say(line)
        return
    if source is None or out is None:
        raise IdeawError("give a SOURCE and --out DIR, or --report DIR")
    key_files = [file for path in keys or () for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    found_keys = [found for path in key_files for found in Key.read_all(path)] or [PUBLIC]
    if cache and (probe or from_cache):
        raise IdeawError("--cache keeps what all of a file sounds like; give neither --probe nor --from-cache with it")
    chosen = ScanOptions(
        speeds="none" if from_cache else speeds.value,
        until_sure=until_sure and not cache,
        probes=probe,
        longest=longest,
        cache=cache,
        heard=source if from_cache else None,
    )
    done = run_job(
        source,
        out,
        chosen,
        keys=found_keys,
        model=model,
        engine=Engine(engine.value, address, workers),
        shard_size=shard_size,
        retry_errors=retry_errors,
    )
    say_done(out, done, as_json)


def say_done(out: str, done: "JobProgress", as_json: bool) -> None:
    """What a run did, and how to go on where there were errors."""
    if as_json:
        console.say_json({"job": out} | done.as_json())
        return
    console.say(f"{out}: {done.line()}")
    if done.errors:
        console.say(f"ideaw scan --report {out} says which errors; --retry-errors does these files again")
