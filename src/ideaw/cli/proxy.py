"""`ideaw proxy`: in front of a speech server, marking what it answers."""

from typing import Annotated

import typer

from ideaw.cli import console, options
from ideaw.cli.extras import extra
from ideaw.errors import IdeawError
from ideaw.service.settings import DEFAULT_HOST

DEFAULT_PROXY_PORT = 8090


def proxy(
    upstream: Annotated[str, typer.Option(metavar="URL", help="The server in front of which it stands.")],
    message: Annotated[
        str, typer.Option("--message", "-m", help="What to embed; the request header X-Ideaw-Message overrides it.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = DEFAULT_HOST,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes any that is free.")] = DEFAULT_PROXY_PORT,
    pcm_rate: Annotated[
        int, typer.Option(min=8_000, max=192_000, help="Rate in Hz of raw samples whose type does not tell it.")
    ] = 24_000,
    model: options.Model = None,
    key: options.KeyFile = None,
) -> None:
    """Stand in front of a speech server and mark the audio that it answers with, as it streams through."""
    with extra("serve", "the proxy"):
        import httpx

        from ideaw.service.proxy import app, server
    from ideaw.marker import load

    address = httpx.URL(upstream)
    if address.scheme not in ("http", "https") or not address.host:
        raise IdeawError(f"{upstream!r} is no address of a server; give one like http://127.0.0.1:8000")
    settings = app.ProxySettings(upstream, message, pcm_rate)
    marker = load(model, key=options.read_keys(key)[0], threads=1)
    server.run_proxy(settings, marker, host, port, lambda here: console.say(f"{here} is ready; Ctrl-C stops it"))
