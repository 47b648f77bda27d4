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
from typing import TYPE_CHECKING

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ideaw.errors import IdeawError, RegistryError
from ideaw.marker import Marker
from ideaw.provenance.records import ID_BYTES
from ideaw.service.answers import ID_HEADER
from ideaw.service.proxy.marking import ByteMarker, CompressedMarker, MarkingStream, PcmMarker, WavMarker
from ideaw.service.refusals import NO_REGISTRY

if TYPE_CHECKING:
    from ideaw.service.proxy.issuing import IssuedAnswer, Issuer

MESSAGE_HEADER = "x-ideaw-message"
"""Header of a request: its message, instead of the proxy's. It is not passed on."""

MARKED_HEADER = "x-ideaw-marked"
"""Header of an answer with audio: "yes", or why not."""

SIGNED_HEADER, IN_FILE, IN_REGISTRY = "x-ideaw-signed", "in the file", "in the registry"
"""Header of an answer that is signed, and where its manifest is."""

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
    message: str | None
    """What is embedded, unless a request asks for another message; None: each answer gets an id of its own."""
    pcm_rate: int = 24_000
    """Sampling rate in Hz of raw samples whose content type tells none: that of OpenAI's."""


def create_proxy(settings: ProxySettings, marker: Marker, issuer: "Issuer | None" = None) -> Starlette:
    """The proxy in front of an upstream server.

    Args:
        settings: what is marked how.
        marker: marks it.
        issuer: gives each answer an id, where there is no message.
    """
    forwarder = _Forwarder(settings, marker, issuer)
    marker.open_stream(settings.pcm_rate, _or_id(settings.message))  # a message that does not fit is told now

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
        timeout = httpx.Timeout(SILENT_SECONDS, connect=UPSTREAM_CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False) as client:
            client.headers.clear()  # what a client did not send is not added
            yield {"client": client}
        await forwarder.finish()

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return Starlette(routes=[Route("/{path:path}", forwarder.answer, methods=methods)], lifespan=lifespan)


class _Forwarder:
    """Answers requests with what the upstream answers."""

    def __init__(self, settings: ProxySettings, marker: Marker, issuer: "Issuer | None") -> None:
        self._settings, self._marker, self._issuer = settings, marker, issuer
        self._late: set[asyncio.Future[None]] = set()

    async def finish(self) -> None:
        """Wait for the records of answers that were broken off."""
        await asyncio.gather(*self._late, return_exceptions=True)

    async def answer(self, request: Request) -> Response:
        client: httpx.AsyncClient = request.state.client
        message = request.headers.get(MESSAGE_HEADER, self._settings.message)
        if self._issuer is not None and message is not None:
            return _refuse(400, f"each answer gets an id of its own here; leave {MESSAGE_HEADER} out")
        try:
            self._marker.open_stream(self._settings.pcm_rate, _or_id(message))
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
        if self._issuer is not None:
            return await self._issue(self._issuer, name, received, headers)
        assert message is not None
        marking = self._byte_marker(name, received, partial(self._marker.open_stream, message=message))
        headers = [*_kept(headers, received, marking), (MARKED_HEADER, "yes")]
        return _stream(_marked(received, marking), received, headers)

    async def _issue(
        self, issuer: "Issuer", name: str, received: httpx.Response, headers: list[tuple[str, str]]
    ) -> Response:
        """An answer that gets an id, and a record when it ends."""
        try:
            answer = await asyncio.to_thread(issuer.begin)
        except RegistryError as problem:
            logger.warning("%s", problem)
            await received.aclose()
            return _refuse(503, NO_REGISTRY)
        marking = self._byte_marker(name, received, answer.open_stream)
        headers = [*_kept(headers, received, marking), (MARKED_HEADER, "yes"), (ID_HEADER.lower(), answer.id)]
        if issuer.signer is not None and _is_whole(name, received):
            return await _signed(received, marking, answer, headers)
        if issuer.signer is not None:
            headers.append((SIGNED_HEADER, IN_REGISTRY))
        return _stream(self._recorded(received, marking, answer), received, headers)

    async def _recorded(
        self, received: httpx.Response, marking: ByteMarker, answer: "IssuedAnswer"
    ) -> AsyncIterator[bytes]:
        """The marked bytes of an answer, of which the last follow its record; one that breaks off is recorded too."""
        kind = received.headers["content-type"].partition(";")[0]
        try:
            async for data in received.aiter_bytes():
                if out := await asyncio.to_thread(marking.push, data):
                    answer.count(out)
                    yield out
            out = await asyncio.to_thread(marking.finish)
            answer.count(out)
            await asyncio.to_thread(answer.record, kind)
            yield out
        except IdeawError as problem:
            logger.warning("an answer was broken off: %s", problem)
            raise
        finally:
            if not answer.recorded:
                late = asyncio.get_running_loop().run_in_executor(None, _record_late, answer, kind)
                self._late.add(late)
                late.add_done_callback(self._late.discard)

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

    def _byte_marker(
        self, name: str, received: httpx.Response, open_stream: Callable[..., MarkingStream]
    ) -> ByteMarker:
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


def _or_id(message: str | None) -> str | bytes:
    """The message, or as much as an id needs."""
    return bytes(ID_BYTES) if message is None else message


def _kept(headers: list[tuple[str, str]], received: httpx.Response, marking: ByteMarker) -> list[tuple[str, str]]:
    """Headers without those that a mark makes wrong."""
    keeps_length = marking.keeps_length and "content-encoding" not in received.headers
    dropped = OF_THE_BYTES - ({"content-length"} if keeps_length else set())
    return [pair for pair in headers if pair[0] not in dropped]


def _is_whole(name: str, received: httpx.Response) -> bool:
    """Whether an answer is a file that is known to end soon, of a format that holds a manifest."""
    from ideaw.service.proxy.issuing import MAX_WHOLE_BYTES, SIGNED_FORMATS

    length = received.headers.get("content-length", "")
    return name in SIGNED_FORMATS and length.isdigit() and int(length) <= MAX_WHOLE_BYTES


async def _signed(
    received: httpx.Response, marking: ByteMarker, answer: "IssuedAnswer", headers: list[tuple[str, str]]
) -> Response:
    """A whole file, marked, signed and recorded before any of it is sent."""
    kind = received.headers["content-type"].partition(";")[0]
    try:
        content = await received.aread()
        signed = await asyncio.to_thread(lambda: answer.sign_whole(marking.push(content) + marking.finish()))
        answer.count(signed)
        await asyncio.to_thread(answer.record, kind)
    except httpx.HTTPError as problem:
        return _refuse(502, f"the answer broke off: {problem or type(problem).__name__}")
    except RegistryError as problem:
        logger.warning("%s", problem)
        return _refuse(503, NO_REGISTRY)
    except IdeawError as problem:
        logger.warning("an answer was not passed on: %s", problem)
        return _refuse(502, f"the answer cannot be marked or signed: {problem}")
    finally:
        await received.aclose()
    where = IN_FILE if answer.holds_manifest else IN_REGISTRY
    response = Response(signed)
    pairs = [pair for pair in headers if pair[0] != "content-length"]
    pairs += [(SIGNED_HEADER, where), ("content-length", str(len(signed)))]
    response.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    return response


def _record_late(answer: "IssuedAnswer", kind: str) -> None:
    """Keep the record of an answer that was broken off, as far as it went."""
    try:
        answer.record(kind, complete=False)
    except IdeawError as problem:
        logger.warning("what was sent with the id %s has no record: %s", answer.id, problem)


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
