"""`ideaw serve`: the page and the HTTP API on this machine."""

import threading
import webbrowser
from typing import Annotated

import typer

from ideaw.cli import console, options, serving
from ideaw.cli.extras import extra
from ideaw.service.settings import DEFAULT_HOST, DEFAULT_PORT, Limits


def serve(
    host: serving.Host = DEFAULT_HOST,
    port: serving.Port = DEFAULT_PORT,
    opened: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    model: options.Model = None,
    key: options.KeyFile = None,
    registry: options.KnownRegistryUrl = None,
    sign: options.Sign = None,
    trust: options.Trust = None,
    token_file: serving.TokenFile = None,
    names: serving.Names = None,
    proxies: serving.Proxies = None,
    workers: serving.Workers = None,
    max_mb: serving.MaxMegabytes = serving.DEFAULT_MAX_MEGABYTES,
    max_seconds: serving.MaxSeconds = Limits.seconds,
    job_seconds: serving.JobSeconds = Limits.job_seconds,
    queue: serving.Queue = Limits.waiting,
    rate: serving.Rate = Limits.stranger_requests_per_minute,
    min_check_bits: options.MinCheckBits = 0,
) -> None:
    """Serve a page and an HTTP API that mark and search audio, offline and for this machine alone unless told else."""
    with extra("serve", "the service"):
        from ideaw.service import server
    limits = serving.limits_of(max_mb, max_seconds, job_seconds, queue, rate)
    settings = serving.settings_of(
        host, port, model, key, token_file, names, proxies, workers, limits, registry, sign, trust, min_check_bits
    )

    def ready(address: str) -> None:
        console.say(f"{address} is ready; Ctrl-C stops it")
        if opened:  # in a thread, since some browsers return only when they are closed
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    server.run(settings, ready)
