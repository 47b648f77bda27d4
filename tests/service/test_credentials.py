"""Verdicts and ids over HTTP: what the commands say and do, and less for strangers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import numpy as np
import pytest
import schemathesis
import soundfile as sf
from hypothesis import strategies as st
from numpy.typing import NDArray
from schemathesis import GenerationMode

import ideaw
from ideaw.provenance.manifest import read_manifest
from ideaw.provenance.records import read_id
from ideaw.service.credentials import coarse_verdict

from .conftest import PATIENCE_SECONDS, TOKEN, Issued, Running, service
from .test_fuzz import CHECKS, EXAMPLES

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]

OWNER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory, issued: Issued) -> Iterator[Running]:
    """A service with a registry and a certificate, for owners and strangers."""
    settings = {
        **{"tokens": [TOKEN], "workers": 1, "limits": {"stranger_requests_per_minute": 1000}},
        **{"registry": issued.registry, "sign": [str(issued.certificate), str(issued.key)]},
        "trusted": str(issued.roots),
    }
    with service(tmp_path_factory.mktemp("signing"), **settings) as running:
        yield running
        assert running.uploads == []


def post(running: Running, route: str, path: Path, owner: bool = True, **fields: Any) -> httpx.Response:
    files, headers = {"file": (path.name, path.read_bytes())}, OWNER if owner else {}
    return running.client.post(f"/v1/{route}", data=fields, files=files, headers=headers)


def test_a_verdict_is_the_json_of_the_command(signing: Running, issued: Issued, copied: Path, spoken: Path) -> None:
    from cli.conftest import run  # type: ignore[import-not-found]

    for path, status in ((issued.path, "authentic"), (copied, "copied"), (spoken, "none")):
        command = run("verify", path, "--registry", issued.registry, "--trust", issued.roots, "--json")
        of_command = json.loads(command.out)
        del of_command["file"]
        answer = post(signing, "verify", path).json()
        assert answer["status"] == status
        assert answer == of_command


def test_strangers_are_told_no_statistics_and_whole_seconds(
    signing: Running, issued: Issued, tmp_path: Path, strings: NDArray[np.float32]
) -> None:
    marked, rate = sf.read(issued.path, dtype="float32")
    sf.write(tmp_path / "half.wav", np.concatenate([strings[:20_000], marked, strings]), rate)
    exact = post(signing, "verify", tmp_path / "half.wav").json()
    answer = post(signing, "verify", tmp_path / "half.wav", owner=False).json()
    assert exact["status"] == answer["status"] == "partial"
    assert set(answer) == {"status", "reason", "record", "issuer", "origin", "segments", "manifest"}
    assert set(answer["record"]) == {"id", "created", "signed"}
    for place, exact_place in zip(answer["segments"], exact["segments"], strict=True):
        assert isinstance(place["start"], int)
        assert place["start"] <= exact_place["start"] <= exact_place["end"] <= place["end"]
    assert "." not in answer["reason"].partition("; ")[2].partition(" s is")[0]


@pytest.mark.parametrize(("state", "status"), [("none", "none"), ("tampered", "none"), ("valid", "unmarked")])
def test_an_unreadable_mark_is_none_for_strangers(state: str, status: str) -> None:
    manifest = {"state": state, "issuer": "studio", "authority": None, "origin": None}
    answer = {
        "status": "unreadable",
        "reason": "",
        "record": None,
        "issuer": None,
        "origin": None,
        "segments": [],
        "manifest": manifest,
    }
    told = coarse_verdict(answer)
    assert told["status"] == status
    assert "no mark of these keys that can be read" in told["reason"]
    assert ("signed by studio" in told["reason"]) == (status == "unmarked")


def test_owners_get_files_with_ids(signing: Running, issued: Issued, tmp_path: Path, spoken: Path) -> None:
    answer = post(signing, "issue", spoken, origin="generated", data='{"title": "Pilot"}')
    assert answer.status_code == 200, answer.text
    number = read_id(answer.headers["x-ideaw-id"])
    (path := tmp_path / "issued.wav").write_bytes(answer.content)
    assert f'speech-{answer.headers["x-ideaw-id"]}.wav"' in answer.headers["content-disposition"]
    manifest = read_manifest(path)
    assert (manifest.state, manifest.record_ids, manifest.origin) == ("valid", (number,), "trainedAlgorithmicMedia")
    with ideaw.Registry(issued.registry, create=False) as registry:
        record = registry.get(number)
    assert record is not None
    assert record.data == {"title": "Pilot"}
    verdict = post(signing, "verify", path).json()
    assert (verdict["status"], verdict["record"]["id"]) == ("authentic", answer.headers["x-ideaw-id"])
    assert verdict["manifest"]["state"] == "trusted"
    store = signing.client.get(f"/manifests/{answer.headers['x-ideaw-manifest']}")
    assert store.content == record.manifest
    again = post(signing, "issue", path, origin="generated")
    assert again.status_code in (400, 422)
    assert "\n" not in again.json()["error"]
    assert str(signing.temporary) not in again.json()["error"]


def test_strangers_get_no_ids(signing: Running, spoken: Path) -> None:
    assert post(signing, "issue", spoken, owner=False, origin="generated").status_code == 401


def test_without_a_registry_there_is_neither(private: Running, spoken: Path) -> None:
    assert private.client.get("/v1/info").json()["verifies"] is False
    assert private.post("verify", file=spoken).status_code == 404
    assert private.post("issue", file=spoken).status_code == 404


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as described", "otherwise"])
@pytest.mark.parametrize("route", ["verify", "issue"])
def test_every_answer_is_described(signing: Running, issued: Issued, route: str, mode: GenerationMode) -> None:
    whole = issued.path.read_bytes()
    schemathesis.openapi.format("binary", st.sampled_from([whole, whole[:4000]]) | st.binary(max_size=100))
    operation = schemathesis.openapi.from_url(f"{signing.address}openapi.json")[f"/v1/{route}"]["POST"]

    @hypothesis.settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def call(case: schemathesis.Case) -> None:
        answer = case.call(base_url=signing.address, headers=OWNER, timeout=PATIENCE_SECONDS)
        case.validate_response(answer, checks=CHECKS)

    call()
    assert signing.client.get("/metrics", headers=OWNER).text.find('reason="crash"') == -1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--sign", "cert.pem", "key.pem"), "of use with a --registry only"),
        (("--registry", "sqlite:///no.db"), "there is no registry"),
        (("--registry", "sqlite:///no.db", "--trust", "no.pem"), "no.pem cannot be read"),
        (("--registry", "nonsense"), "is not the URL of a registry"),
    ],
)
def test_a_service_that_cannot_work_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], says: str
) -> None:
    from cli.conftest import run

    monkeypatch.chdir(tmp_path)
    ran = run("serve", "--no-open", "--port", "0", *options)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err
    assert list(tmp_path.iterdir()) == []
