"""The proxy as an ASGI application: requests go to the upstream server, and what it answers comes back marked.

Bodies stream both ways and nothing is collected, so a slow reader slows the upstream down, and a client that leaves
ends the request there too.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ideaw.errors import IdeawError
from ideaw.marker import Marker
from ideaw.service.proxy.marking import ByteMarker, CompressedMarker, PcmMarker, WavMarker
from ideaw.streams import EmbedStream

MESSAGE_HEADER = "x-ideaw-message"
"""Header of a request: its message, instead of the proxy's. It is not passed on."""

MARKED_HEADER = "x-ideaw-marked"
"""Header of an answer with audio: "yes", or why not."""

COMPRESSED_LATENCY_SECONDS, AAC_LATENCY_SECONDS = 0.1, 0.08
"""Latency of the mark where frames are encoded again, which takes time of its own: of AAC the most."""

HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer")
) | {"transfer-encoding", "upgrade"}
"""Headers of one connection, which are not passed on."""

OF_THE_BYTES = frozenset(("content-length", "content-encoding", "content-md5", "digest", "repr-digest", "etag")) | {
    "accept-ranges",
    "content-range",
    "last-modified",
}
"""Headers of an answer that are about its bytes, which a mark changes."""

FORMATS_OF_TYPES = {
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/aac": "aac",
    "audio/aacp": "aac",
    "audio/x-aac": "aac",
    "audio/ogg": "opus",
    "audio/opus": "opus",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/pcm": "pcm",
    "audio/l16": "pcm",
}
"""Content types, and what is in them."""

UPSTREAM_CONNECT_SECONDS, SILENT_SECONDS = 10.0, 600.0
"""Seconds that the upstream may take to accept a connection, and to go on with an answer."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProxySettings:
    """What is marked how, and where it comes from."""

    upstream: str
    """Address of the server in front of which the proxy stands."""
    message: str
    """What is embedded, unless a request asks for another message."""
    pcm_rate: int = 24_000
    """Sampling rate in Hz of raw samples whose content type tells none: that of OpenAI's."""


def create_proxy(settings: ProxySettings, marker: Marker) -> Starlette:
    """The proxy in front of an upstream server."""
    marker.open_stream(settings.pcm_rate, settings.message)  # a message that does not fit is told now

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
        timeout = httpx.Timeout(SILENT_SECONDS, connect=UPSTREAM_CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False) as client:
            client.headers.clear()  # what a client did not send is not added
            yield {"client": client}

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return Starlette(
        routes=[Route("/{path:path}", _Forwarder(settings, marker).answer, methods=methods)], lifespan=lifespan
    )


class _Forwarder:
    """Answers requests with what the upstream answers."""

    def __init__(self, settings: ProxySettings, marker: Marker) -> None:
        self._settings, self._marker = settings, marker

    async def answer(self, request: Request) -> Response:
        client: httpx.AsyncClient = request.state.client
        message = request.headers.get(MESSAGE_HEADER, self._settings.message)
        try:
            self._marker.open_stream(self._settings.pcm_rate, message)
        except IdeawError as problem:
            return _refuse(400, str(problem))
        try:
            received = await self._send(client, request)
        except httpx.TimeoutException:
            return _refuse(504, f"{self._settings.upstream} does not answer")
        except httpx.HTTPError as problem:
            return _refuse(502, f"{self._settings.upstream} cannot be reached: {problem or type(problem).__name__}")
        headers = [(name, value) for name, value in received.headers.multi_items() if name not in HOP_BY_HOP]
        kind = received.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not kind.startswith("audio/") or received.status_code != httpx.codes.OK or request.method == "HEAD":
            return _stream(_raw(received), received, headers)
        name = FORMATS_OF_TYPES.get(kind)
        if name is None:
            logger.warning("%s is not a type of audio that can be marked; it was passed on as it is", kind)
            return _stream(_raw(received), received, [*headers, (MARKED_HEADER, f"no: {kind} cannot be marked")])
        marking = self._byte_marker(name, received, message)
        encoded = "content-encoding" in received.headers
        dropped = OF_THE_BYTES - ({"content-length"} if marking.keeps_length and not encoded else set())
        headers = [pair for pair in headers if pair[0] not in dropped]
        return _stream(_marked(received, marking), received, [*headers, (MARKED_HEADER, "yes")])

    async def _send(self, client: httpx.AsyncClient, request: Request) -> httpx.Response:
        """The head of the upstream's answer; a part of audio is asked for again as a whole, since marks go through."""
        headers = [
            (name, value)
            for name, value in request.headers.items()
            if name not in HOP_BY_HOP and name not in ("host", MESSAGE_HEADER)
        ]
        target = request.scope["raw_path"] + (b"?" + query if (query := request.scope["query_string"]) else b"")
        address = httpx.URL(self._settings.upstream.rstrip("/") + target.decode("ascii"))
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        content = request.stream() if has_body else None
        received = await client.send(
            client.build_request(request.method, address, headers=headers, content=content), stream=True
        )
        audio = received.headers.get("content-type", "").lower().startswith("audio/")
        if audio and received.status_code == httpx.codes.PARTIAL_CONTENT:
            await received.aclose()
            whole = [pair for pair in headers if pair[0] not in ("range", "if-range")]
            received = await client.send(client.build_request(request.method, address, headers=whole), stream=True)
        return received

    def _byte_marker(self, name: str, received: httpx.Response, message: str) -> ByteMarker:
        open_stream: Callable[..., EmbedStream] = partial(self._marker.open_stream, message=message)
        if name == "wav":
            return WavMarker(open_stream)
        if name == "pcm":
            fields = (field.partition("=") for field in received.headers["content-type"].split(";")[1:])
            given = {field.strip().lower(): value.strip() for field, _, value in fields}
            rate, channels = (
                int(given.get(key, "")) if given.get(key, "").isdigit() else usual
                for key, usual in (("rate", self._settings.pcm_rate), ("channels", 1))
            )
            return PcmMarker(open_stream, rate, max(channels, 1))
        latency = AAC_LATENCY_SECONDS if name == "aac" else COMPRESSED_LATENCY_SECONDS
        return CompressedMarker(partial(open_stream, latency=latency), name)


async def _raw(received: httpx.Response) -> AsyncIterator[bytes]:
    async for data in received.aiter_raw():
        yield data


async def _marked(received: httpx.Response, marking: ByteMarker) -> AsyncIterator[bytes]:
    """The marked bytes of an answer; where it turns out that they cannot be marked, the answer breaks off."""
    try:
        async for data in received.aiter_bytes():
            if out := await asyncio.to_thread(marking.push, data):
                yield out
        if out := await asyncio.to_thread(marking.finish):
            yield out
    except IdeawError as problem:
        logger.warning("an answer was broken off: %s", problem)
        raise


def _stream(body: AsyncIterator[bytes], received: httpx.Response, headers: list[tuple[str, str]]) -> Response:
    """An answer whose upstream is let go of when it ends, however it ends."""

    async def closing() -> AsyncIterator[bytes]:
        try:
            async for data in body:
                yield data
        finally:
            await received.aclose()

    response = StreamingResponse(closing(), received.status_code)
    response.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return response


def _refuse(status: int, line: str) -> Response:
    return JSONResponse({"error": {"message": line, "type": "ideaw_proxy_error"}}, status)
