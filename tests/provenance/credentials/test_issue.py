"""Credentials in one call: an id, a mark, a manifest and a record that belong together; all of them or none."""

import hashlib
import http.server
import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import c2pa
import numpy as np
import pytest
import soundfile as sf
import soxr
import sqlalchemy
from numpy.typing import NDArray

import ideaw
from ideaw import CredentialError
from ideaw.audio.read import read_audio
from ideaw.provenance.credentials import TestAuthority, make_test_authority
from ideaw.provenance.fingerprint import compare, fingerprint
from ideaw.provenance.manifest import Claim, read_manifest, read_store, sidecar_of, sign_digest, sign_file
from ideaw.provenance.records import Record, id_message, written_id
from ideaw.provenance.schema import IDS
from tests.provenance.credentials.conftest import Issued

EMBEDDING, BESIDE = (".wav", ".flac", ".mp3", ".m4a"), (".ogg", ".opus", ".aiff")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32]) -> Path:
    """Three seconds of speech at a rate that every codec has."""
    path = tmp_path_factory.mktemp("source") / "speech.wav"
    sf.write(path, soxr.resample(speech[:48_000], 16_000, 48_000), 48_000)
    return path


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[ideaw.Registry]:
    with ideaw.Registry(f"sqlite:///{tmp_path / 'marks.db'}") as opened:
        yield opened


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty folder for outputs."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


# What is issued


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [*EMBEDDING, *BESIDE])
def test_mark_manifest_and_record_name_the_same_id(
    source: Path,
    place: Path,
    registry: ideaw.Registry,
    signer: ideaw.Signer,
    roots: bytes,
    marker: ideaw.Marker,
    suffix: str,
) -> None:
    target = place / f"out{suffix}"
    issued = ideaw.issue_file(
        source,
        target,
        registry=registry,
        signer=signer,
        marker=marker,
        origin="generated",
        label_producer="Akme 声音",
        data={"title": "Pilot"},
    )
    record = issued.record
    assert registry.get(record.id) == record
    assert record.sha256 == hashlib.sha256(target.read_bytes()).hexdigest()
    assert record.data == {"title": "Pilot"}
    assert (record.model, record.key_fingerprint) == ("46+10", marker.key_fingerprint)
    assert record.duration_seconds == pytest.approx(3, abs=0.1)

    assert marker.detect_file(target).message == id_message(record.id)
    heard = read_audio(target)
    assert compare(record.fingerprint, fingerprint(heard.samples, heard.rate)).agrees

    found = read_manifest(target, roots)
    assert (found.state, found.record_ids, found.origin) == ("trusted", (record.id,), "trainedAlgorithmicMedia")
    assert (found.issuer, found.authority) == ("ideaw TEST", "ideaw TEST authority, not trusted")
    assert found.beside == (suffix in BESIDE)
    assert {path.name for path in place.iterdir()} == {target.name} | ({"out.c2pa"} if suffix in BESIDE else set())
    assert issued.sidecar == (sidecar_of(target) if suffix in BESIDE else None)
    assert read_store(issued.manifest or b"").record_ids == (record.id,)
    _check_label(target, record)


def _check_label(path: Path, record: Record) -> None:
    """What other programs read as the label; nothing is checked where there is none."""
    if shutil.which("ffprobe") is None:
        pytest.skip("ffprobe is not installed, which would read the label")
    asked = ["ffprobe", "-v", "warning", "-show_format", "-show_streams", "-of", "json", path]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert told.stderr == ""
    content = json.loads(told.stdout)
    tags = content["format"].get("tags", {}) | content["streams"][0].get("tags", {})
    written = tags.get("AIGC") or tags["comment"].removeprefix("AIGC=")
    label = json.loads(written)["AIGC"]
    assert (label["Label"], label["ContentProducer"], label["ProduceID"]) == ("1", "Akme 声音", written_id(record.id))
    assert set(label) > {"ReservedCode1", "ContentPropagator", "PropagateID", "ReservedCode2"}


