"""`testcert`, `issue` and `verify` as users give them: exit codes, one line each, and nothing half done."""

import contextlib
import json
import sqlite3
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

import ideaw
from ideaw.provenance.schema import VERSIONS
from tests.cli.conftest import run

pytestmark = pytest.mark.xdist_group("provenance commands")


@dataclass(frozen=True)
class Desk:
    """What a user has: a certificate with its key and root, a registry, and a file that was issued."""

    chain: Path
    key: Path
    roots: Path
    registry: str
    issued: Path


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, spoken: Path) -> Desk:
    folder = tmp_path_factory.mktemp("desk")
    ran = run("testcert", folder / "test")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{folder}/test/cert.pem, {folder}/test/key.pem: sign with these in tests")
    chain, key, roots = (folder / "test" / name for name in ("cert.pem", "key.pem", "roots.pem"))
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    registry, issued = f"sqlite:///{folder / 'marks.db'}", folder / "issued.wav"
    ran = run("issue", spoken, issued, "--registry", registry, "--sign", chain, key, "--generated", "--label-cn")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{issued}: has the id ")
    assert ran.out.endswith(", signed by ideaw TEST\n")
    return Desk(chain, key, roots, registry, issued)


def test_what_was_issued_is_verified(desk: Desk, spoken: Path) -> None:
    ran = run("verify", desk.issued, "--registry", desk.registry, "--trust", desk.roots)
    assert (ran.code, ran.err, ran.out.count("\n")) == (0, "", 1)
    assert ran.out.startswith(f"{desk.issued}: authentic: the mark leads to the record ")
    ran = run("verify", desk.issued, spoken, "--registry", desk.registry, "--json")
    first, second = json.loads(ran.out)
    assert (ran.code, first["status"], second["status"]) == (1, "authentic", "none")
    assert first["record"]["id"] == first["manifest"]["record_ids"][0]
    assert b'{"AIGC": {"Label": "1", "ContentProducer": "ideaw TEST"' in desk.issued.read_bytes()


def test_a_file_that_cannot_be_examined_does_not_keep_others_from_it(desk: Desk, tmp_path: Path) -> None:
    ran = run("verify", tmp_path / "missing.wav", desk.issued, "--registry", desk.registry)
    assert ran.code == 2
    assert ran.err == f"ideaw: {tmp_path / 'missing.wav'} does not exist\n"
    assert ran.out.startswith(f"{desk.issued}: authentic: ")


def test_an_issued_file_says_in_json_what_it_is(desk: Desk, spoken: Path, tmp_path: Path) -> None:
    ran = run(
        *("issue", spoken, tmp_path / "out.ogg", "--registry", desk.registry, "--sign", desk.chain, desk.key),
        *("--recorded", "--data", '{"title": "Pilot"}', "--json"),
    )
    told = json.loads(ran.out)
    assert (ran.code, told["signed_by"]) == (0, "ideaw TEST")
    assert told["manifest_file"] == str(tmp_path / "out.c2pa")
    ran = run("verify", tmp_path / "out.ogg", "--registry", desk.registry, "--json")
    answer = json.loads(ran.out)
    assert (answer["record"]["id"], answer["record"]["data"]) == (told["id"], {"title": "Pilot"})
    assert answer["manifest"]["beside"]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (("--generated", "--recorded"), "audio is either --generated or --recorded, not both"),
        (("--data", "[1]"), '--data is no JSON object; give one such as {"title": "Pilot"}'),
        (("--label-cn", "--generated"), "the label names who generates; give --producer NAME, or --sign"),
        (("--sign", "no.pem", "no.pem"), "no.pem cannot be read as a certificate: no such file or directory"),
    ],
)
def test_what_contradicts_itself_is_one_line(
    desk: Desk, spoken: Path, tmp_path: Path, more: tuple[str, ...], line: str
) -> None:
    ran = run("issue", spoken, tmp_path / "out.wav", "--registry", desk.registry, *more)
    assert (ran.code, ran.out, ran.err) == (2, "", f"ideaw: {line}\n")
    assert list(tmp_path.iterdir()) == []


def test_registries_that_are_none_are_one_line(desk: Desk, spoken: Path, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, but a text that is long enough to be taken for one\n" * 20)
    for url in ("mysql://there", f"sqlite:///{tmp_path / 'text.db'}", f"sqlite:///{tmp_path}/no/folder/marks.db"):
        ran = run("issue", spoken, tmp_path / "out.wav", "--registry", url)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "Traceback" not in ran.err
    missing = f"sqlite:///{tmp_path / 'missing.db'}"
    ran = run("verify", desk.issued, "--registry", missing)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("ideaw: there is no registry ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.db"]


def test_a_registry_of_a_later_version_is_one_line(spoken: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'marks.db'}"
    ideaw.Registry(url).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "marks.db")) as database, database:
        database.execute(f"UPDATE {VERSIONS.name} SET version = 999")
    ran = run("issue", spoken, tmp_path / "out.wav", "--registry", url)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "version" in ran.err
    assert not (tmp_path / "out.wav").exists()
