"""A registry elsewhere, asked over HTTP: C2PA's Soft Binding Resolution API, and our route for a record's fingerprint.

No audio leaves this machine: an id goes out, and a record comes back. What answers is not believed: sizes, times and
hosts are bounded, and what is not the record of that id is refused.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from ideaw.errors import RegistryError
from ideaw.provenance.manifest import SOFT_BINDING_ALGORITHM, written_binding
from ideaw.provenance.manifest_store import active_label
from ideaw.provenance.records import Record, written_id
from ideaw.provenance.resolution import record_of

REACH_SECONDS, ANSWER_SECONDS = 10.0, 60.0
"""How long a service may take to accept a connection, and for a whole answer."""

MAX_ANSWER_BYTES = 1 << 24
"""Of a record or a manifest: a fingerprint has 250 bytes for each second of audio."""

MAX_LABEL_CHARACTERS = 500
"""Of a manifest's label, which becomes a part of an address."""

_JSON = "application/json"

_Kind = TypeVar("_Kind")


class _Match(msgspec.Struct):
    manifestId: str


class _Matches(msgspec.Struct):
    matches: list[_Match]


class _Algorithm(msgspec.Struct):
    alg: str


class _Algorithms(msgspec.Struct):
    watermarks: list[_Algorithm] = []


class ServiceResolver:
    """Leads from an id to its record at the service under an address.

    Args:
        url: such as https://marks.example.org.
        answer_seconds: how long an answer may take.

    Raises:
        RegistryError: this is no address of a service.
    """

    def __init__(self, url: str, answer_seconds: float = ANSWER_SECONDS) -> None:
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL:
            address = httpx.URL()
        if address.scheme not in ("http", "https") or not address.host or address.userinfo or address.query:
            raise RegistryError(f'"{url}" is no address of a service; give one like https://marks.example.org')
        self._name = url.rstrip("/")
        self._answer_seconds = answer_seconds
        self._checked = False
        timeout = httpx.Timeout(answer_seconds, connect=REACH_SECONDS)
        self._client = httpx.Client(timeout=timeout, headers={"Accept-Encoding": "identity"})

    def by_id(self, id: int) -> Record | None:
        """The record of an id, with its manifest; None if the service has none.

        Raises:
            RegistryError: the service cannot be reached, takes too long, or answers something else.
        """
        self._check_algorithm()
        content = self._get(f"/v1/records/{written_id(id)}", {})
        if content is None:
            return None
        fields, manifest = self._parse(content, dict[str, Any]), self._manifest(id)
        with self._refusing_nonsense():
            record = record_of(fields, manifest)
        if record.id != id:
            raise self._strange("it told the record of another id")
        return record

    def _check_algorithm(self) -> None:
        """Raise `RegistryError` unless ids are resolved there."""
        if not self._checked:
            content = self._get("/services/supportedAlgorithms", {})
            names = [] if content is None else self._parse(content, _Algorithms).watermarks
            if _Algorithm(SOFT_BINDING_ALGORITHM) not in names:
                raise self._strange("it resolves no ids of ideaw; was it started with --registry?")
            self._checked = True

    def _manifest(self, id: int) -> bytes | None:
        """The manifest store to which the soft binding of an id leads; None if there is none."""
        content = self._get("/matches/byBinding", {"alg": SOFT_BINDING_ALGORITHM, "value": written_binding(id)})
        matches = [] if content is None else self._parse(content, _Matches).matches
        if not matches:
            return None
        label = matches[0].manifestId
        if len(label) > MAX_LABEL_CHARACTERS:
            raise self._strange("it told a label that is too long")
        store = self._get(f"/manifests/{quote(label, safe=':')}", {})
        if store is None:
            raise self._strange(f"it has no manifest {label}")
        with self._refusing_nonsense():
            if active_label(store) != label:
                raise RegistryError("it told another manifest")
        return store

    @contextlib.contextmanager
    def _refusing_nonsense(self) -> Iterator[None]:
        """Turn what is wrong with an answer into an error that says whose it is."""
        try:
            yield
        except RegistryError as problem:
            raise self._strange(str(problem)) from None

    def _get(self, path: str, query: Mapping[str, str]) -> bytes | None:
        """The content that is answered; None for 404."""
        deadline, content = time.monotonic() + self._answer_seconds, bytearray()
        try:
            with self._client.stream("GET", f"{self._name}{path}", params=query) as answer:
                if answer.status_code == HTTPStatus.NOT_FOUND and answer.headers.get("content-type") == _JSON:
                    return None
                if answer.is_redirect:
                    raise self._strange(f"it sends elsewhere, to {answer.headers.get('location', '')[:100]}")
                if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
                    wait = answer.headers.get("retry-after", "some")[:10]
                    raise RegistryError(f"the service {self._name} was asked too often; try again in {wait} s")
                if answer.status_code != HTTPStatus.OK:
                    raise self._strange(f"status {answer.status_code}")
                for piece in answer.iter_raw():
                    content += piece
                    if len(content) > MAX_ANSWER_BYTES:
                        raise self._strange(f"more than {MAX_ANSWER_BYTES} bytes")
                    if time.monotonic() > deadline:
                        raise self._slow()
        except httpx.TimeoutException:
            raise self._slow() from None
        except httpx.HTTPError as problem:
            reason = str(problem) or type(problem).__name__
            raise RegistryError(f"the service {self._name} cannot be reached: {reason}") from None
        return bytes(content)

    def _parse(self, content: bytes, kind: type[_Kind]) -> _Kind:
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise self._strange("its answer is not that of a resolution service") from None

    def _slow(self) -> RegistryError:
        return RegistryError(f"the service {self._name} did not answer within {self._answer_seconds:g} s; try again")

    def _strange(self, what: str) -> RegistryError:
        return RegistryError(f"the service {self._name} gives no answer that can be used: {what}")