def test_signing_leaves_every_sample_as_it_was_marked(
    spoken: Issued, place: Path, registry: ideaw.Registry, signer: ideaw.Signer, marker: ideaw.Marker
) -> None:
    source = spoken.path.with_name("in.wav")
    marked = ideaw.issue_file(source, place / "plain.flac", registry=registry, marker=marker)
    assert (marked.manifest, read_manifest(place / "plain.flac").state) == (None, "none")
    again = marker.embed(spoken.original.astype(np.float64), 16_000, id_message(spoken.id))
    assert np.abs(again - spoken.marked).max() <= 2 / 2**15


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_a_manifest_of_the_source_is_kept_as_that_of_an_ingredient(
    spoken: Issued,
    place: Path,
    registry: ideaw.Registry,
    signer: ideaw.Signer,
    roots: bytes,
    marker: ideaw.Marker,
    strings: NDArray[np.float32],
    suffix: str,
) -> None:
    plain, signed, target = (place / f"{name}{suffix}" for name in ("plain", "signed", "out"))
    sf.write(plain, strings, 16_000)
    with signed.open("wb+") as file:
        sign_file(plain, file, Claim(1, "recorded"), signer)
    assert np.array_equal(read_audio(signed).samples, read_audio(plain).samples)
    with pytest.raises(CredentialError, match=r"signed\.\w+ has a manifest of ideaw TEST that says how it came to be"):
        ideaw.issue_file(signed, target, registry=registry, signer=signer, marker=marker, origin="generated")
    assert not target.exists()
    issued = ideaw.issue_file(signed, target, registry=registry, signer=signer, marker=marker)
    found = read_manifest(target, roots)
    assert (found.state, found.record_ids) == ("trusted", (issued.record.id,))
    with c2pa.Reader(target) as reader:
        described = json.loads(reader.json())
    active = described["manifests"][described["active_manifest"]]
    assert [one["relationship"] for one in active["ingredients"]] == ["parentOf"]
    assert active["ingredients"][0]["active_manifest"] in described["manifests"]


def test_nothing_personal_is_in_a_manifest(spoken: Issued) -> None:
    store = spoken.credential.manifest or b""
    for private in (b"in.wav", b"out.wav", str(Path.home()).encode(), str(spoken.path.parent).encode()):
        assert private not in store


def test_an_array_gets_credentials_for_its_bytes(
    strings: NDArray[np.float32],
    registry: ideaw.Registry,
    signer: ideaw.Signer,
    roots: bytes,
    marker: ideaw.Marker,
) -> None:
    marked, issued = ideaw.issue_array(
        strings[:32_000], 16_000, registry=registry, signer=signer, marker=marker, origin="recorded"
    )
    assert marked.dtype == strings.dtype
    assert marker.detect(marked, 16_000).message == id_message(issued.record.id)
    assert registry.get(issued.record.id) == issued.record
    assert issued.manifest is not None
    assert read_store(issued.manifest, marked.tobytes(), roots).state == "trusted"
    assert read_store(issued.manifest, marked[1:].tobytes(), roots).of_other_bytes


def test_a_stream_has_its_id_at_once_and_its_record_in_the_end(
    strings: NDArray[np.float32], registry: ideaw.Registry, signer: ideaw.Signer, marker: ideaw.Marker
) -> None:
    stream = ideaw.issue_stream(16_000, registry=registry, signer=signer, marker=marker, origin="generated")
    assert registry.get(stream.id) is None
    marked = np.concatenate([*map(stream.push, np.array_split(strings[:32_000], 9)), stream.flush()])
    assert len(marked) == 32_000
    assert stream.credential is not None
    record = stream.credential.record
    assert registry.get(stream.id) == record
    assert record.sha256 == hashlib.sha256(marked.tobytes()).hexdigest()
    assert record.fingerprint == fingerprint(marked, 16_000)
    assert marker.detect(marked, 16_000).message == id_message(stream.id)


# All or nothing


def _records(registry: ideaw.Registry) -> list[Record]:
    return list(registry.records())


def test_what_cannot_be_recorded_is_not_written(
    source: Path, place: Path, tmp_path: Path, registry: ideaw.Registry, signer: ideaw.Signer, marker: ideaw.Marker
) -> None:
    def lose_ids(share: float) -> None:
        """Somebody else empties the table of ids while the file is being marked."""
        engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'marks.db'}")
        with engine.begin() as connection:
            connection.execute(sqlalchemy.delete(IDS))
        engine.dispose()

    with pytest.raises(ideaw.RegistryError, match="was not allotted"):
        ideaw.issue_file(
            source,
            place / "out.ogg",
            registry=registry,
            signer=signer,
            marker=marker,
            origin="generated",
            progress=lose_ids,
        )
    assert list(place.iterdir()) == []
    assert _records(registry) == []


