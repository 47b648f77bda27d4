"""`ideaw serve`: the page and the HTTP API on this machine."""

import os
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ideaw.cli import console, options
from ideaw.cli.extras import extra
from ideaw.keys import Key
from ideaw.service.settings import DEFAULT_HOST, DEFAULT_PORT, Limits, Settings


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = DEFAULT_HOST,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes any that is free.")] = DEFAULT_PORT,
    opened: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    model: options.Model = None,
    key: options.KeyFile = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Bearer tokens, one on each line; who has none may only search, and learns less."
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A host name that requests may be for.", show_default="none"),
    ] = None,
    proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy", metavar="ADDRESS", help="A reverse proxy whose X-Forwarded-For is true.", show_default="none"
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Processes that do the work.", show_default="as many as cores")
    ] = None,
    max_mb: Annotated[float, typer.Option(min=0.001, help="Refuse requests of more megabytes.")] = Limits.bytes / 1e6,
    max_seconds: Annotated[float, typer.Option(min=1, help="Refuse audio of more seconds.")] = Limits.seconds,
    job_seconds: Annotated[float, typer.Option(min=0.1, help="Stop a job that takes longer.")] = Limits.job_seconds,
    queue: Annotated[int, typer.Option(min=0, help="Jobs that may wait for a worker.")] = Limits.waiting,
    rate: Annotated[
        float, typer.Option(min=0.1, help="Requests a minute from one address without a token.")
    ] = Limits.stranger_requests_per_minute,
) -> None:
    """Serve a page and an HTTP API that mark and search audio, offline and for this machine alone unless told else."""
    with extra("serve", "the service"):
        from ideaw.service import server
        from ideaw.service.callers import read_tokens

    settings = Settings(
        host=host,
        port=port,
        model=model,
        keys=() if key is None else tuple(Key.read_all(key)),
        key_name=None if key is None else key.name,
        tokens=() if token_file is None else read_tokens(token_file),
        names=tuple(names or ()),
        proxies=tuple(proxies or ()),
        workers=workers or os.cpu_count() or 1,
        limits=Limits(
            bytes=round(max_mb * 1e6),
            seconds=max_seconds,
            job_seconds=job_seconds,
            waiting=queue,
            stranger_requests_per_minute=rate,
        ),
    )

    def ready(address: str) -> None:
        console.say(f"{address} is ready; Ctrl-C stops it")
        if opened:  # in a thread, since some browsers return only when they are closed
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    server.run(settings, ready)
