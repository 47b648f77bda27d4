"""`ideaw mark`: mark a catalogue, as one job that can be gone on with."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ideaw.catalogue.settings import DEFAULT_SHARD_SIZE, Engine, MarkOptions
from ideaw.cli import options
from ideaw.cli.detect import DEFAULT_LONGEST_SECONDS
from ideaw.cli.extras import extra
from ideaw.cli.scan import (
    Address,
    EngineName,
    EngineOption,
    Longest,
    RetryErrors,
    ShardSize,
    Source,
    Workers,
    say_done,
)
from ideaw.errors import IdeawError
from ideaw.payload.message import Notation


class MessageNotation(Enum):
    """How messages are written."""

    TEXT = "text"
    BITS = "bits"
    HEX = "hex"


NOTATIONS: dict[MessageNotation, Notation] = {
    MessageNotation.TEXT: "text",
    MessageNotation.BITS: "bits",
    MessageNotation.HEX: "hex",
}


def mark(
    source: Source = None,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Folder of the job; files go into marked/.", show_default=False),
    ] = None,
    messages: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="CSV or Parquet: id or path, and message.", show_default=False),
    ] = None,
    written: Annotated[MessageNotation, typer.Option("--as", help="How messages are written.")] = MessageNotation.TEXT,
    engine: EngineOption = EngineName.LOCAL,
    address: Address = None,
    workers: Workers = None,
    snr: options.Snr = None,
    audibility: options.Audibility = None,
    model: options.Model = None,
    key: options.KeyFile = None,
    longest: Longest = DEFAULT_LONGEST_SECONDS,
    shard_size: ShardSize = DEFAULT_SHARD_SIZE,
    retry_errors: RetryErrors = False,
    as_json: options.Json = False,
) -> None:
    """Mark a catalogue with the messages of a table: each file once and whole, whatever is killed."""
    with extra("cluster", "marking a catalogue"):
        from ideaw.catalogue.run import run_job
    if source is None or out is None or messages is None:
        raise IdeawError("give a SOURCE, --out DIR and --messages TABLE")
    done = run_job(
        source,
        out,
        MarkOptions(snr, audibility, longest, NOTATIONS[written]),
        keys=options.read_keys(key)[:1],
        model=model,
        messages=str(messages),
        engine=Engine(engine.value, address, workers),
        shard_size=shard_size,
        retry_errors=retry_errors,
    )
    say_done(out, done, as_json)
