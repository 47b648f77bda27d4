"""`ideaw proxy`: in front of a speech server, marking what it answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ideaw.cli import console, options
from ideaw.cli.extras import extra
from ideaw.errors import IdeawError
from ideaw.service.settings import DEFAULT_HOST

if TYPE_CHECKING:
    from ideaw.marker import Marker
    from ideaw.service.proxy.issuing import Issuer

DEFAULT_PROXY_PORT = 8090


def proxy(
    upstream: Annotated[str, typer.Option(metavar="URL", help="The server in front of which it stands.")],
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            "-m",
            help="What to embed; the request header X-Ideaw-Message overrides it.",
            show_default="an id, with --registry",
        ),
    ] = None,
    registry: options.AllottingUrl = None,
    sign: options.Sign = None,
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
    if (message is None) == (registry is None):
        raise IdeawError("give either a --message for all answers, or a --registry that allots each an id")
    if sign is not None and registry is None:
        raise IdeawError("--sign is of use with a --registry only; give one")
    settings = app.ProxySettings(upstream, message, pcm_rate)
    marker = load(model, key=options.read_keys(key)[0], threads=1)
    issuer = None if registry is None else _issuer(registry, sign, marker)

    def ready(address: str) -> None:
        console.say(f"{address} is ready; Ctrl-C stops it")

    server.run_proxy(settings, marker, host, port, ready, issuer)


def _issuer(registry: str, sign: tuple[Path, Path] | None, marker: "Marker") -> "Issuer":
    """What allots ids, and signs, if a certificate is given."""
    with extra("provenance", "a registry"):
        from ideaw.provenance.credentials import Signer
        from ideaw.provenance.registry import Registry
        from ideaw.service.proxy.issuing import Issuer
    return Issuer(Registry(registry), marker, None if sign is None else Signer(*sign))
