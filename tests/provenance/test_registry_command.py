"""`ideaw registry`: a record for people and machines, back-ups, and one line for what is wrong."""

import json
from pathlib import Path

import pytest

from ideaw import Registry
from ideaw.provenance.records import written_id
from tests.cli.conftest import run
from tests.provenance.conftest import record_of


@pytest.fixture
def filled(tmp_path: Path) -> tuple[str, int]:
    """URL of a registry, and the id of its one record."""
    url = f"sqlite:///{tmp_path / 'ideaw.db'}"
    with Registry(url) as registry:
        number = registry.allot()
        registry.record(record_of(number))
    return url, number


def test_a_record_is_shown_to_people_and_machines(filled: tuple[str, int]) -> None:
    url, number = filled
    ran = run("registry", "show", written_id(number), "--registry", url)
    assert (ran.code, ran.err) == (0, "")
    assert {f"id: {written_id(number)}", "model: 46+10", "fingerprint bytes: 256"} <= set(ran.out.splitlines())
    told = json.loads(run("registry", "show", written_id(number), "--registry", url, "--json").out)
    assert (told["id"], told["message"]) == (written_id(number), f"hex:{written_id(number)}")
    assert told["data"] == record_of(number).data


def test_an_id_without_a_record_ends_with_code_1(filled: tuple[str, int]) -> None:
    url, number = filled
    ran = run("registry", "show", written_id(number ^ 1), "--registry", url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"ideaw: {written_id(number ^ 1)} has no record in {url}\n"


def test_a_registry_is_carried_into_another_one(filled: tuple[str, int], tmp_path: Path) -> None:
    url, number = filled
    other, lines = f"sqlite:///{tmp_path / 'other.db'}", tmp_path / "all.jsonl"
    assert run("registry", "export", lines, "--registry", url).out == f"{lines}: 1 records of {url}\n"
    assert run("registry", "import", lines, "--registry", other).out == f"{other}: 1 new records from {lines}\n"
    assert run("registry", "backup", tmp_path / "copy.db", "--registry", other).code == 0
    with Registry(f"sqlite:///{tmp_path / 'copy.db'}", create=False) as copy:
        assert copy.get(number) == record_of(number)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "xyz", "--registry", "{url}"), '"xyz" is no id'),
        (("show", "00a1b2c3", "--registry", "sqlite:///{folder}/typo.db"), "there is no registry"),
        (("export", "{folder}/no/all.jsonl", "--registry", "{url}"), "does not exist; make it first"),
        (("backup", "{folder}", "--registry", "{url}"), "is a directory"),
        (("import", "{folder}/none.jsonl", "--registry", "{url}"), "does not exist"),
        (("import", "{folder}/ideaw.db", "--registry", "{url}"), "is not what"),
        (("export", "{folder}/all.jsonl", "--registry", "mysql://a/b"), "no kind of registry"),
        (("export", "{folder}/all.jsonl", "--registry", "postgresql://u:secret@/b?host={folder}"), "cannot be used"),
    ],
)
def test_bad_input_gets_one_line(filled: tuple[str, int], tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    ran = run("registry", *(word.format(url=filled[0], folder=tmp_path) for word in words))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err
    assert "secret" not in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
