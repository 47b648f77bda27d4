"""The proxy with a registry: every answer has an id of its own, a record of what was sent, and a manifest if asked."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import httpx
import numpy as np
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.audio.formats import Encoding
from ideaw.audio.write import write_audio
from ideaw.provenance.fingerprint import compare, fingerprint
from ideaw.provenance.manifest import read_manifest
from ideaw.provenance.records import read_id
from ideaw.provenance.verify import verify_file
from tests.cli.conftest import run

from .conftest import Issued, Running, started, wait_until

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]

RATE = 24_000


class Speaker(BaseHTTPRequestHandler):
    """A speech server: whole files, and raw samples in chunks, of which some never end."""

    protocol_version = "HTTP/1.1"
    files: ClassVar[dict[str, bytes]] = {}
    go_on: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path in self.files:
            kind = "audio/wav" if self.path.endswith("wav") else "audio/mpeg"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(self.files[self.path])))
            self.end_headers()
            self.wfile.write(self.files[self.path])
            return
        self.send_header("Content-Type", f"audio/pcm;rate={RATE}")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        samples = self.files["/speech.wav"][44:]
        self.wfile.write(b"%x\r\n%s\r\n" % (len(samples), samples))
        if self.path == "/broken":
            self.wfile.flush()
            self.go_on.wait()
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32]) -> Iterator[str]:
    """The address of the speech server."""
    folder = tmp_path_factory.mktemp("speech")
    samples = soxr.resample(speech[:64_000], 16_000, RATE)
    sf.write(folder / "speech.wav", samples, RATE, subtype="PCM_16")
    write_audio(folder / "speech.mp3", samples[:, None], RATE, Encoding("MP3", "MPEG_LAYER_III", 96))
    Speaker.files = {f"/{path.name}": path.read_bytes() for path in folder.iterdir()}
    with ThreadingHTTPServer(("127.0.0.1", 0), Speaker) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxy")


@pytest.fixture(scope="module")
def proxy(folder: Path, upstream: str, issued: Issued) -> Iterator[Running]:
    """The proxy in front of it."""
    command = (
        "-m",
        "ideaw",
        "proxy",
        "--upstream",
        upstream,
        "--port",
        "0",
        "--registry",
        f"sqlite:///{folder}/ids.db",
    )
    with started(folder, *command, "--sign", issued.certificate, issued.key) as running:
        yield running
    assert list(folder.glob("ideaw-proxy-*")) == []


@pytest.fixture(scope="module")
def registry(folder: Path, proxy: Running) -> Iterator[ideaw.Registry]:
    with ideaw.Registry(f"sqlite:///{folder}/ids.db", create=False) as opened:
        yield opened


@pytest.mark.parametrize("name", ["speech.wav", "speech.mp3"])
def test_a_whole_file_is_marked_signed_and_recorded(
    proxy: Running, registry: ideaw.Registry, tmp_path: Path, name: str
) -> None:
    answers = [proxy.client.get(f"/{name}") for _ in range(2)]
    first, second = (answer.headers["x-ideaw-id"] for answer in answers)
    assert first != second
    for answer, number in zip(answers, (first, second), strict=True):
        assert answer.headers["x-ideaw-signed"] == "in the file"
        assert int(answer.headers["content-length"]) == len(answer.content)
        (path := tmp_path / name).write_bytes(answer.content)
        manifest = read_manifest(path)
        assert (manifest.state, manifest.origin) == ("valid", "trainedAlgorithmicMedia")
        verdict = verify_file(path, registry=registry)
        assert verdict.status == "authentic"
        assert verdict.record_id == read_id(number) == manifest.record_ids[0]
        assert verdict.record is not None
        assert verdict.record.duration_seconds == pytest.approx(4, abs=0.15)


def test_what_streams_through_is_recorded_when_it_ends(
    proxy: Running, registry: ideaw.Registry, tmp_path: Path
) -> None:
    answer = proxy.client.get("/stream")
    assert answer.headers["x-ideaw-signed"] == "in the registry"
    record = registry.get(read_id(answer.headers["x-ideaw-id"]))
    assert record is not None
    samples = np.frombuffer(answer.content, np.int16)
    assert record.duration_seconds == len(samples) / RATE == 4
    assert compare(record.fingerprint, fingerprint(samples, RATE)).agrees
    (path := tmp_path / "sent.pcm").write_bytes(answer.content)
    assert read_manifest(path, store=record.manifest).state == "valid"
    sf.write(tmp_path / "sent.wav", samples, RATE)
    assert verify_file(tmp_path / "sent.wav", registry=registry).status == "authentic"


def test_what_breaks_off_is_recorded_as_far_as_it_came(proxy: Running, registry: ideaw.Registry) -> None:
    Speaker.go_on.clear()
    with proxy.client.stream("GET", "/broken") as answer:
        number = read_id(answer.headers["x-ideaw-id"])
        pieces = answer.iter_raw()
        next(pieces)
        assert registry.get(number) is None
        Speaker.go_on.set()
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
    wait_until(lambda: registry.get(number) is not None, "the record is there")
    record = registry.get(number)
    assert record is not None
    assert record.data == {"broken_off": True}
    assert 3 < record.duration_seconds <= 4


def test_a_client_that_leaves_leaves_a_record(proxy: Running, registry: ideaw.Registry) -> None:
    Speaker.go_on.clear()
    with proxy.client.stream("GET", "/broken") as answer:
        number = read_id(answer.headers["x-ideaw-id"])
        next(answer.iter_raw())
    wait_until(lambda: registry.get(number) is not None, "the record is there")
    Speaker.go_on.set()


def test_ids_are_the_registrys_alone(proxy: Running) -> None:
    refused = proxy.client.get("/speech.wav", headers={"X-Ideaw-Message": "ab12"})
    assert refused.status_code == 400
    assert "leave x-ideaw-message out" in refused.json()["error"]["message"]


def test_without_a_registry_no_audio_passes(proxy: Running, registry: ideaw.Registry, folder: Path) -> None:
    with closing(sqlite3.connect(folder / "ids.db")) as connection:
        for name in ("/speech.wav", "/stream"):
            connection.execute("ALTER TABLE ideaw_records RENAME TO gone")
            if name == "/stream":  # whose record is the last thing
                with pytest.raises(httpx.RemoteProtocolError):
                    proxy.client.get(name)
            else:
                assert proxy.client.get(name).status_code == 503
            connection.execute("ALTER TABLE gone RENAME TO ideaw_records")
        connection.execute("ALTER TABLE ideaw_ids RENAME TO gone")
        refused = proxy.client.get("/stream")
        connection.execute("ALTER TABLE gone RENAME TO ideaw_ids")
    assert refused.status_code == 503
    assert refused.json()["error"]["message"] == "the registry cannot be used now; the service's log says why"
    assert proxy.client.get("/stream").status_code == 200


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "give either a --message"),
        (("-m", "ab12", "--registry", "sqlite:///ids.db"), "give either a --message"),
        (("-m", "ab12", "--sign", "cert.pem", "key.pem"), "of use with a --registry only"),
        (("--registry", "sqlite:///ids.db", "--model", "10+10"), "this model holds"),
    ],
)
def test_a_proxy_that_cannot_work_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("proxy", "--upstream", "http://127.0.0.1:9", "--port", "0", *options)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err
