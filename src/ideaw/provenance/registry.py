"""The registry: it allots ids, and keeps a record of each file that was marked with one.

An id is taken in a transaction of its own before it is used, so it is never given twice, whatever happens to the file.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Row, delete, insert, select
from sqlalchemy.exc import IntegrityError

from ideaw.audio import atomic
from ideaw.errors import RegistryError
from ideaw.provenance import interchange
from ideaw.provenance.database import Database
from ideaw.provenance.migrations import STEPS, check_version, migrate, schema_version
from ideaw.provenance.records import Record, check_id, fresh_id, written_id
from ideaw.provenance.schema import IDS, RECORDS

MAX_DRAWS = 64
"""Random ids that are tried; with half of all ids taken, the chance that every one is taken is 2⁻⁶⁴."""

PAGE_RECORDS = 8
"""Records that are held in memory at once; those of long files have fingerprints and manifests of a megabyte."""


class Registry:
    """A registry of marked files in a database, shared by any number of processes.

    Args:
        url: `sqlite:///FILE` for a file on this machine, or `postgresql://USER:PASSWORD@HOST/DATABASE` for a server
            that a team shares.
        create: whether a registry is made where there is none yet.

    Raises:
        RegistryError: it is locked, down, of a later version, or none.
        MissingExtraError: the driver of the database is not installed.
    """

    def __init__(self, url: str = "sqlite:///ideaw.db", *, create: bool = True) -> None:
        self._database = Database(url)
        file = self._database.file
        if not create and file is not None and not file.exists():
            raise RegistryError(f"there is no registry {self._database.name}; was it called otherwise?")
        with self._database.reading() as connection:
            version = schema_version(connection)
        if version == 0 and not create:
            raise RegistryError(f"there is no registry in {self._database.name}; was it called otherwise?")
        check_version(version)
        if version < len(STEPS):
            with self._database.writing() as connection:
                migrate(connection)

    @property
    def name(self) -> str:
        """The URL, without its password."""
        return self._database.name

    def allot(self) -> int:
        """A new id, at once and for ever, even if nothing is ever recorded for it.

        Returns:
            32 random bits that this registry has never given out.

        Raises:
            RegistryError: the registry cannot be used.
        """
        for _ in range(MAX_DRAWS):
            number = fresh_id()
            try:
                with self._database.writing() as connection:
                    connection.execute(insert(IDS).values(id=number))
            except IntegrityError:  # it was taken before
                continue
            return number
        raise RegistryError(f"the registry {self.name} has given out nearly all of its ids; begin a new one")

    def record(self, record: Record) -> None:
        """Keep a record, all of it or nothing.

        Raises:
            RegistryError: its id was not allotted by this registry or has a record already; the registry cannot be
                used.
        """
        with self._database.writing() as connection:
            if not _is_allotted(connection, record.id):
                raise RegistryError(f"{written_id(record.id)} was not allotted by the registry {self.name}")
            try:
                insert_record(connection, record)
            except IntegrityError as problem:
                raise RegistryError(f"{written_id(record.id)} has a record already; allot a new id") from problem

    def withdraw(self, id: int) -> None:
        """Take back the record of a file that was not handed over in the end; its id is never given out again.

        Raises:
            RegistryError: `id` is not of 32 bits; the registry cannot be used.
        """
        with self._database.writing() as connection:
            connection.execute(delete(RECORDS).where(RECORDS.c.id == check_id(id)))

    def get(self, id: int) -> Record | None:
        """The record of an id; None if it has none.

        Raises:
            RegistryError: `id` is not of 32 bits; the registry cannot be used.
        """
        with self._database.reading() as connection:
            return find_record(connection, check_id(id))

    def find_sha256(self, sha256: str) -> list[Record]:
        """The records of all files of this SHA-256, in 64 hexadecimal digits."""
        with self._database.reading() as connection:
            rows = connection.execute(select(RECORDS).where(RECORDS.c.sha256 == sha256.lower()).order_by(RECORDS.c.id))
            return [_record(row) for row in rows]

    def records(self, after: int | None = None) -> Iterator[Record]:
        """All records in the order of their ids, in bounded memory.

        Args:
            after: the id behind which to go on (None: from the first).

        Raises:
            RegistryError: the registry cannot be used.
        """
        while True:
            with self._database.reading() as connection:
                page = read_page(connection, after)
            yield from page
            if not page:
                return
            after = page[-1].id

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write everything as JSON lines, as it is at one moment, to a file that appears whole or not at all.

        Returns:
            Number of records.

        Raises:
            FileError: nothing can be written at `path`.
            RegistryError: the registry cannot be used.
        """
        with (
            self._database.reading() as connection,
            atomic.replace_on_success(Path(path)) as temporary,
            atomic.file_errors(Path(path)),
        ):
            return interchange.write_lines(temporary, _all_records(connection), _unrecorded(connection))

    def load(self, path: str | os.PathLike[str]) -> int:
        """Take in what `export` wrote, all of it or nothing; what is here already stays.

        Returns:
            Number of records that were new.

        Raises:
            FileError: the file cannot be read.
            RegistryError: it is no export, or an id has another record here; the registry cannot be used.
        """
        new = 0
        with self._database.writing() as connection:
            for entry in interchange.read_lines(Path(path)):
                number = entry.id if isinstance(entry, Record) else entry
                if not _is_allotted(connection, number):
                    connection.execute(insert(IDS).values(id=number))
                if isinstance(entry, Record):
                    here = find_record(connection, number)
                    if here is None:
                        insert_record(connection, entry)
                        new += 1
                    elif here != entry:
                        raise RegistryError(f"{written_id(number)} has another record here; nothing was taken in")
        return new

    def back_up(self, path: str | os.PathLike[str]) -> None:
        """Copy the file of SQLite as it is at one moment, while others may write.

        Raises:
            FileError: nothing can be written at `path`.
            RegistryError: the registry is on a server, whose own tools make back-ups; or cannot be used.
        """
        if self._database.file is None:
            raise RegistryError(f"{self.name} is on a server; back it up with pg_dump, or export it")
        target = Path(path)
        atomic.check_writable(target)
        with atomic.file_errors(target), tempfile.TemporaryDirectory(prefix=".ideaw-", dir=target.parent) as folder:
            copy = Path(folder) / target.name
            self._database.copy_to(copy)
            copy.replace(target)

    def close(self) -> None:
        """End the connections to the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def insert_record(connection: Connection, record: Record) -> None:
    """Insert a record within a transaction."""
    connection.execute(insert(RECORDS).values({column.name: getattr(record, column.name) for column in RECORDS.c}))


def find_record(connection: Connection, number: int) -> Record | None:
    """The record of an id; None if it has none."""
    row = connection.execute(select(RECORDS).where(RECORDS.c.id == number)).one_or_none()
    return None if row is None else _record(row)


def read_page(connection: Connection, after: int | None) -> list[Record]:
    """The next records behind an id, PAGE_RECORDS at most."""
    query = select(RECORDS) if after is None else select(RECORDS).where(RECORDS.c.id > after)
    return [_record(row) for row in connection.execute(query.order_by(RECORDS.c.id).limit(PAGE_RECORDS))]


def _all_records(connection: Connection) -> Iterator[Record]:
    page = read_page(connection, None)
    while page:
        yield from page
        page = read_page(connection, page[-1].id)


def _unrecorded(connection: Connection) -> Iterator[int]:
    """Ids that were allotted and have no record."""
    query = select(IDS.c.id).outerjoin(RECORDS, RECORDS.c.id == IDS.c.id).where(RECORDS.c.id.is_(None))
    yield from connection.execution_options(yield_per=1000).execute(query.order_by(IDS.c.id)).scalars()


def _is_allotted(connection: Connection, number: int) -> bool:
    return connection.execute(select(IDS.c.id).where(IDS.c.id == number)).first() is not None


def _record(row: Row[Any]) -> Record:
    return Record(**row._mapping)
