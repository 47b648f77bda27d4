"""The application: routes, page and door, and what runs behind them from its start to its end."""

import contextlib
from collections.abc import AsyncIterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from ideaw.errors import IdeawError
from ideaw.service import routes
from ideaw.service.callers import Callers
from ideaw.service.door import Door
from ideaw.service.folder import private_folder
from ideaw.service.metrics import Metrics
from ideaw.service.pool import Pool
from ideaw.service.refusals import Refusal
from ideaw.service.settings import Settings
from ideaw.service.uploads import Receiver

if TYPE_CHECKING:
    from ideaw.provenance.registry import Registry

PAGE = Path(__file__).parent / "page"

CLIENT_IS_GONE = 499
"""The status in log and metrics of a request whose client did not wait; nobody receives it."""


def create_app(settings: Settings) -> FastAPI:
    """The service with these settings, as an ASGI application; its workers start and stop with its lifespan."""
    app = _frame(settings, "ideaw", "Put an inaudible, robust message into audio, and find it again.")
    app.include_router(routes.router)
    if settings.registry is not None:
        _include_resolution(app)
        from ideaw.service import credentials

        app.include_router(credentials.router)
    app.mount("/static", StaticFiles(directory=PAGE))

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html")

    return app


def create_resolver(settings: Settings) -> FastAPI:
    """The resolution of soft bindings alone, as an ASGI application; the settings name a registry."""
    app = _frame(settings, "ideaw resolve", "From a mark to the manifest of the recording that it was given to.")
    _include_resolution(app)
    return app


def _frame(settings: Settings, title: str, summary: str) -> FastAPI:
    """What both have in common: the door, the workers, and what the service tells of itself."""
    metrics = Metrics()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        pool = Pool(settings, metrics)
        with private_folder() as folder, open_registry(settings.registry) as registry:
            try:
                await pool.start()
                receiver = Receiver(folder, settings.limits, metrics)
                yield {"service": routes.Service(settings, pool, receiver, metrics, registry)}
            finally:
                await pool.stop()

    app = FastAPI(
        title=title,
        summary=summary,
        version=metadata.version("ideaw"),
        docs_url=None,  # their pages would load scripts from another host
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(routes.about_itself)
    app.add_middleware(Door, callers=Callers(settings), names=settings.names, metrics=metrics)
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(HTTPException, _refuse_route)
    app.add_exception_handler(ClientDisconnect, _note_absence)
    return app


def open_registry(url: str | None, create: bool = False) -> "contextlib.AbstractContextManager[Registry | None]":
    """The registry at a URL, to be closed in the end; None where there is none.

    Args:
        url: where it is.
        create: whether it is made if it is not there.

    Raises:
        RegistryError: it cannot be used.
        MissingExtraError: the extra `provenance` is not installed.
    """
    if url is None:
        return contextlib.nullcontext()
    from ideaw import Registry  # which tells what to install

    return Registry(url, create=create)


def check_files(settings: Settings) -> None:
    """Raise `IdeawError` unless certificates that the settings name can be used now; each job reads them again."""
    if settings.registry is None:
        if settings.sign or settings.trusted:
            raise IdeawError("--sign and --trust are of use with a --registry only; give one")
        return
    from ideaw.provenance.credentials import Signer, read_roots

    if settings.sign is not None:
        Signer(*settings.sign)
    if settings.trusted is not None:
        read_roots(settings.trusted)


def _include_resolution(app: FastAPI) -> None:
    """Here, since who has no registry needs none of its packages."""
    from ideaw.service import resolution

    app.include_router(resolution.router)


async def _refuse(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Refusal)
    return problem.response()


async def _refuse_route(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    line = f"{request.method} {request.url.path}: {problem.detail.lower()}; GET /openapi.json tells what there is"
    return Refusal(problem.status_code, line, dict(problem.headers or {})).response()


async def _note_absence(request: Request, problem: Exception) -> Response:
    return Response(status_code=CLIENT_IS_GONE)
