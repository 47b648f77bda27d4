"""The parts of a job: one Parquet file for each shard, written whole when all its files are done.

Resuming is a property of these files and of nothing else: a shard whose part is there is done, any other is done from
its beginning, whoever did how much of it before. So every file is in the parts exactly once, after any kill.
"""

import io
import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ideaw.catalogue.storage import Storage

PART = "part-{:05d}.parquet"
"""Name of a part, by the number of its shard."""

HEARD = "heard-{:05d}.parquet"
"""Name of what the network heard in the files of a shard."""

ERRORS_KEY = b"ideaw.errors"
"""Metadata of a part: how many of its rows are errors."""


def write_part(folder: Storage, shard: int, table: pa.Table) -> None:
    """Write the part of a shard, whole or not at all."""
    errors = pc.sum(pc.equal(table["status"], "error")).as_py() or 0
    metadata = {**(table.schema.metadata or {}), ERRORS_KEY: str(errors)}
    folder.write(PART.format(shard), _parquet(table.replace_schema_metadata(metadata)))


def write_heard(folder: Storage, shard: int, table: pa.Table) -> None:
    """Write what the network heard in the files of a shard."""
    folder.write(HEARD.format(shard), _parquet(table))


def read_part(folder: Storage, shard: int, columns: list[str] | None = None) -> pa.Table:
    """The rows of a shard that is done."""
    return pq.read_table(io.BytesIO(folder.read(PART.format(shard))), columns=columns)


def read_heard(folder: Storage, shard: int) -> pa.Table:
    """What the network heard in the files of a shard; raises `FileError` if nothing was kept."""
    return pq.read_table(io.BytesIO(folder.read(HEARD.format(shard))))


def done_shards(folder: Storage) -> set[int]:
    """The shards whose parts are there."""
    names = (re.fullmatch(r"part-(\d+)\.parquet", name) for name in folder.names("part-"))
    return {int(name[1]) for name in names if name}


def count_errors(folder: Storage, shard: int) -> int:
    """How many rows of a part are errors."""
    metadata = pq.read_schema(io.BytesIO(folder.read(PART.format(shard)))).metadata or {}
    return int(metadata.get(ERRORS_KEY, b"0"))


def read_parts(folder: Storage, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The rows of every part, shard by shard."""
    for shard in sorted(done_shards(folder)):
        yield read_part(folder, shard, columns)


def _parquet(table: pa.Table) -> bytes:
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd")
    return content.getvalue()
