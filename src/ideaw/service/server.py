"""The server around the application: where it listens, how it says so, and how it stops."""

import contextlib
import errno
import logging
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Generator

import uvicorn
from fastapi import FastAPI

from ideaw.errors import FileError, IdeawError, error_reason
from ideaw.models import find_model
from ideaw.service.app import check_files, create_app, open_registry
from ideaw.service.protocol import patient
from ideaw.service.settings import Settings, literal_address

BACKLOG = 512

MAX_HEAD_BYTES = 1 << 15


def run(settings: Settings, ready: Callable[[str], None], create: Callable[[Settings], FastAPI] = create_app) -> None:
    """Serve until a signal asks to stop: then finish what runs, for a bounded time, and take nothing new.

    Args:
        settings: where, for whom and how much.
        ready: is called with the address once requests are answered.
        create: makes the application.

    Raises:
        IdeawError: the port cannot be listened on, there is no such model or registry, no
            certificate that can be used, or no place for temporary files.
    """
    find_model(settings.model)
    check_files(settings)
    with open_registry(settings.registry, create=settings.sign is not None):  # who signs may begin a new one
        pass
    _check_temporary_folder()
    with listen(settings.host, settings.port) as listening:
        config = uvicorn.Config(
            create(settings),
            http=patient(settings.limits),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.proxies),
            forwarded_allow_ips=list(settings.proxies),
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_graceful_shutdown=round(settings.limits.stop_seconds),
            backlog=BACKLOG,
        )
        _log_to_stderr()
        Server(config, lambda: ready(address_of(listening))).run(sockets=[listening])


class Server(uvicorn.Server):
    """Says when it is ready, and ends well when it is asked to: uvicorn would end by the signal itself."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        handlers = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any that is free.

    Raises:
        IdeawError: it cannot.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            raise IdeawError(f"port {port} of {host} is in use; stop what uses it, or give another --port") from None
        raise IdeawError(f"cannot listen on {host}, port {port}: {error_reason(problem)}") from None
    return listening


def address_of(listening: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listening.getsockname()[:2]
    address = literal_address(host)
    if address is not None and address.is_unspecified:
        host = "localhost"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _check_temporary_folder() -> None:
    try:
        tempfile.gettempdir()
    except OSError:
        raise FileError("there is no folder for temporary files; set TMPDIR to one that can be written") from None


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("ideaw.service")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for name in ("uvicorn.error", "python_multipart"):  # what they warn of is answered
        logging.getLogger(name).setLevel(logging.ERROR)
