"""Answers that say no: one clear line as JSON, with the status that HTTP has for it."""

from http import HTTPStatus

from starlette.responses import JSONResponse

BUSY_RETRY_SECONDS = 2

NO_REGISTRY = "the registry cannot be used now; the service's log says why"
"""What clients are told, who need not know where it is."""


class Refusal(Exception):
    """A request that is not served, and why."""

    def __init__(self, status: int, line: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(line)
        self.status, self.line, self.headers = HTTPStatus(status), line, headers

    def response(self) -> JSONResponse:
        """The answer."""
        return JSONResponse({"error": self.line}, self.status, self.headers)


def busy(line: str, retry_seconds: float = BUSY_RETRY_SECONDS) -> Refusal:
    """More than is taken on at once: the client should come again."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, line, {"Retry-After": str(max(1, round(retry_seconds)))})
