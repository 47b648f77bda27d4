"""The database of a registry: SQLite in a file, or PostgreSQL; what goes wrong there is one line.

A transaction of SQLite that will write takes its lock when it begins, so that two never wait for each other, and is on
the disk when it ends (`synchronous=FULL`): an id that was handed out survives any kill and a loss of power.
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from ideaw.errors import MissingExtraError, RegistryError

LOCK_SECONDS = 60.0
"""How long a transaction waits for those of others; `?timeout=SECONDS` in the URL of a file says otherwise."""

SERVER_SECONDS = 10
"""How long a server may take to answer."""

_DRIVERS = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}

_WRITES = "ideaw_writes"
"""Option of a connection whose transactions write."""

_KINDS = "give sqlite:///FILE or postgresql://USER@HOST/DATABASE"


class Database:
    """Connections to one database, in transactions that read or write.

    Args:
        url: `sqlite:///FILE`, or `postgresql://USER:PASSWORD@HOST/DATABASE`.

    Raises:
        RegistryError: it is neither.
        MissingExtraError: the driver of PostgreSQL is not installed.
    """

    def __init__(self, url: str) -> None:
        parsed = _parse(url)
        self.name = parsed.render_as_string(hide_password=True)
        """The URL, without its password."""
        self.file = Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None
        """Where SQLite keeps it; None for a server."""
        driver = parsed.set(drivername=_DRIVERS[parsed.drivername])
        try:
            self._engine = _sqlite_engine(driver) if self.file else _postgresql_engine(driver)
        except ModuleNotFoundError as problem:
            raise MissingExtraError(
                f'{self.name} needs {problem.name}; install it with: pip install "ideaw[postgresql]"'
            ) from problem
        self._writer = self._engine.execution_options(**{_WRITES: True})

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction that takes place as a whole when the block succeeds, and else not at all.

        Raises:
            RegistryError: the database is locked, down or no registry.
        """
        with self._errors(), self._writer.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction that sees the database as it is when it begins; raises what `writing` raises."""
        with self._errors(), self._engine.connect() as connection:
            if self.file is None:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    def copy_to(self, target: Path) -> None:
        """Copy a database of SQLite as it is at one moment, while others write; raises what `writing` raises."""
        with self._errors(), self._engine.connect() as connection, contextlib.closing(sqlite3.connect(target)) as copy:
            source = connection.connection.driver_connection
            assert isinstance(source, sqlite3.Connection)
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, whose name may change

    def close(self) -> None:
        """End all connections."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:  # the caller knows what it means
            raise
        except DBAPIError as problem:
            raise RegistryError(_reason(self.name, str(problem.orig))) from problem
        except (SQLAlchemyError, sqlite3.Error) as problem:
            raise RegistryError(_reason(self.name, str(problem))) from problem


def _parse(url: str) -> URL:
    """The parts of a URL; raise `RegistryError` for what is none of a registry."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise RegistryError(f'"{url}" is not the URL of a registry; {_KINDS}') from None
    if parsed.drivername not in _DRIVERS:
        raise RegistryError(f'"{parsed.drivername}" is no kind of registry; {_KINDS}')
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise RegistryError("a registry in memory would lose its ids; give sqlite:///FILE")
    return parsed


def _sqlite_engine(url: URL) -> Engine:
    seconds = LOCK_SECONDS
    with contextlib.suppress(TypeError, ValueError):
        seconds = float(str(url.query.get("timeout", LOCK_SECONDS)))
    engine = create_engine(url.difference_update_query(["timeout"]), connect_args={"timeout": seconds})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver would begin transactions by itself, and not around CREATE
        for pragma in ("foreign_keys=ON", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}")
        _log_ahead(connection, seconds)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _log_ahead(connection: sqlite3.Connection, seconds: float) -> None:
    """Let readers and one writer work at once (WAL); waits for others that ask for it, as SQLite itself does not."""
    until = time.monotonic() + seconds
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _postgresql_engine(url: URL) -> Engine:
    limits = {} if "connect_timeout" in url.query else {"connect_timeout": SERVER_SECONDS}
    engine = create_engine(url, connect_args=limits, pool_pre_ping=True)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.autocommit = True
        connection.execute(f"SET lock_timeout = '{LOCK_SECONDS:g}s'")
        connection.autocommit = False

    return engine


def _reason(name: str, said: str) -> str:
    """One line about what a database said."""
    line = next((line.strip() for line in said.splitlines() if line.strip()), "no reason was given")
    if "database is locked" in line or "lock timeout" in line:
        return f"the registry {name} is locked by another process; try again when that has ended"
    if "unable to open" in line:
        return f"the registry {name} cannot be opened; is there such a folder, and may you write there?"
    return f"the registry {name} cannot be used: {line}"
