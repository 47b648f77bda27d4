"""An S3 server for tests and benchmarks, in a process of its own: moto's, which now and then is too busy.

    python benchmarks/s3_server.py

Prints its address. A request to /busy?share=0.05 makes it answer 503 SlowDown to that share of all requests from then
on, before they do anything; /busy?share=0.05&after=1 lets half of these do their work first, as when an answer is lost.
After /forbid?on=1, until /forbid?on=0, everything is forbidden.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUSY_BODY = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
FORBIDDEN_BODY = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"

StartResponse = Callable[..., Any]


class BusyServer:
    """moto's S3, with answers of 503 among the others."""

    def __init__(self) -> None:
        self._inner = DomainDispatcherApplication(create_backend_app)
        self._share, self._after, self._random = 0.0, False, random.Random(0)
        self._forbidden = False
        self.refusals = 0

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/busy":
            query = parse_qs(environ["QUERY_STRING"])
            self._share, self._after = float(query["share"][0]), "after" in query
            start_response("200 OK", [])
            return [str(self.refusals).encode()]
        if environ["PATH_INFO"] == "/forbid":
            self._forbidden = "1" in environ["QUERY_STRING"]
            start_response("200 OK", [])
            return [b""]
        if self._forbidden:
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [FORBIDDEN_BODY]
        if self._random.random() >= self._share:
            return self._inner(environ, start_response)
        self.refusals += 1
        if self._after and self._random.random() < 0.5:
            list(self._inner(environ, lambda *_: None))
        start_response("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(BUSY_BODY)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [BUSY_BODY]


def main() -> None:
    """Serve on a free port of this machine alone."""
    server = make_server("127.0.0.1", 0, BusyServer(), threaded=True)  # type: ignore[arg-type]
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
