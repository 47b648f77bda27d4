"""The routes of the HTTP API: what each takes, which job that is, and what is answered."""

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from ideaw.audio.hearing import MAX_AUDIBILITY_DB, MIN_AUDIBILITY_DB
from ideaw.engine.gain import MAX_SNR_DB, MIN_SNR_DB
from ideaw.errors import IdeawError
from ideaw.keys import Key
from ideaw.models import Card, find_model
from ideaw.payload.body import BYTES_PER_SECOND, MAX_LONG_BYTES, MIN_LONG_MESSAGE_BITS, OVERHEAD_BYTES
from ideaw.payload.message import layout
from ideaw.service import answers, jobs, schemas
from ideaw.service.metrics import Metrics
from ideaw.service.pool import Pool
from ideaw.service.presets import PLAYGROUND
from ideaw.service.refusals import Refusal
from ideaw.service.settings import Settings
from ideaw.service.uploads import Form, Receiver, Text

if TYPE_CHECKING:
    from ideaw.provenance.registry import Registry

SAMPLE = resources.files("ideaw").joinpath("samples", "music.ogg")
"""The recording to try, music that is in the package."""

router, about_itself = APIRouter(), APIRouter()
"""What works with audio, and what tells of the service."""


@dataclass(frozen=True)
class Service:
    """What the routes work with while the service runs."""

    settings: Settings
    pool: Pool
    receiver: Receiver
    metrics: Metrics
    registry: "Registry | None" = None

    def receive(self, request: Request, form: type[Form]) -> contextlib.AbstractAsyncContextManager[Form]:
        """A form, unless there is no room for its job anyway; see `Receiver.receive`."""
        self.pool.check_room()
        return self.receiver.receive(request, form)

    def send(self, path: Path, headers: dict[str, str]) -> Response:
        """A file as an answer, which counts among what lies on the disk until it is sent."""
        return answers.FileAnswer(path, headers, self.receiver.hold(path.stat().st_size))


def service_of(request: Request) -> Service:
    """What answers this request."""
    return cast(Service, request.state.service)


