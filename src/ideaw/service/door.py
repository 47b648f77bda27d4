"""The door: every request passes here before anything of it is read, and every answer on its way out.

Requests for another host (DNS rebinding), from pages of another origin, without a right or too often are turned away.
One line of log for each: address, method, path, status, time; no query, no names of files, no content.
"""

import logging
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ideaw.service.callers import Callers
from ideaw.service.metrics import Metrics
from ideaw.service.refusals import Refusal
from ideaw.service.settings import literal_address

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self' blob:; style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""On every answer that does not say otherwise."""

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
        answer = _Answer(send)
        try:
            try:
                self._admit(scope)
            except Refusal as refusal:
                await refusal.response()(scope, receive, answer.send)
            else:
                await self.app(scope, receive, answer.send)
        except Exception:
            _logger.exception("a request failed")
            if not answer.status:
                line = "something went wrong in the service; its log says what"
                await JSONResponse({"error": line}, HTTPStatus.INTERNAL_SERVER_ERROR)(scope, receive, answer.send)
        finally:
            self._note(scope, answer)

    def _admit(self, scope: Scope) -> None:
        """Raise a `Refusal` unless this request may come in; says in its state whether the caller is an owner."""
        headers, path = Headers(scope=scope), scope["path"]
        host = headers.get("host", "")
        self._check_host(host)
        works = scope["method"] not in SAFE_METHODS
        if works:
            _check_origin(headers, host)
        owner = self.callers.is_owner(headers.get("authorization"))
        if not owner:
            self.callers.check_stranger((scope.get("client") or ("",))[0], path, works)
        scope.setdefault("state", {})["owner"] = owner

    def _check_host(self, host: str) -> None:
        """A page of another site reaches this machine under a name of its own, never under a bare address."""
        name = (urlsplit(f"//{host}").hostname or "") if host.isprintable() else ""
        if literal_address(name) is None and name != "localhost" and name not in self.names:
            raise Refusal(HTTPStatus.FORBIDDEN, "this host name is not served here; see --allow-host")

    def _note(self, scope: Scope, answer: "_Answer") -> None:
        route = getattr(scope.get("route"), "path", "other")
        self.metrics.requests.labels(route, str(answer.status)).inc()
        path = scope["path"][:100].encode("unicode_escape").decode("ascii")
        address = (scope.get("client") or ("-",))[0]
        seconds = time.monotonic() - answer.began
        _logger.info("%s %s %s %s %.2f s", address, scope["method"], path, answer.status, seconds)


def _check_origin(headers: Headers, host: str) -> None:
    """Browsers say which page sent a request; programs do not, and need not."""
    origin = headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
    if foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refusal(HTTPStatus.FORBIDDEN, "pages of other sites may not send requests here")


@dataclass
class _Answer:
    """What became of a request."""

    _send: Send
    status: int = 0
    began: float = field(default_factory=time.monotonic)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)
