"""The door: every request passes here before anything of it is read, and every answer on its way out.

Requests for another host (DNS rebinding), from pages of another origin, without a right or too often are turned away.
One line of log for each: address, method, path, status, time; no query, no names of files, no content.
"""

import asyncio
import contextlib
import logging
import re
import time
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ideaw.service.callers import ASKS_REGISTRY, Callers
from ideaw.service.metrics import Metrics
from ideaw.service.refusals import Refusal
from ideaw.service.settings import literal_address

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob:; media-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""On every answer that does not say otherwise."""

MAX_UNREAD_BYTES, HEAR_OUT_SECONDS = 1 << 25, 2.0
"""How much of a body is read, and for how long, that is not wanted any more."""

MAX_LOGGED_CHARACTERS = 100
"""Of a path."""

_logger = logging.getLogger("ideaw.service")


@dataclass(frozen=True)
class Door:
    """Wraps the application."""

    app: ASGIApp
    callers: Callers
    names: tuple[str, ...]
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or turn it away."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        try:
            try:
                self._admit(scope)
            except Refusal as refusal:
                await exchange.answer(refusal)
            else:
                await self.app(scope, exchange.receive, exchange.send)
        except Exception:
            _logger.exception("a request failed")
            if not exchange.status:
                line = "something went wrong in the service; its log says what"
                await exchange.answer(Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, line))
        finally:
            self._note(scope, exchange)

    def _admit(self, scope: Scope) -> None:
        """Raise a `Refusal` unless this request may come in; says in its state whether the caller is an owner."""
        headers = Headers(scope=scope)
        host, address = headers.get("host", ""), (scope.get("client") or ("",))[0]
        self._check_host(host)
        changes = scope["method"] not in SAFE_METHODS
        if changes:
            _check_origin(headers, host)
        costs_work = changes or scope["path"].startswith(ASKS_REGISTRY)
        owner = self.callers.is_owner(address, scope["path"], headers.get("authorization"), costs_work)
        scope.setdefault("state", {})["owner"] = owner

    def _check_host(self, host: str) -> None:
        """A page of another site reaches this machine under a name of its own, never under a bare address."""
        name = re.sub(r":\d*$", "", host.lower())
        if literal_address(name) is None and name != "localhost" and name not in self.names:
            raise Refusal(HTTPStatus.FORBIDDEN, "this host name is not served here; see --allow-host")

    def _note(self, scope: Scope, exchange: "_Exchange") -> None:
        route = getattr(scope.get("route"), "path", "other")
        self.metrics.requests.labels(route, str(exchange.status)).inc()
        shown = route if scope["path"].startswith(ASKS_REGISTRY) else scope["path"]  # paths there hold ids
        path = shown[:MAX_LOGGED_CHARACTERS].encode("unicode_escape").decode("ascii")
        address = (scope.get("client") or ("-",))[0]
        seconds = time.monotonic() - exchange.began
        _logger.info("%s %s %s %s %.2f s", address, scope["method"], path, exchange.status, seconds)


def _check_origin(headers: Headers, host: str) -> None:
    """Browsers say which page sent a request; programs do not, and need not."""
    origin = headers.get("origin")
    foreign = origin is not None and origin.partition("://")[2].lower() != host.lower()
    if foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refusal(HTTPStatus.FORBIDDEN, "pages of other sites may not send requests here")


@dataclass
class _Exchange:
    """A request and what becomes of it."""

    scope: Scope
    _receive: Receive
    _send: Send
    status: int = 0
    began: float = field(default_factory=time.monotonic)
    _whole: bool = False
    """Whether the body has been read to its end."""

    async def receive(self) -> Message:
        message = await self._receive()
        self._whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if not self._whole:
                await self._hear_out()
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def answer(self, refusal: Refusal) -> None:
        """Turn the request away."""
        await refusal.response()(self.scope, self.receive, self.send)

    async def _hear_out(self) -> None:
        """Read on for a moment, since many a client listens only after it has said everything."""
        headers = Headers(scope=self.scope)
        declared = headers.get("content-length", "0")
        if "expect" in headers or (declared.isdigit() and int(declared) > MAX_UNREAD_BYTES):
            return
        count = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEAR_OUT_SECONDS):
                while not self._whole and count < MAX_UNREAD_BYTES:
                    count += len((await self.receive()).get("body", b""))
