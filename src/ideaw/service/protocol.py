"""HTTP with patience that ends: a client that does not finish a request's head, or stops reading, is let go.

uvicorn waits for both without bound. How long a body may take is another matter (`uploads.py`).
"""

import asyncio
import json
from functools import partial
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from ideaw.service.settings import Limits

MAX_CONNECTIONS = 512
"""Open at the same time, each a file descriptor; a process may have 1,024."""


class PatientProtocol(H11Protocol):
    """One connection."""

    def __init__(self, *arguments: Any, limits: Limits, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._patience_seconds = limits.patience_seconds
        self._unread_bytes = round(limits.bytes_per_second * limits.patience_seconds)
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=2 * self._unread_bytes, low=self._unread_bytes)
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later", "Retry-After: 2\r\n")
        else:
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._read_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_timer = self.loop.call_later(self._patience_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._read_timer is not None:
            self._read_timer.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP in the form of all other refusals."""
        self._refuse(HTTPStatus.BAD_REQUEST, "this is not an HTTP request that can be understood")

    def _watch_head(self) -> None:
        """Bound the time until the next request begins to be served, also that in which the rest of one is discarded
        that was answered before it had arrived."""
        serving = self.cycle is not None and not self.cycle.response_complete
        if serving and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        elif not serving and self._head_timer is None:
            self._head_timer = self.loop.call_later(self._patience_seconds, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the request came too slowly")
        else:
            self.transport.abort()

    def _refuse(self, status: HTTPStatus, line: str, headers: str = "") -> None:
        """Answer without a request, and close."""
        body = json.dumps({"error": line})
        head = f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: application/json\r\n{headers}"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        self.transport.close()


def patient(limits: Limits) -> Any:
    """What makes connections with these limits."""
    return partial(PatientProtocol, limits=limits)
