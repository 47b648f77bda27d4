"""Steps from every version to the present one: taken once, all of them or none, and what is there stays."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from ideaw import Registry, RegistryError
from ideaw.provenance.database import Database
from ideaw.provenance.migrations import STEPS, migrate, schema_version
from ideaw.provenance.schema import TABLES
from tests.provenance.conftest import plain_record, record_of

GOLDEN = sorted(Path(__file__).parent.parent.joinpath("golden", "registry").glob("*.sql"))
"""What each version wrote, as SQL: two records, and an id without one."""

NEXT = ("ALTER TABLE ideaw_records ADD COLUMN note TEXT", "CREATE TABLE ideaw_notes (id {id} NOT NULL, extra {json})")
"""A step that a later version might take."""


def version_of(url: str) -> int:
    with Database(url).reading() as connection:
        return schema_version(connection)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_registry_of_every_version_opens_with_all_that_it_holds(path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as database:
        database.executescript(path.read_text())
    with Registry(f"sqlite:///{tmp_path / 'old.db'}", create=False) as registry:
        assert list(registry.records()) == [record_of(0x00A1B2C3), plain_record(0xFFFEFDFC)]
        assert registry.get(0x12345678) is None
        registry.record(record_of(0x12345678))  # it was allotted
        assert registry.get(0x12345678) == record_of(0x12345678)


def test_there_is_a_golden_registry_of_every_version() -> None:
    assert [path.stem for path in GOLDEN] == [str(version + 1) for version in range(len(STEPS))]


def test_the_steps_make_the_tables_that_queries_name(url: str) -> None:
    with Registry(url):
        pass
    with Database(url).reading() as connection:
        made = inspect(connection)
        for name, table in TABLES.tables.items():
            columns = {column["name"]: column["nullable"] for column in made.get_columns(name)}
            assert columns == {column.name: column.nullable for column in table.columns}
            assert made.get_pk_constraint(name)["constrained_columns"] == [column.name for column in table.primary_key]
            indices = {index["name"] for index in made.get_indexes(name)}
            assert indices == {index.name for index in table.indexes}


def test_a_later_step_is_taken_once_and_keeps_the_records(url: str) -> None:
    with Registry(url) as registry:
        number = registry.allot()
        registry.record(record_of(number))
        for _ in range(2):
            with Database(url).writing() as connection:
                migrate(connection, [*STEPS, NEXT])
        assert registry.get(number) == record_of(number)
    with Database(url).reading() as connection:
        assert schema_version(connection) == len(STEPS) + 1
        assert "note" in {column["name"] for column in inspect(connection).get_columns("ideaw_records")}


def test_a_step_that_fails_leaves_the_registry_as_it_was(url: str) -> None:
    with Registry(url) as registry:
        registry.allot()
    with pytest.raises(RegistryError, match="cannot be used"), Database(url).writing() as connection:
        migrate(connection, [*STEPS, (*NEXT, "CREATE TABLE ideaw_ids (id INTEGER)")])
    with Database(url).reading() as connection:
        assert schema_version(connection) == len(STEPS)
        assert "note" not in {column["name"] for column in inspect(connection).get_columns("ideaw_records")}
        assert "ideaw_notes" not in inspect(connection).get_table_names()


def test_a_registry_of_a_later_version_is_refused_and_stays(url: str) -> None:
    with Registry(url):
        pass
    with Database(url).writing() as connection:
        migrate(connection, [*STEPS, NEXT])
    with pytest.raises(RegistryError, match="has schema version 2, and this version of ideaw knows 1; upgrade ideaw"):
        Registry(url)
    assert version_of(url) == 2


def test_other_tables_of_the_same_database_stay(url: str) -> None:
    with Database(url).writing() as connection:
        connection.execute(text("CREATE TABLE records (title TEXT)"))
        connection.execute(text("INSERT INTO records VALUES ('theirs')"))
    with Registry(url) as registry:
        registry.record(record_of(registry.allot()))
    with Database(url).reading() as connection:
        assert connection.execute(text("SELECT title FROM records")).scalars().all() == ["theirs"]
