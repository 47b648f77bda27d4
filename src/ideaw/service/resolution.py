"""C2PA's Soft Binding Resolution API (version 1.1) on top of a registry: from a mark, or audio, to its manifest.

It answers everybody, as credentials are meant to be read by everybody; strangers are told similarities in tens.
"""

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ideaw.errors import RegistryError
from ideaw.provenance.manifest import SOFT_BINDING_ALGORITHM, STORE_TYPE
from ideaw.provenance.records import message_id, read_id
from ideaw.provenance.registry import Registry
from ideaw.provenance.resolution import (
    FINGERPRINT_ALGORITHM,
    Match,
    find_manifest,
    match_id,
    public_fields,
)
from ideaw.service import jobs, schemas
from ideaw.service.answers import MEDIA_TYPES
from ideaw.service.refusals import NO_REGISTRY, Refusal, busy
from ideaw.service.routes import AT_THE_DOOR, do_job, own_keys, refuses, service_of
from ideaw.service.uploads import check_fields

MAX_QUERY_BYTES = 1 << 13
"""Of a GET; longer values are posted."""

ASSET_TYPES = ("audio/", "video/", "application/")
"""Beginnings of the types of content that may hold sound."""

STRANGERS_SCORE_STEP = 10
"""In per cent; 100 stays 100."""

SUFFIXES = {kind: suffix for suffix, kind in reversed(MEDIA_TYPES.items())} | {"audio/aac": ".aac"}
"""What a file of a type is called, for the few that are not known by their content."""

router = APIRouter()

_logger = logging.getLogger("ideaw.service")

Answer = TypeVar("Answer")
Query = TypeVar("Query", bound=BaseModel)


class BindingQuery(BaseModel):
    """A soft binding to be resolved."""

    alg: str
    value: str = Field(description="In base64.")
    maxResults: int = Field(10, ge=1)


class ContentQuery(BaseModel):
    """How content is to be resolved, and what the client knows already."""

    alg: str | None = None
    maxResults: int = Field(10, ge=1)
    hintAlg: str | None = None
    hintValue: str | None = None


class ManifestQuery(BaseModel):
    """Which part of a manifest store is wanted."""

    returnActiveManifest: bool = False


def _asks(kind: type[BaseModel], *left_out: str) -> dict[str, Any]:
    """The description of the parameters of a query."""
    schema = kind.model_json_schema()
    required, described = schema.get("required", ()), schema["properties"].items()
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in required, "schema": one}
            for name, one in described
            if name not in left_out
        ]
    }


AUDIO_BODY = {f"{kind}*": {"schema": {"type": "string", "format": "binary"}} for kind in ASSET_TYPES}

LARGE_BINDING = {
    "type": "object",
    "required": ["alg", "value"],
    "properties": {"alg": {"type": "string"}, "value": {"type": "string"}},
}
"""What is posted instead of a long query."""

MATCHES = AT_THE_DOOR | refuses(HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE)
MATCHES |= {200: {"model": schemas.MatchesAnswer}}


@router.get(
    "/matches/byBinding",
    operation_id="queryByBinding",
    responses=MATCHES | refuses(HTTPStatus.REQUEST_URI_TOO_LONG),
    openapi_extra=_asks(BindingQuery),
)
async def match_binding(request: Request) -> Response:
    """The manifest that belongs to an id, or to an id and a fingerprint."""
    if len(request.scope["query_string"]) > MAX_QUERY_BYTES:
        line = f"a query of more than {MAX_QUERY_BYTES} bytes is not taken; POST it"
        raise Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, line)
    await service_of(request).receiver.receive_text(request)  # to its end, so that what comes next is that nobody waits
    return await _resolve(request, _query(request, BindingQuery))


@router.post(
    "/matches/byBinding",
    operation_id="queryByLargeBinding",
    responses=MATCHES | refuses(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT),
    openapi_extra=_asks(BindingQuery, "alg", "value")
    | {"requestBody": {"required": True, "content": {"application/json": {"schema": LARGE_BINDING}}}},
)
async def match_large_binding(request: Request) -> Response:
    """The same for values of any length."""
    content = await service_of(request).receiver.receive_text(request)
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise Refusal(HTTPStatus.BAD_REQUEST, "send alg and value as one object of JSON")
    given = {name: [fields[name]] for name in ("alg", "value") if name in fields}
    limit = {name: values for name, values in _parameters(request).items() if name == "maxResults"}
    return await _resolve(request, check_fields(BindingQuery, given | limit))


