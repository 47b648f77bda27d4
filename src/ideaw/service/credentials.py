"""The routes that need a registry: `/v1/verify`, which everybody may ask, and `/v1/issue`, which owners may."""

import json
import math
import re
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ideaw.service import answers, jobs, schemas
from ideaw.service.refusals import Refusal
from ideaw.service.routes import AUDIO_ANSWER, OF_FORMS, do_job, named_key, own_keys, service_of, takes

MANIFEST_HEADER = "X-Ideaw-Manifest"
"""Header of an issued file: the label under which `/manifests` has its manifest."""

_PLACE = re.compile(r"(\d+\.\d+)–(\d+\.\d+) s")

router = APIRouter()


@router.post(
    "/v1/verify",
    responses=OF_FORMS | {200: {"model": schemas.VerdictAnswer | schemas.CoarseVerdictAnswer}},
    openapi_extra=takes(schemas.VerifyForm),
)
async def verify(request: Request) -> Response:
    """Say where audio comes from; strangers get the answer in whole seconds and without its statistics."""
    service = service_of(request)
    settings = service.settings
    async with service.receive(request, schemas.VerifyForm) as form:
        job = jobs.Verify(
            source=str(form.file.path),
            keys=[named_key(key) for key in form.key] or own_keys(service),
            speeds=form.speeds,
            longest=settings.limits.seconds,
            registry=settings.registry or "",
            trusted=None if settings.trusted is None else str(settings.trusted),
        )
        answer = await do_job(request, job)
    return JSONResponse(answer if request.state.owner else coarse_verdict(answer))


@router.post(
    "/v1/issue",
    response_class=Response,
    responses=OF_FORMS | AUDIO_ANSWER,
    openapi_extra=takes(schemas.IssueForm),
)
async def issue(request: Request) -> Response:
    """Give audio an id: its mark, a record, and a signed manifest, if the service has a certificate."""
    service = service_of(request)
    settings = service.settings
    async with service.receive(request, schemas.IssueForm) as form:
        job = jobs.Issue(
            source=str(form.file.path),
            key=next(iter(own_keys(service)), None) if form.key is None else named_key(form.key),
            origin=form.origin,
            producer=form.producer,
            data=_parse_data(form.data),
            longest=settings.limits.seconds,
            registry=settings.registry or "",
            sign=None if settings.sign is None else (str(settings.sign[0]), str(settings.sign[1])),
        )
        answer = await do_job(request, job)
        path = form.file.path.with_name(answer["file"])
        headers = {answers.ID_HEADER: answer["id"]} | (
            {MANIFEST_HEADER: answer["manifest"]} if answer["manifest"] else {}
        )
        name = answers.attachment(form.file.name, f"-{answer['id']}{path.suffix}")
        return service.send(path, headers | {"Content-Disposition": name})


def coarse_verdict(answer: dict[str, Any]) -> dict[str, Any]:
    """What a stranger is told: the status and its reason, whose recording it is, and places in whole seconds.

    A mark whose message cannot be read counts as none, as in `answers.coarse`.
    """
    status, reason, manifest = answer["status"], answer["reason"], answer["manifest"]
    fits = manifest["state"] in schemas.FITTING_STATES
    if status == "unreadable":
        signed = f"signed by {manifest['issuer'] or 'somebody without a name'}, but " if fits else ""
        status, reason = "unmarked" if fits else "none", f"{signed}there is no mark of these keys that can be read"
    places = [
        {"start": math.floor(place["start"]), "end": math.ceil(place["end"]), "record": place["record"]}
        for place in answer["segments"]
    ]
    record = answer["record"] and {name: answer["record"][name] for name in ("id", "created", "signed")}
    return {
        "status": status,
        "reason": _PLACE.sub(_whole_seconds, reason),
        "record": record,
        **{name: answer[name] for name in ("issuer", "origin")},
        "segments": places,
        "manifest": {name: manifest[name] for name in ("state", "issuer", "authority", "origin")},
    }


def _whole_seconds(place: re.Match[str]) -> str:
    return f"{math.floor(float(place[1]))}–{math.ceil(float(place[2]))} s"


def _parse_data(text: str | None) -> dict[str, Any]:
    """The object that was given as JSON."""
    try:
        content = {} if text is None else json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Refusal(HTTPStatus.BAD_REQUEST, "the field 'data': give an object of JSON")
    return content