class MovedFolder(ideaw.Registry):
    """A registry that is slow: while it keeps the record, somebody moves the folder of the output."""

    folder: Path

    def record(self, record: Record) -> None:
        super().record(record)
        assert self.get(record.id) == record
        self.folder.rename(self.folder.with_name("moved"))


@pytest.mark.parametrize("suffix", [".wav", ".ogg"])
def test_a_record_is_taken_back_if_its_file_cannot_get_its_name(
    source: Path, place: Path, tmp_path: Path, signer: ideaw.Signer, marker: ideaw.Marker, suffix: str
) -> None:
    registry = MovedFolder(f"sqlite:///{tmp_path / 'marks.db'}")
    registry.folder = place
    with pytest.raises(ideaw.FileError, match=r"out\.\w+ cannot be written"):
        ideaw.issue_file(
            source, place / f"out{suffix}", registry=registry, signer=signer, marker=marker, origin="generated"
        )
    assert list((tmp_path / "moved").iterdir()) == []
    assert _records(registry) == []


@pytest.mark.parametrize(
    ("name", "options", "error", "reason"),
    [
        ("out.wav", {"overwrite": False}, ideaw.FileError, "exists already"),
        ("out.ogg", {"overwrite": False}, ideaw.FileError, r"out\.c2pa exists already"),
        ("out.au", {"label_producer": "Acme"}, ideaw.FileError, r"out\.au has no place for AIGC"),
        ("out.wav", {"origin": None, "label_producer": "Acme"}, CredentialError, "says that audio was generated"),
        ("out.xyz", {}, ideaw.FileError, "unknown type"),
    ],
)
def test_what_cannot_be_done_leaves_no_file_and_no_record(
    source: Path,
    place: Path,
    registry: ideaw.Registry,
    signer: ideaw.Signer,
    marker: ideaw.Marker,
    name: str,
    options: dict[str, Any],
    error: type[Exception],
    reason: str,
) -> None:
    for there in ("out.wav", "out.c2pa"):
        (place / there).write_text("here before")
    before = sorted(place.iterdir())
    with pytest.raises(error, match=reason) as raised:
        ideaw.issue_file(
            source,
            place / name,
            registry=registry,
            signer=signer,
            marker=marker,
            **{"origin": "generated"} | options,
        )
    assert "\n" not in str(raised.value)
    assert sorted(place.iterdir()) == before
    assert {path.read_text() for path in before} == {"here before"}
    assert _records(registry) == []


def test_marked_audio_gets_no_second_id_unasked(
    spoken: Issued, place: Path, registry: ideaw.Registry, signer: ideaw.Signer, marker: ideaw.Marker
) -> None:
    with pytest.raises(ideaw.AlreadyMarkedError):
        ideaw.issue_file(spoken.path, place / "again.wav", registry=registry, signer=signer, marker=marker)
    assert list(place.iterdir()) == []
    assert _records(registry) == []


def test_an_id_has_one_record(shelf: ideaw.Registry, spoken: Issued) -> None:
    with pytest.raises(ideaw.RegistryError, match="has a record already"):
        shelf.record(spoken.credential.record)


# Kills


@pytest.mark.slow
def test_a_killed_process_leaves_no_file_without_its_record(
    source: Path, place: Path, tmp_path: Path, authority: TestAuthority, registry: ideaw.Registry
) -> None:
    url, rng = f"sqlite:///{tmp_path / 'marks.db'}", np.random.default_rng(0)
    words = ["--registry", url, "--sign", authority.chain, authority.key, "--recorded", "--overwrite"]
    ended = set()
    for suffix in (".wav", ".ogg"):
        target = place / f"out{suffix}"
        target.unlink(missing_ok=True)
        issuing = subprocess.Popen([sys.executable, "-m", "ideaw", "issue", source, target, *words])
        while issuing.poll() is None and not _records(registry):
            threading.Event().wait(rng.uniform(0, 0.02))
        issuing.kill()
        ended.add(issuing.wait())
        assert not list(place.glob(".ideaw-*"))
        if target.exists():
            (record,) = registry.find_sha256(hashlib.sha256(target.read_bytes()).hexdigest())
            assert read_manifest(target).record_ids == (record.id,)
        for record in _records(registry):
            registry.withdraw(record.id)
    assert ended <= {0, -signal.SIGKILL}