@router.post(
    "/matches/byContent",
    operation_id="uploadFile",
    responses=MATCHES
    | refuses(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT),
    openapi_extra=_asks(ContentQuery) | {"requestBody": {"required": True, "content": AUDIO_BODY}},
)
async def match_content(request: Request) -> Response:
    """The manifests of the marks in audio, which is the body itself."""
    service, query = service_of(request), _query(request, ContentQuery)
    if query.alg not in (None, SOFT_BINDING_ALGORITHM, FINGERPRINT_ALGORITHM):
        raise _unknown_algorithm()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind.startswith(ASSET_TYPES):
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send audio, under its own content type")
    hints = [_read_id(query.hintValue or "")] if query.hintAlg == SOFT_BINDING_ALGORITHM else []
    service.pool.check_room()
    async with service.receiver.receive_file(request, SUFFIXES.get(kind, "")) as path:
        if not path.stat().st_size:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the body is empty; send audio")
        longest = service.settings.limits.seconds
        job = jobs.MatchContent(str(path), own_keys(service), hints, longest, service.settings.registry or "")
        try:
            answer = await do_job(request, job)
        except Refusal as refusal:
            if refusal.status == HTTPStatus.UNPROCESSABLE_ENTITY:  # a status that the API does not have
                raise Refusal(HTTPStatus.BAD_REQUEST, refusal.line) from None
            raise
    return _answer(request, _matches(answer), query.maxResults)


@router.get(
    "/manifests/{manifest_id}",
    operation_id="getManifestById",
    response_class=Response,
    responses=AT_THE_DOOR
    | refuses(HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
    | {200: {"description": "A manifest store", "content": {STORE_TYPE: {}}}},
    openapi_extra=_asks(ManifestQuery),
)
async def manifest(request: Request, manifest_id: str) -> Response:
    """The manifest store whose active manifest has this label."""
    active = _query(request, ManifestQuery).returnActiveManifest
    store = await _consult(request, lambda registry: find_manifest(registry, manifest_id, active))
    if store is None:
        raise Refusal(HTTPStatus.NOT_FOUND, "there is no such manifest here")
    return Response(store, media_type=STORE_TYPE)


@router.get(
    "/services/supportedAlgorithms",
    operation_id="getSupportedBindings",
    responses=AT_THE_DOOR | {200: {"model": schemas.AlgorithmsAnswer}},
)
async def algorithms() -> Response:
    """The soft bindings that can be resolved here."""
    return JSONResponse(
        {"watermarks": [{"alg": SOFT_BINDING_ALGORITHM}], "fingerprints": [{"alg": FINGERPRINT_ALGORITHM}]}
    )


@router.get(
    "/v1/records/{record_id}",
    responses=MATCHES | refuses(HTTPStatus.NOT_FOUND) | {200: {"model": schemas.RecordAnswer}},
)
async def record(request: Request, record_id: str) -> Response:
    """What a verifier compares: the fingerprint of a record, when it was made, and its manifest's label."""
    try:
        number = read_id(record_id)
    except RegistryError as problem:
        raise Refusal(HTTPStatus.BAD_REQUEST, str(problem)) from None
    found = await _consult(request, lambda registry: registry.get(number))
    if found is None:
        raise Refusal(HTTPStatus.NOT_FOUND, "there is no record of this id here")
    return JSONResponse(public_fields(found))


async def _resolve(request: Request, query: BindingQuery) -> Response:
    if query.alg == SOFT_BINDING_ALGORITHM:
        number = _read_id(query.value)
        match = await _consult(request, lambda registry: match_id(registry, number))
        return _answer(request, [] if match is None else [match], query.maxResults)
    if query.alg != FINGERPRINT_ALGORITHM:
        raise _unknown_algorithm()
    binding = _decode(query.value)
    answer = await do_job(request, jobs.MatchFingerprint(binding, service_of(request).settings.registry or ""))
    return _answer(request, _matches(answer), query.maxResults)


async def _consult(request: Request, ask: Callable[[Registry], Answer]) -> Answer:
    """What a registry says, without holding others up meanwhile."""
    registry = service_of(request).registry
    assert registry is not None
    try:
        return await asyncio.to_thread(ask, registry)
    except RegistryError as problem:
        _logger.warning("%s", problem)
        raise busy(NO_REGISTRY) from None


def _parameters(request: Request) -> dict[str, list[Any]]:
    """Name → all values that the query gives it."""
    return {name: list(request.query_params.getlist(name)) for name in request.query_params}


def _query(request: Request, kind: type[Query]) -> Query:
    return check_fields(kind, _parameters(request))


def _read_id(value: str) -> int:
    number = message_id(_decode(value))
    if number is None:
        raise Refusal(
            HTTPStatus.BAD_REQUEST, f"a value of {SOFT_BINDING_ALGORITHM} is the four bytes of an id in base64"
        )
    return number


def _decode(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise Refusal(HTTPStatus.BAD_REQUEST, "the value is not base64") from None


def _unknown_algorithm() -> Refusal:
    line = "this algorithm is not resolved here; GET /services/supportedAlgorithms tells which are"
    return Refusal(HTTPStatus.BAD_REQUEST, line)


def _matches(answer: dict[str, Any]) -> list[Match]:
    return [Match(match["id"], match["score"]) for match in answer["matches"]]


def _answer(request: Request, matches: Iterable[Match], most: int) -> Response:
    content = []
    for match in list(matches)[:most]:
        score = match.score
        if score is not None and not request.state.owner:
            score -= score % STRANGERS_SCORE_STEP
        content.append({"manifestId": match.manifest_id} | ({} if score is None else {"similarityScore": score}))
    return JSONResponse({"matches": content})
