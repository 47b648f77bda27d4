"""What `ideaw serve` and `ideaw resolve` have in common: where they listen, whom they trust, how much they take on."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ideaw.cli.extras import extra
from ideaw.keys import Key
from ideaw.layered_detector import check_proof
from ideaw.service.settings import Limits, Settings

Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes any that is free.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Bearer tokens, one on each line; who has none may only search, and learns less."
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A host name that requests may be for.", show_default="none"),
]
Proxies = Annotated[
    list[str] | None,
    typer.Option(
        "--proxy", metavar="ADDRESS", help="A reverse proxy whose X-Forwarded-For is true.", show_default="none"
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=64, help="Processes that do the work.", show_default="as many as cores")
]
MaxMegabytes = Annotated[float, typer.Option("--max-mb", min=0.001, help="Refuse requests of more megabytes.")]
MaxSeconds = Annotated[float, typer.Option(min=1, help="Refuse audio of more seconds.")]
JobSeconds = Annotated[float, typer.Option(min=0.1, help="Stop a job that takes longer.")]
Queue = Annotated[int, typer.Option(min=0, help="Jobs that may wait for a worker.")]
Rate = Annotated[float, typer.Option(min=0.1, help="Requests a minute from one address without a token.")]

DEFAULT_MAX_MEGABYTES = Limits.bytes / 1e6


def settings_of(
    host: str,
    port: int,
    model: str | None,
    key: Path | None,
    token_file: Path | None,
    names: list[str] | None,
    proxies: list[str] | None,
    workers: int | None,
    limits: Limits,
    registry: str | None,
    sign: tuple[Path, Path] | None = None,
    trusted: Path | None = None,
    min_check_bits: int = 0,
) -> Settings:
    """What the options come to; files of keys and tokens are read."""
    with extra("serve", "the service"):
        from ideaw.service.callers import read_tokens
    return Settings(
        host=host,
        port=port,
        model=model,
        keys=() if key is None else tuple(Key.read_all(key)),
        key_name=None if key is None else key.name,
        tokens=() if token_file is None else read_tokens(token_file),
        names=tuple(names or ()),
        proxies=tuple(proxies or ()),
        registry=registry,
        sign=sign,
        trusted=trusted,
        workers=workers or os.cpu_count() or 1,
        min_check_bits=check_proof(min_check_bits),
        limits=limits,
    )


def limits_of(max_mb: float, max_seconds: float, job_seconds: float, queue: int, rate: float) -> Limits:
    """How much is taken on, by the options."""
    return Limits(
        bytes=round(max_mb * 1e6),
        seconds=max_seconds,
        job_seconds=job_seconds,
        waiting=queue,
        stranger_requests_per_minute=rate,
    )
