"""Steps that lead a registry of any earlier version to the present one, each taken once, all in one transaction.

A numbered list and not Alembic: the statements are these few, they run inside of the library when a registry is opened,
and a folder of scripts with settings of its own would be one more thing to install right. A step is never changed once
it was released; what a later version needs is a step behind it.
"""

from collections.abc import Sequence
from typing import TypeAlias

from sqlalchemy import Connection, insert, inspect, select, text, update

from ideaw.errors import RegistryError
from ideaw.provenance.schema import VERSIONS

Step: TypeAlias = Sequence[str]
"""Statements of SQL, with the names of `_TYPES` in braces."""

STEPS: tuple[Step, ...] = (
    (
        "CREATE TABLE ideaw_ids (id {id} NOT NULL PRIMARY KEY)",
        """CREATE TABLE ideaw_records (
            id {id} NOT NULL PRIMARY KEY REFERENCES ideaw_ids (id),
            created {time} NOT NULL,
            message TEXT NOT NULL,
            key_fingerprint TEXT NOT NULL,
            wire_format INTEGER NOT NULL,
            model TEXT NOT NULL,
            duration_seconds {double} NOT NULL,
            sha256 TEXT NOT NULL,
            fingerprint {bytes} NOT NULL,
            manifest {bytes},
            data {json} NOT NULL
        )""",
        "CREATE INDEX ideaw_records_sha256 ON ideaw_records (sha256)",
    ),
)
"""Step n leads from version n to n + 1."""

_TYPES = {
    "sqlite": {"id": "INTEGER", "time": "DATETIME", "double": "DOUBLE", "bytes": "BLOB", "json": "JSON"},
    "postgresql": {
        "id": "BIGINT",
        "time": "TIMESTAMP WITH TIME ZONE",
        "double": "DOUBLE PRECISION",
        "bytes": "BYTEA",
        "json": "JSON",
    },
}

_LOCK = 0x1DEA3
"""Number of the lock that PostgreSQL gives to one migration at a time."""


def schema_version(connection: Connection) -> int:
    """How many steps a database has taken; 0 where it holds no registry."""
    if not inspect(connection).has_table(VERSIONS.name):
        return 0
    return int(connection.execute(select(VERSIONS.c.version)).scalar_one())


def check_version(version: int, steps: Sequence[Step] = STEPS) -> None:
    """Raise `RegistryError` for a registry that a later version of the package made."""
    if version > len(steps):
        raise RegistryError(
            f"the registry has schema version {version}, and this version of ideaw knows {len(steps)}; upgrade ideaw"
        )


def migrate(connection: Connection, steps: Sequence[Step] = STEPS) -> None:
    """Take the steps that a database lacks, within a transaction that the caller has begun for writing.

    Raises:
        RegistryError: a later version of the package made it.
    """
    dialect = connection.dialect.name
    if dialect == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    version = schema_version(connection)
    check_version(version, steps)
    if version == 0:
        connection.execute(text("CREATE TABLE ideaw_schema (version INTEGER NOT NULL)"))
        connection.execute(insert(VERSIONS).values(version=0))
    for statement in (statement for step in steps[version:] for statement in step):
        connection.execute(text(statement.format(**_TYPES[dialect])))
    connection.execute(update(VERSIONS).values(version=len(steps)))
