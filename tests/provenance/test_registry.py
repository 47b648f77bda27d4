"""The registry: ids that are never given twice, records that are kept whole, on SQLite and on PostgreSQL."""

import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

import ideaw
from ideaw import Record, Registry, RegistryError
from ideaw.provenance import registry as registry_module
from ideaw.provenance.records import id_message, message_id, read_id, written_id, written_message
from tests.provenance.conftest import Server, plain_record, record_of


def lines_of(process: subprocess.Popen[str], least: int) -> list[list[str]]:
    """The first whole lines that a process prints."""
    assert process.stdout is not None
    return [process.stdout.readline().split() for _ in range(least)]


def start_writer(url: str, threads: int, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.provenance.writer", url, str(threads), str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_a_record_comes_back_as_it_was(registry: Registry) -> None:
    for make in (record_of, plain_record):
        record = make(registry.allot())
        registry.record(record)
        assert registry.get(record.id) == record
        assert registry.find_sha256(record.sha256.upper()) == [record]
    assert len(list(registry.records())) == 2


def test_times_come_back_in_utc_whatever_zone_they_had(registry: Registry) -> None:
    number, zone = registry.allot(), timezone(timedelta(hours=-5))
    registry.record(replace(record_of(number), created=datetime(2026, 1, 31, 22, 0, tzinfo=zone)))
    found = registry.get(number)
    assert found is not None
    assert (found.created, found.created.tzinfo) == (datetime(2026, 2, 1, 3, 0, tzinfo=UTC), UTC)


def test_an_id_that_was_allotted_and_not_recorded_has_no_record(registry: Registry) -> None:
    assert registry.get(registry.allot()) is None


def test_an_id_that_has_a_record_is_refused_and_the_record_stays(registry: Registry) -> None:
    number = registry.allot()
    registry.record(record_of(number))
    with pytest.raises(RegistryError, match="has a record already"):
        registry.record(plain_record(number))
    assert registry.get(number) == record_of(number)


def test_an_id_of_another_registry_is_refused(registry: Registry) -> None:
    number = registry.allot() ^ 1
    with pytest.raises(RegistryError, match=f"{written_id(number)} was not allotted by the registry"):
        registry.record(record_of(number))
    assert registry.get(number) is None


def test_an_id_that_was_drawn_before_is_drawn_again(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    draws: Iterator[int] = iter([7, 7, 7, 4_294_967_295, 7, 0])
    monkeypatch.setattr(registry_module, "fresh_id", lambda: next(draws))
    assert [registry.allot() for _ in range(3)] == [7, 4_294_967_295, 0]
    registry.record(record_of(4_294_967_295))
    assert registry.get(4_294_967_295) == record_of(4_294_967_295)


def test_a_registry_without_free_ids_says_so(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "fresh_id", lambda: 7)
    registry.allot()
    with pytest.raises(RegistryError, match="nearly all of its ids"):
        registry.allot()


@pytest.mark.slow
def test_fifty_writers_in_two_processes_never_get_an_id_twice(url: str) -> None:
    """They also begin the registry at the same time."""
    processes = [start_writer(url, 25, 4) for _ in range(2)]
    said = [line.split() for process in processes for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in processes] == [0] * 2
    ids = {word: [int(number) for what, number in said if what == word] for word in ("allotted", "recorded")}
    assert len(set(ids["allotted"])) == len(ids["allotted"]) == 200
    with Registry(url) as registry:
        assert [record.id for record in registry.records()] == sorted(ids["recorded"])
        assert all(registry.get(number) == record_of(number) for number in ids["recorded"])


@pytest.mark.slow
def test_no_id_is_lost_or_given_twice_when_writers_are_killed(tmp_path: Path) -> None:
    url, told = f"sqlite:///{tmp_path / 'ideaw.db'}", []
    for _ in range(2):
        processes = [start_writer(url, 4, 100_000) for _ in range(2)]
        for process in processes:
            told += lines_of(process, 20)
        for process in processes:
            process.kill()
            told += [line.split() for line in process.communicate()[0].splitlines()]
    ids = [int(number) for what, number in told if what == "allotted"]
    recorded = {int(number) for what, number in told if what == "recorded"}
    with Registry(url, create=False) as registry:
        ids += [registry.allot() for _ in range(50)]
        kept = {record.id: record for record in registry.records()}
    assert len(set(ids)) == len(ids)
    assert recorded <= set(kept)
    assert all(record == record_of(number) for number, record in kept.items())
    with closing(sqlite3.connect(tmp_path / "ideaw.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        everything = {number for (number,) in database.execute("SELECT id FROM ideaw_ids")}
    assert set(ids) <= everything


def test_records_are_gone_through_in_pages_from_any_id(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "PAGE_RECORDS", 2)
    ids = sorted(registry.allot() for _ in range(5))
    for number in ids:
        registry.record(record_of(number))
    assert [record.id for record in registry.records()] == ids
    assert [record.id for record in registry.records(after=ids[1])] == ids[2:]
    assert list(registry.records(after=ids[-1])) == []


def test_going_through_the_records_holds_few_of_them_in_memory(tmp_path: Path) -> None:
    with Registry(f"sqlite:///{tmp_path / 'ideaw.db'}") as registry:
        for _ in range(100):
            registry.record(replace(record_of(registry.allot()), manifest=bytes(500_000)))
        tracemalloc.start()
        assert sum(1 for _ in registry.records()) == 100
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 10e6


def test_a_mark_holds_the_four_bytes_of_an_id() -> None:
    assert (id_message(0xA1B2C3), written_id(0xA1B2C3), read_id("00A1b2c3")) == (
        b"\0\xa1\xb2\xc3",
        "00a1b2c3",
        0xA1B2C3,
    )
    assert message_id(b"\0\xa1\xb2\xc3") == 0xA1B2C3
    assert [message_id(other) for other in (None, "abcd", b"abc", (0, 1))] == [None] * 4
    kinds = [written_message(content) for content in ("abcd", b"\0\xff", (0, 1, 1))]
    assert kinds == ["text:abcd", "hex:00ff", "bits:011"]


def test_an_id_fits_into_one_second_of_a_model_and_comes_back(speech: object) -> None:
    marker = ideaw.load()
    marked = marker.embed(speech, 16_000, id_message(0x00A1B2C3))
    assert message_id(marker.detect(marked[:32_000], 16_000).message) == 0x00A1B2C3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": 1 << 32}, "no id"),
        ({"id": -1}, "no id"),
        ({"created": datetime(2026, 1, 1)}, "no time zone"),
        ({"sha256": "abc"}, "no SHA-256"),
        ({"data": {"a": float("nan")}}, "not JSON"),
        ({"data": {"a": b"bytes"}}, "not JSON"),
    ],
)
def test_a_record_of_the_wrong_form_is_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(RegistryError, match=says):
        replace(record_of(1), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "a1b2c3", "00a1b2c3d4", "0x00a1b2", "zzzzzzzz"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(RegistryError, match="is no id"):
        read_id(text)


def test_a_registry_that_is_locked_is_one_line(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ideaw.db'}?timeout=0.05"
    with Registry(url) as registry, closing(sqlite3.connect(tmp_path / "ideaw.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert list(registry.records()) == []  # who reads waits for nobody
        with pytest.raises(RegistryError, match="is locked by another process") as caught:
            registry.allot()
        assert "\n" not in str(caught.value)
        other.execute("ROLLBACK")
        registry.allot()


def test_a_server_that_is_down_is_one_line_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="cannot be used: connection") as caught:
        Registry(f"postgresql://team:secret@/marks?host={tmp_path}")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.xdist_group("postgresql")
@pytest.mark.slow
def test_a_server_that_comes_back_is_used_again(server: Server) -> None:
    with Registry(server.create("restarted")) as registry:
        first = registry.allot()
        server.stop()
        with pytest.raises(RegistryError, match="cannot be used"):
            registry.allot()
        server.start()
        registry.record(record_of(first))
        assert registry.get(first) == record_of(first)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ideaw.db", "is not the URL of a registry"),
        ("mysql://somewhere/marks", '"mysql" is no kind of registry'),
        ("sqlite://", "in memory would lose its ids"),
        ("sqlite:///:memory:", "in memory would lose its ids"),
        ("sqlite:////no/such/folder/ideaw.db", "cannot be opened"),
        ("sqlite:////etc/hostname/ideaw.db", "cannot be opened"),
        ("sqlite:////", "cannot be opened"),
    ],
)
def test_what_is_no_registry_is_one_line(url: str, says: str) -> None:
    with pytest.raises(RegistryError, match=says) as caught:
        Registry(url)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database_is_one_line_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes, and no database at all\n" * 40)
    before = path.read_bytes()
    with pytest.raises(RegistryError, match="not a database"):
        Registry(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_registry_that_must_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="there is no registry"):
        Registry(f"sqlite:///{tmp_path / 'typo.db'}", create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_importing_the_package_imports_no_database() -> None:
    code = (
        "import sys, ideaw; assert 'sqlalchemy' not in sys.modules; ideaw.Registry; assert 'sqlalchemy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_without_the_extra_one_line_names_it() -> None:
    code = """
import sys
sys.modules["sqlalchemy"] = None
import ideaw
try:
    ideaw.Registry
except ideaw.MissingExtraError as problem:
    print(problem)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == 'ideaw.Registry needs sqlalchemy; install it with: pip install "ideaw[provenance]"\n'


def test_a_record_is_the_same_class_from_both_places() -> None:
    assert Record is ideaw.Record