def takes(form: type[BaseModel]) -> dict[str, Any]:
    """The description of a route that takes a form."""
    content = {"multipart/form-data": {"schema": form.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


def refuses(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """The description of refusals."""
    return {int(status): {"model": schemas.ErrorAnswer, "description": status.phrase} for status in statuses}


AT_THE_DOOR = refuses(HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
"""Refusals of any route."""

OF_FORMS = AT_THE_DOOR | refuses(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
"""Refusals of a route that takes a form and does a job."""

AUDIO_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "Audio", "content": {kind: {} for kind in answers.ANSWERED_TYPES}}
}
WAV_ANSWER: dict[int | str, dict[str, Any]] = {200: {"description": "A WAV file", "content": {"audio/wav": {}}}}


@router.post(
    "/v1/embed",
    response_class=Response,
    responses=OF_FORMS | AUDIO_ANSWER,
    openapi_extra=takes(schemas.EmbedForm),
)
async def embed(request: Request) -> Response:
    """Put a message into audio; the answer is the marked file, in the format of the upload."""
    service = service_of(request)
    async with service.receive(request, schemas.EmbedForm) as form:
        job = jobs.Embed(
            source=str(form.file.path),
            message=form.message,
            kind=form.kind,
            key=next(iter(own_keys(service)), None) if form.key is None else named_key(form.key),
            snr=form.snr,
            audibility=form.audibility,
            longest=service.settings.limits.seconds,
        )
        answer = await do_job(request, job)
        marked = form.file.path.with_name(answer["file"])
        name = answers.attachment(form.file.name, f"-marked{marked.suffix}")
        return service.send(marked, {"Content-Disposition": name})


@router.post(
    "/v1/detect",
    responses=OF_FORMS | {200: {"model": schemas.DetectionAnswer | schemas.CoarseDetectionAnswer}},
    openapi_extra=takes(schemas.DetectForm),
)
async def detect(request: Request) -> Response:
    """Look for a message in audio; strangers get the answer in whole seconds and without its statistics."""
    service = service_of(request)
    async with service.receive(request, schemas.DetectForm) as form:
        keys = [named_key(key) for key in form.key] or own_keys(service)
        settings = service.settings
        longest, proof = settings.limits.seconds, settings.min_check_bits
        job = jobs.Detect(str(form.file.path), keys, form.speeds, longest, proof)
        answer = await do_job(request, job)
    return JSONResponse(answer if request.state.owner else answers.coarse(answer))


@router.post(
    "/v1/compare",
    responses=OF_FORMS | {200: {"model": schemas.ComparisonAnswer}},
    openapi_extra=takes(schemas.CompareForm),
)
async def compare(request: Request) -> Response:
    """Tell how far a copy is from its original, and what of that can be heard."""
    service = service_of(request)
    limits = service.settings.limits
    async with service.receive(request, schemas.CompareForm) as form:
        job = jobs.Compare(str(form.original.path), str(form.marked.path), limits.seconds, limits.values)
        return JSONResponse(await do_job(request, job))


@router.post(
    "/v1/attack",
    response_class=Response,
    responses=OF_FORMS | WAV_ANSWER,
    openapi_extra=takes(schemas.AttackForm),
)
async def attack(request: Request) -> Response:
    """Apply one of the attacks to audio; the answer is a WAV file."""
    service = service_of(request)
    limits = service.settings.limits
    async with service.receive(request, schemas.AttackForm) as form:
        if form.attack not in PLAYGROUND:
            raise Refusal(HTTPStatus.BAD_REQUEST, "there is no such attack; GET /v1/attacks lists them")
        answer = await do_job(request, jobs.Attack(str(form.file.path), form.attack, limits.seconds, limits.values))
        name = answers.attachment(form.file.name, f"-{form.attack}.wav")
        return service.send(form.file.path.with_name(answer["file"]), {"Content-Disposition": name})


@router.post(
    "/v1/preview",
    response_class=Response,
    responses=OF_FORMS | WAV_ANSWER,
    openapi_extra=takes(schemas.PreviewForm),
)
async def preview(request: Request) -> Response:
    """Decode audio to a WAV file of 32-bit floats, at its own rate."""
    service = service_of(request)
    limits = service.settings.limits
    async with service.receive(request, schemas.PreviewForm) as form:
        answer = await do_job(request, jobs.Preview(str(form.file.path), limits.seconds, limits.values))
        headers = {"X-Audio-Rate": str(answer["rate"]), "X-Audio-Channels": str(answer["channels"])}
        return service.send(form.file.path.with_name(answer["file"]), headers)


@router.get("/v1/attacks", responses=AT_THE_DOOR | {200: {"model": list[schemas.AttackAnswer]}})
async def attacks() -> Response:
    """The attacks that may be asked for."""
    return JSONResponse([{"id": p.id, "label": p.label, "summary": p.summary} for p in PLAYGROUND.values()])


@router.get("/v1/sample", response_class=Response, responses=AT_THE_DOOR | AUDIO_ANSWER)
async def sample() -> Response:
    """A recording to try: six seconds of a string orchestra."""
    return Response(SAMPLE.read_bytes(), media_type="audio/ogg")


@router.get("/v1/info", responses=AT_THE_DOOR | {200: {"model": schemas.InfoAnswer}})
async def info(request: Request) -> Response:
    """What a client needs to know beforehand."""
    settings = service_of(request).settings
    card, limits = find_model(settings.model).card, settings.limits
    content = {
        "version": metadata.version("ideaw"),
        "model": card.name,
        "audibility": card.audibility,
        "snr": card.snr,
        "snr_range": {"min": MIN_SNR_DB, "max": MAX_SNR_DB},
        "audibility_range": {"min": MIN_AUDIBILITY_DB, "max": MAX_AUDIBILITY_DB},
        "capacity": _capacity(card),
        "limits": {"bytes": limits.bytes, "seconds": limits.seconds, "values": limits.values},
        "own_key": bool(settings.keys),
        "verifies": settings.registry is not None,
        "token_needed": not request.state.owner,
    }
    return JSONResponse(content)


@about_itself.get(
    "/health",
    responses=AT_THE_DOOR | refuses(HTTPStatus.SERVICE_UNAVAILABLE) | {200: {"model": schemas.HealthAnswer}},
)
async def health(request: Request) -> Response:
    """That the service runs and can take uploads."""
    service_of(request).receiver.check_folder()
    return JSONResponse({"status": "ok"})


@about_itself.get("/metrics", response_class=Response, responses=AT_THE_DOOR | {200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Counters in Prometheus's text format."""
    return Response(service_of(request).metrics.text(), media_type="text/plain; version=0.0.4")


async def do_job(request: Request, job: jobs.Job) -> dict[str, Any]:
    """Have a job done; it ends at once when the client goes away, so that nobody's machine works for nobody."""
    work = asyncio.ensure_future(service_of(request).pool.run(job))
    gone = asyncio.ensure_future(cast(Coroutine[Any, Any, Any], request.receive()))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        return work.result()
    finally:
        for task in (work, gone):
            task.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)


def own_keys(service: Service) -> list[jobs.NamedKey]:
    """The keys that are used where a request brings none."""
    return [jobs.NamedKey(key.hex(), service.settings.key_name) for key in service.settings.keys]


def named_key(given: Text) -> jobs.NamedKey:
    """A key that came with a request.

    Raises:
        Refusal: it is none.
    """
    try:
        return jobs.NamedKey(Key.of(given.content).hex(), given.name)
    except IdeawError as problem:
        raise Refusal(HTTPStatus.BAD_REQUEST, str(problem)) from None


def _capacity(card: Card) -> dict[str, int]:
    """How long messages may be."""
    short, is_spread = layout(card.message_bits), card.message_bits >= MIN_LONG_MESSAGE_BITS
    return {
        "bits_in_every_second": short.content_bits,
        "bytes_in_every_second": short.content_bytes,
        "bytes_per_second": BYTES_PER_SECOND if is_spread else 0,
        "overhead_bytes": OVERHEAD_BYTES,
        "max_seconds": (MAX_LONG_BYTES + OVERHEAD_BYTES) // BYTES_PER_SECOND if is_spread else 0,
    }
