"""The resolution of soft bindings: by C2PA's description of it, from real marks to real manifests, and its client."""

import base64
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import hypothesis
import numpy as np
import pytest
import schemathesis
import soundfile as sf
from hypothesis import strategies as st
from numpy.typing import NDArray
from schemathesis import GenerationMode

import ideaw
from ideaw.errors import RegistryError
from ideaw.provenance.fingerprint import fingerprint
from ideaw.provenance.manifest import SOFT_BINDING_ALGORITHM, read_store, written_binding
from ideaw.provenance.manifest_store import active_label
from ideaw.provenance.records import id_message, written_id
from ideaw.provenance.remote import ServiceResolver
from ideaw.provenance.resolution import FINGERPRINT_ALGORITHM, fingerprint_binding
from ideaw.provenance.verify import verify_file
from tests.cli.conftest import run

from .conftest import PATIENCE_SECONDS, TOKEN, Issued, Running, service, started
from .test_fuzz import CHECKS, EXAMPLES

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]

API = json.loads(Path(__file__).with_name("resolution_api.json").read_text())

STRANGERS_A_MINUTE = 40


@pytest.fixture(scope="module")
def resolver(tmp_path_factory: pytest.TempPathFactory, issued: Issued) -> Iterator[Running]:
    """The resolution by itself, as people start it."""
    command = ("-m", "ideaw", "resolve", "--registry", issued.registry, "--port", "0", "--workers", "1")
    with started(tmp_path_factory.mktemp("resolver"), *command) as running:
        yield running
        assert running.uploads == []


