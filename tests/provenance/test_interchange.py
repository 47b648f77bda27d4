"""Back-ups, and a registry as JSON lines: nothing is lost on the way, and nothing is half taken in."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ideaw import FileError, Registry, RegistryError
from ideaw.provenance.records import written_id
from tests.provenance.conftest import Server, plain_record, record_of


def filled(registry: Registry) -> list[int]:
    """Ids of two records and of one that was only allotted."""
    ids = [registry.allot() for _ in range(3)]
    registry.record(record_of(ids[0]))
    registry.record(plain_record(ids[1]))
    return ids


def other(tmp_path: Path, name: str = "other.db") -> Registry:
    return Registry(f"sqlite:///{tmp_path / name}")


def all_ids(path: Path) -> set[int]:
    with closing(sqlite3.connect(path)) as database:
        return {number for (number,) in database.execute("SELECT id FROM ideaw_ids")}


def test_an_export_holds_records_and_ids_and_loads_into_another_registry(registry: Registry, tmp_path: Path) -> None:
    ids = filled(registry)
    assert registry.export(tmp_path / "all.jsonl") == 2
    with other(tmp_path) as copy:
        assert copy.load(tmp_path / "all.jsonl") == 2
        assert list(copy.records()) == list(registry.records())
        assert all_ids(tmp_path / "other.db") == set(ids)  # so none of them is given again
        assert copy.load(tmp_path / "all.jsonl") == 0
        copy.export(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "all.jsonl").read_bytes()


@pytest.mark.xdist_group("postgresql")
@pytest.mark.slow
def test_a_file_moves_to_a_server(server: Server, tmp_path: Path) -> None:
    with other(tmp_path) as small, Registry(server.create("moved")) as large:
        filled(small)
        small.export(tmp_path / "all.jsonl")
        assert large.load(tmp_path / "all.jsonl") == 2
        assert list(large.records()) == list(small.records())


def test_an_export_is_lines_of_json_that_people_can_read(tmp_path: Path) -> None:
    with other(tmp_path) as registry:
        ids = filled(registry)
        registry.export(tmp_path / "all.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert lines[0] == {"ideaw_registry": 1}
    assert [line["id"] for line in lines[1:3]] == sorted(written_id(number) for number in ids[:2])
    assert lines[1]["created"] == "2026-11-19T20:15:30.123456Z"
    assert lines[3:] == [{"ids": [written_id(ids[2])]}, {"end": 2}]


def test_a_record_that_differs_is_refused_and_nothing_is_taken_in(registry: Registry, tmp_path: Path) -> None:
    ids = filled(registry)
    registry.export(tmp_path / "all.jsonl")
    changed = (tmp_path / "all.jsonl").read_text().replace('"46+10"', '"22+10"')
    (tmp_path / "changed.jsonl").write_text(changed)
    before = list(registry.records())
    with pytest.raises(RegistryError, match="has another record here; nothing was taken in"):
        registry.load(tmp_path / "changed.jsonl")
    assert list(registry.records()) == before
    with other(tmp_path) as third:
        number = third.allot()
        third.record(record_of(number))
        third.export(tmp_path / "third.jsonl")
    joined = "\n".join((tmp_path / "third.jsonl").read_text().splitlines()[:-1] + changed.splitlines()[1:])
    (tmp_path / "joined.jsonl").write_text(joined)
    with pytest.raises(RegistryError, match="has another record here"):
        registry.load(tmp_path / "joined.jsonl")
    assert registry.get(number) is None
    assert {record.id for record in registry.records()} == set(ids[:2])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: "notes\n", "is not what"),
        (lambda text: '{"a": 1}\n', "is not what"),
        (lambda text: "[1]\n", "is not what"),
        (lambda text: text.replace('{"ideaw_registry":1}', '{"ideaw_registry":2}'), "has format 2"),
        (lambda text: text[:-40], "damaged in line 3|damaged in line 4"),
        (lambda text: "\n".join(text.splitlines()[:-1]), "is incomplete"),
        (lambda text: "\n".join(text.splitlines()[:1] + text.splitlines()[2:]), "is incomplete"),
        (lambda text: text.replace('"sha256"', '"sha"'), "damaged in line 2"),
        (lambda text: text.replace('"duration_seconds":12.34', '"duration_seconds":"long"'), "damaged in line 2"),
        (lambda text: text.replace("+10", "\0"), "damaged in line 2"),
        (lambda text: text.replace('"ids":["', '"ids":["x'), "is no id"),
    ],
)
def test_a_damaged_file_is_one_line_and_nothing_is_taken_in(
    tmp_path: Path, change: Callable[[str], str], says: str
) -> None:
    with other(tmp_path) as registry:
        filled(registry)
        registry.export(tmp_path / "all.jsonl")
    (tmp_path / "bad.jsonl").write_text(change((tmp_path / "all.jsonl").read_text()))
    with other(tmp_path, "empty.db") as empty:
        with pytest.raises(RegistryError, match=says) as caught:
            empty.load(tmp_path / "bad.jsonl")
        assert "\n" not in str(caught.value)
        assert list(empty.records()) == []
    assert all_ids(tmp_path / "empty.db") == set()


def test_places_that_cannot_be_written_or_read_are_one_line(tmp_path: Path) -> None:
    with other(tmp_path) as registry:
        for write in (registry.export, registry.back_up):
            for place, says in ((tmp_path / "no" / "all", "does not exist"), (tmp_path, "is a directory")):
                with pytest.raises(FileError, match=says):
                    write(place)
        with pytest.raises(FileError, match="does not exist"):
            registry.load(tmp_path / "none.jsonl")
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} == {"other.db"}


def test_a_back_up_is_a_registry_of_its_own_in_one_file(tmp_path: Path) -> None:
    with other(tmp_path) as registry:
        ids = filled(registry)
        (tmp_path / "copies").mkdir()
        registry.back_up(tmp_path / "copies" / "copy.db")
        later = registry.allot()
        assert [path.name for path in (tmp_path / "copies").iterdir()] == ["copy.db"]
        with Registry(f"sqlite:///{tmp_path / 'copies' / 'copy.db'}", create=False) as copy:
            assert list(copy.records()) == list(registry.records())
    assert all_ids(tmp_path / "copies" / "copy.db") == set(ids)
    assert later not in ids


@pytest.mark.xdist_group("postgresql")
@pytest.mark.slow
def test_a_server_is_backed_up_by_its_own_tools(server: Server, tmp_path: Path) -> None:
    with (
        Registry(server.create("large")) as registry,
        pytest.raises(RegistryError, match="back it up with pg_dump, or export it"),
    ):
        registry.back_up(tmp_path / "copy.db")