# No network, no extra, no delay


def test_a_remote_manifest_is_not_fetched(place: Path, spoken: Issued, authority: TestAuthority) -> None:
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        created = {"action": "c2pa.created", "digitalSourceType": "http://cv.iptc.org/newscodes/digitalsourcetype/x"}
        actions = {"label": "c2pa.actions.v2", "data": {"actions": [created]}}
        builder = c2pa.Builder({"claim_generator_info": [{"name": "test"}], "assertions": [actions]})
        builder.set_no_embed()
        builder.set_remote_url(f"http://127.0.0.1:{server.server_port}/there.c2pa")
        chain, key = authority.chain.read_bytes(), authority.key.read_bytes()
        signing = c2pa.Signer.from_info(c2pa.C2paSignerInfo("es256", chain, key, None))
        plain = spoken.path.with_name("in.wav")
        with plain.open("rb") as before, (place / "remote.wav").open("wb+") as after:
            builder.sign(signing, "audio/wav", before, after)
        assert read_manifest(place / "remote.wav").state == "remote"
        assert asked == []
        with pytest.raises(c2pa.C2paError):  # which asks, unless it is told not to
            c2pa.Reader(place / "remote.wav")
        assert asked == ["/there.c2pa"]
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_signature_outlives_its_certificate_as_expired(tmp_path: Path) -> None:
    store, roots = _until_signed(tmp_path, seconds=2)
    content = b"audio"
    while read_store(store, content, roots).state == "trusted":
        threading.Event().wait(0.1)
    found = read_store(store, content, roots)
    assert (found.state, found.fits, found.record_ids) == ("expired", True, (7,))
    assert read_store(store, b"other", roots).state == "tampered"


def _until_signed(folder: Path, seconds: int) -> tuple[bytes, bytes]:
    """A manifest of a certificate that soon expires; with more time where this machine needs it."""
    made = make_test_authority(folder / str(seconds), timedelta(seconds=seconds))
    try:
        signer = ideaw.Signer(made.chain, made.key)
        digest = hashlib.sha256(b"audio").digest()
        store = sign_digest(digest, "application/octet-stream", Claim(7, "recorded"), signer)
    except CredentialError:
        return _until_signed(folder, 2 * seconds)
    return store, made.roots.read_bytes()


@pytest.mark.parametrize("spoil", [lambda store: store[:200], lambda store: store[:300] + bytes(300) + store[600:]])
def test_a_damaged_manifest_is_told(spoken: Issued, spoil: Callable[[bytes], bytes]) -> None:
    assert read_store(spoil(spoken.credential.manifest or b""), b"").state == "tampered"


def test_no_manifest_makes_an_error(spoken: Issued, place: Path) -> None:
    content, rng = spoken.path.read_bytes(), np.random.default_rng(0)
    store = content.find(b"jumb") - 4
    for _ in range(60):
        mutant = bytearray(content)
        for where in rng.integers(store, len(content), rng.integers(1, 5)):
            mutant[where] = rng.integers(256)
        (place / "mutant.wav").write_bytes(mutant[: rng.integers(store, len(content)) if rng.random() < 0.2 else None])
        found = read_manifest(place / "mutant.wav")
        assert found.state in ("valid", "tampered", "none")  # some bytes fill space, and nobody signs them
        assert len(found.record_ids) <= 1


@pytest.mark.slow
def test_the_package_does_without_the_extra_until_it_is_asked() -> None:
    script = """
import sys, ideaw
from ideaw import *
from ideaw.cli import main
assert not {"c2pa", "sqlalchemy", "cryptography"} & set(sys.modules)
sys.modules["c2pa"] = None
try:
    ideaw.issue_file
except ideaw.MissingExtraError as problem:
    print(problem)
main(["verify", "song.wav"])
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    advice = 'needs c2pa; install it with: pip install "ideaw[provenance]"\n'
    assert told.stdout == f"ideaw.issue_file {advice}"
    assert (told.returncode, told.stderr) == (2, f"ideaw: `ideaw verify` {advice}")


def test_a_record_is_dated_by_now(spoken: Issued) -> None:
    assert timedelta() <= datetime.now(UTC) - spoken.credential.record.created < timedelta(hours=1)
