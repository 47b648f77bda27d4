"""The tables of a registry as queries name them; `migrations.py` makes them.

One schema for SQLite and PostgreSQL. Names begin with `ideaw_`, so that a team's database may hold other tables too.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.types import TypeDecorator


class UtcTime(TypeDecorator[datetime]):
    """A time that goes in with any zone and comes back in UTC, also from SQLite, which keeps no zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


TABLES = MetaData()

VERSIONS = Table("ideaw_schema", TABLES, Column("version", Integer, nullable=False))
"""One row: how many steps of `migrations.py` were taken."""

IDS = Table("ideaw_ids", TABLES, Column("id", BigInteger, primary_key=True, autoincrement=False))
"""Every id that was ever allotted, recorded or not."""

RECORDS = Table(
    "ideaw_records",
    TABLES,
    Column("id", BigInteger, ForeignKey("ideaw_ids.id"), primary_key=True, autoincrement=False),
    Column("created", UtcTime, nullable=False),
    Column("message", Text, nullable=False),
    Column("key_fingerprint", Text, nullable=False),
    Column("wire_format", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("duration_seconds", Double, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("manifest", LargeBinary, nullable=True),
    Column("data", JSON, nullable=False),
    Index("ideaw_records_sha256", "sha256"),
)
"""The fields of a `Record`, by their names."""