def ask(running: Running, path: Path, kind: str = "audio/wav", **query: Any) -> Any:
    """What byContent answers."""
    headers = {"Content-Type": kind}
    answer = running.client.post("/matches/byContent", content=path.read_bytes(), params=query, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["matches"]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as described", "otherwise"])
@pytest.mark.parametrize(("path", "method"), [(path, method) for path in API["paths"] for method in API["paths"][path]])
def test_every_answer_is_that_of_the_api(
    resolver: Running, issued: Issued, path: str, method: str, mode: GenerationMode
) -> None:
    whole = issued.path.read_bytes()
    schemathesis.openapi.format("binary", st.sampled_from([whole, whole[:4000]]) | st.binary(max_size=100))
    operation = schemathesis.openapi.from_dict(API)[path][method.upper()]

    @hypothesis.settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def call(case: schemathesis.Case) -> None:
        answer = case.call(base_url=resolver.address, timeout=PATIENCE_SECONDS)
        case.validate_response(answer, checks=CHECKS)

    if mode == GenerationMode.NEGATIVE and not operation.body and not list(operation.iter_parameters()):
        return
    call()
    assert resolver.metric('ideaw_workers_replaced_total{reason="crash"}') == 0


def test_ids_fingerprints_and_audio_lead_to_the_manifest(resolver: Running, issued: Issued, copied: Path) -> None:
    record = issued.credential.record
    label = active_label(record.manifest or b"")
    samples, rate = sf.read(issued.path)
    value = base64.b64encode(fingerprint_binding(record.id, fingerprint(samples, rate))).decode()
    by_id = {"alg": SOFT_BINDING_ALGORITHM, "value": written_binding(record.id)}
    by_fingerprint = {"alg": FINGERPRINT_ALGORITHM, "value": value}
    for query, score in ((by_id, {}), (by_fingerprint, {"similarityScore": 100})):
        for answer in (
            resolver.client.get("/matches/byBinding", params=query),
            resolver.client.post("/matches/byBinding", json=query, params={"maxResults": 1}),
        ):
            assert answer.json() == {"matches": [{"manifestId": label} | score]}
    assert ask(resolver, issued.path) == [{"manifestId": label, "similarityScore": 100}]
    assert ask(resolver, copied) == [{"manifestId": label, "similarityScore": 0}]
    for active in (False, True):
        answer = resolver.client.get(f"/manifests/{label}", params={"returnActiveManifest": active})
        assert answer.headers["content-type"] == "application/c2pa"
        assert read_store(answer.content).record_ids == (record.id,)
    assert answer.content == record.manifest  # which has no ingredient


def test_what_belongs_to_nothing_leads_nowhere(resolver: Running, issued: Issued, spoken: Path) -> None:
    record = issued.credential.record
    other = {"alg": SOFT_BINDING_ALGORITHM, "value": written_binding(record.id ^ 1)}
    assert resolver.client.get("/matches/byBinding", params=other).json() == {"matches": []}
    assert ask(resolver, spoken) == []
    hint = {"hintAlg": SOFT_BINDING_ALGORITHM, "hintValue": written_binding(record.id)}
    assert ask(resolver, spoken, **hint)[0]["similarityScore"] == 100  # the same recording without its mark
    label = active_label(record.manifest or b"")
    for unknown in (f"{label[:-1]}{'0' if label[-1] != '0' else '1'}", "urn:c2pa:x", written_id(record.id)):
        assert resolver.client.get(f"/manifests/{unknown}").status_code == 404
    assert resolver.client.get(f"/matches/byBinding?alg=a&value={'a' * 9000}").status_code == 414
    assert resolver.client.get("/v1/info").status_code == 404
    for content in (b"", b"abc", id_message(record.id), id_message(record.id) + b"nonsense"):
        value = {"alg": FINGERPRINT_ALGORITHM, "value": base64.b64encode(content).decode()}
        assert resolver.client.post("/matches/byBinding", json=value).status_code == 400


def test_records_are_in_a_registry_or_at_a_service(issued: Issued, resolver: Running) -> None:
    ran = run("verify", issued.path, "--registry", issued.registry, "--service", resolver.address)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "give one of them" in ran.err


def test_a_half_that_was_replaced_is_similar_in_part(
    resolver: Running, issued: Issued, tmp_path: Path, strings: NDArray[np.float32]
) -> None:
    marked, rate = sf.read(issued.path, dtype="float32")
    sf.write(tmp_path / "half.wav", np.concatenate([marked, strings]), rate)
    (match,) = ask(resolver, tmp_path / "half.wav")
    assert 20 <= match["similarityScore"] <= 80


def test_a_service_tells_a_verifier_what_the_registry_does(resolver: Running, issued: Issued, copied: Path) -> None:
    remote = ServiceResolver(resolver.address)
    with ideaw.Registry(issued.registry, create=False) as registry:
        for path, status in ((issued.path, "authentic"), (copied, "copied")):
            here, there = verify_file(path, registry=registry), verify_file(path, registry=remote)
            assert here.status == status
            assert (there.status, there.reason, there.issuer) == (here.status, here.reason, here.issuer)
            assert there.record == here.record
    assert remote.by_id(issued.credential.record.id ^ 1) is None


def test_strangers_learn_less_and_only_so_often(tmp_path: Path, issued: Issued) -> None:
    with ideaw.Registry(issued.registry, create=False) as registry:
        registry.back_up(tmp_path / "marks.db")
    settings = {"tokens": [TOKEN], "workers": 1, "registry": f"sqlite:///{tmp_path}/marks.db"}
    limits = {"stranger_requests_per_minute": STRANGERS_A_MINUTE}
    record = issued.credential.record
    with service(tmp_path, **settings, limits=limits) as running:
        assert "data" not in running.client.get(f"/v1/records/{written_id(record.id)}").json()
        query = {"alg": SOFT_BINDING_ALGORITHM, "value": written_binding(record.id)}
        asked = [running.client.get("/matches/byBinding", params=query) for _ in range(STRANGERS_A_MINUTE + 5)]
        assert [answer.status_code for answer in asked[:10]] == [200] * 10
        assert asked[-1].status_code == 429
        with pytest.raises(RegistryError, match="asked too often; try again in"):
            ServiceResolver(running.address).by_id(record.id)
        owner = {"Authorization": f"Bearer {TOKEN}"}
        assert running.client.get("/matches/byBinding", params=query, headers=owner).status_code == 200
        with closing(sqlite3.connect(tmp_path / "marks.db")) as connection:
            connection.execute("ALTER TABLE ideaw_records RENAME TO gone")
        broken = running.client.get("/matches/byBinding", params=query, headers=owner)
        assert broken.status_code == 503
        assert broken.json() == {"error": "the registry cannot be used now; the service's log says why"}


class Hostile(BaseHTTPRequestHandler):
    """A server that answers every record in one odd way."""

    answers: ClassVar[dict[str, Callable[["Hostile"], None]]] = {}
    way: ClassVar[str] = ""

    def do_GET(self) -> None:
        if self.path.startswith("/services/") and self.way != "no service":
            self.say(200, {"watermarks": [{"alg": SOFT_BINDING_ALGORITHM}]})
        else:
            self.answers[self.way](self)

    def say(self, status: int, content: Any, **headers: str) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_without_end(self, piece: bytes, pause_seconds: float) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(piece)
                self.wfile.flush()
                time.sleep(pause_seconds)
        except OSError:  # the client has left
            pass

    def log_message(self, *_: object) -> None:
        pass


Hostile.answers = {
    "no service": lambda one: one.say(404, {"error": "not found"}),
    "redirect": lambda one: one.say(302, {}, location="http://example.org/"),
    "broken": lambda one: one.say(500, {}),
    "nonsense": lambda one: one.say(200, ["hello"]),
    "no record": lambda one: one.say(200, {"id": "00000001"} if "records" in one.path else {"matches": []}),
    "long": lambda one: one.say(200, {"matches": [{"manifestId": "x" * 100_000}]}),
    "deep": lambda one: one.say(200, None, **{"content-length": "200000"}) or one.wfile.write(b"[" * 199_996),
    "no manifest": lambda one: one.say(200, {"matches": [{"manifestId": "x"}]}),
    "endless": lambda one: one.send_without_end(b"x" * (1 << 20), 0),
    "slow": lambda one: one.send_without_end(b"x", 0.05),
}


@contextmanager
def hostile(way: str) -> Iterator[str]:
    """The address of a server that answers in such a way."""
    handler = type("Way", (Hostile,), {"way": way})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("no service", "it resolves no ids of ideaw"),
        ("redirect", "it sends elsewhere, to http://example.org/"),
        ("broken", "status 500"),
        ("nonsense", "its answer is not that of a resolution service"),
        ("no record", "this is no record of an id"),
        ("long", "a label that is too long"),
        ("deep", "its answer is not that of a resolution service"),
        ("no manifest", "these bytes are no C2PA manifest store"),
        ("endless", "more than 16777216 bytes"),
        ("slow", "did not answer within 0.5 s"),
    ],
)
def test_a_service_that_misbehaves_is_one_line(way: str, says: str) -> None:
    with hostile(way) as address, pytest.raises(RegistryError, match=says) as raised:
        ServiceResolver(address, answer_seconds=0.5 if way == "slow" else PATIENCE_SECONDS).by_id(1)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("ftp://127.0.0.1/", "no address of a service"),
        ("http://user:secret@127.0.0.1/", "no address of a service"),
        ("marks.example.org", "no address of a service"),
        ("http://127.0.0.1:9", "cannot be reached"),
    ],
)
def test_what_is_no_service_is_one_line(address: str, says: str) -> None:
    with pytest.raises(RegistryError, match=says):
        ServiceResolver(address).by_id(1)
