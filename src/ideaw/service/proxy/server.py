"""The proxy on a port."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn

from ideaw.marker import Marker
from ideaw.service.proxy.app import ProxySettings, create_proxy
from ideaw.service.server import Server, address_of, listen

if TYPE_CHECKING:
    from ideaw.service.proxy.issuing import Issuer

STOP_SECONDS = 10
"""Seconds that answers may still take once the proxy is asked to stop."""


def run_proxy(
    settings: ProxySettings,
    marker: Marker,
    host: str,
    port: int,
    ready: Callable[[str], None],
    issuer: "Issuer | None" = None,
) -> None:
    """Serve until a signal asks to stop.

    Args:
        settings: what is marked how.
        marker: marks it.
        host, port: where to listen; port 0 takes any that is free.
        ready: is called with the address once requests are answered.
        issuer: gives each answer an id, where there is no message.

    Raises:
        IdeawError: the port cannot be listened on, or the message does not fit.
    """
    proxy = create_proxy(settings, marker, issuer)
    with listen(host, port) as listening:
        config = uvicorn.Config(
            proxy,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        Server(config, lambda: ready(address_of(listening))).run(sockets=[listening])
