"""The frozen list of files of a job, in shards: what is not in it is not touched, what is in it gets one row.

`manifest.parquet` has a row group for each shard, so a worker reads its shard and nothing else.
"""

import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ideaw.audio.formats import EXTENSIONS
from ideaw.catalogue.storage import Found, Storage, find_files, patiently, read_file
from ideaw.errors import FileError

MANIFEST = "manifest.parquet"
"""Name of the frozen list in the folder of a job."""

LIST_EXTENSIONS = (".txt", ".csv", ".parquet")
"""How names of lists of files end that somebody else made."""

FURTHER_AUDIO_EXTENSIONS = (".aac", ".mka", ".mkv", ".webm", ".wma", ".m4b", ".snd", ".caf")
"""Extensions that are read and not written."""

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("etag", pa.string()),
        ("message", pa.string()),
    ]
)


@dataclass(frozen=True)
class Entry:
    """A file of the manifest."""

    index: int
    id: str
    path: str
    size: int | None
    etag: str | None
    message: str | None
    """What it is to be marked with."""


@dataclass
class Manifest:
    """A frozen list, opened in the folder of a job."""

    folder: Storage

    def __post_init__(self) -> None:
        place = f"{self.folder.root}/{MANIFEST}"
        self._name = self.folder.place(MANIFEST)
        self._file = patiently(lambda: pq.ParquetFile(self.folder.fs.open(place)), self._name, "read")

    @property
    def num_files(self) -> int:
        """How many files it lists."""
        return int(self._file.metadata.num_rows)

    @property
    def num_shards(self) -> int:
        """In how many shards."""
        return int(self._file.metadata.num_row_groups)

    def shard_files(self, shard: int) -> int:
        """How many files a shard has."""
        return int(self._file.metadata.row_group(shard).num_rows)

    def entries(self, shard: int) -> list[Entry]:
        """The files of a shard, in order."""
        first = shard * self.shard_files(0)  # only the last one may have fewer
        rows = patiently(lambda: self._file.read_row_group(shard), self._name, "read").to_pylist()
        return [Entry(first + number, **row) for number, row in enumerate(rows)]


def list_source(source: str, out: str) -> pa.Table:
    """The files that a source stands for: a folder, a pattern, a file, or a list (text, CSV or Parquet with `path`).

    Args:
        source: path or URL.
        out: the folder of the job, of which nothing is listed.

    Returns:
        id, path, size, etag; in order of their paths, lists in their own order.

    Raises:
        FileError: there is no such source, it holds no audio file, or a list names none or one twice.
    """
    table = _read_list(source) if source.lower().endswith(LIST_EXTENSIONS) else _list_folder(source, out)
    for column in ("path", "id"):
        _check_distinct(source, table[column], column)
    return table


def freeze(table: pa.Table, folder: Storage, shard_size: int) -> None:
    """Write the manifest of a job."""
    content = io.BytesIO()
    if "message" not in table.column_names:
        table = table.append_column("message", pa.nulls(len(table), pa.string()))
    pq.write_table(table.select(SCHEMA.names), content, row_group_size=shard_size, compression="zstd")
    folder.write(MANIFEST, content.getvalue())


def read_manifest(folder: Storage) -> pa.Table:
    """The whole manifest of a job."""
    return pq.read_table(io.BytesIO(folder.read(MANIFEST)))


def with_messages(table: pa.Table, source: str) -> pa.Table:
    """The files with the message of each, from a CSV or Parquet table with `path` or `id`, and `message`.

    Raises:
        FileError: the table cannot be read or lacks a column, names something twice, or leaves a file without one.
    """
    given = _read_table(source)
    key = next((column for column in ("id", "path") if column in given.column_names), None)
    if key is None or "message" not in given.column_names:
        raise FileError(f"{source} is no table of messages; give it the columns id or path, and message")
    _check_distinct(source, given[key], key)
    names = given[key].to_pylist()
    messages = dict(zip(map(_absolute, names) if key == "path" else names, given["message"].to_pylist(), strict=True))
    wanted = table[key].to_pylist()
    missing = [name for name in wanted if not messages.get(name)]
    if missing:
        raise FileError(f"{source} has no message for {_and_others(missing)}")
    return table.append_column("message", pa.array([str(messages[name]) for name in wanted], pa.string()))


def is_audio(path: str) -> bool:
    """Whether the name of a file says that it is audio."""
    return path.lower().endswith((*EXTENSIONS, *FURTHER_AUDIO_EXTENSIONS))


def _list_folder(source: str, out: str) -> pa.Table:
    below = Storage(out).url.rstrip("/") + "/"
    listed = [found for found in find_files(source) if not found.path.startswith(below)]
    audio = [found for found in listed if is_audio(found.path) or len(listed) == 1]
    if not audio:
        others = f"; none of its {len(listed)} files is named like audio" if listed else ""
        raise FileError(f"{source} holds no audio files{others}")
    above = Storage(source).url.rstrip("/") + "/"
    inside = all(found.path.startswith(above) for found in audio)
    root = above if inside else _common_folder(found.path for found in audio)
    return _as_table((found.path[len(root) :], found) for found in audio)


def _read_list(source: str) -> pa.Table:
    """A list that somebody made, as `_list_folder` gives one; paths are relative to the current folder."""
    if source.lower().endswith(".txt"):
        lines = read_file(source).decode("utf-8", "replace").splitlines()
        given = pa.table({"path": [line.strip() for line in lines if line.strip()]})
    else:
        given = _read_table(source)
    if "path" not in given.column_names:
        raise FileError(f"{source} has no column path; its columns are {', '.join(given.column_names)}")
    raw = given["path"].to_pylist()
    if not raw:
        raise FileError(f"{source} names no files")
    if blank := sum(not str(path or "").strip() for path in raw):
        raise FileError(f"{source} has {blank} rows without a path")
    paths = [_absolute(str(path)) for path in raw]
    root = _common_folder(paths)
    ids = [str(name) for name in given["id"].to_pylist()] if "id" in given.column_names else None
    return _as_table((ids[i] if ids else path[len(root) :], Found(path, None, None)) for i, path in enumerate(paths))


def _as_table(files: Iterable[tuple[str, Found]]) -> pa.Table:
    columns: dict[str, list[Any]] = {"id": [], "path": [], "size": [], "etag": []}
    for name, found in files:
        for column, value in zip(columns, (name, found.path, found.size, found.etag), strict=True):
            columns[column].append(value)
    return pa.table(columns, schema=pa.schema([SCHEMA.field(name) for name in columns]))


def _read_table(source: str) -> pa.Table:
    content = io.BytesIO(read_file(source))
    try:
        return pq.read_table(content) if source.lower().endswith(".parquet") else _read_csv(content)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as problem:
        raise FileError(f"{source} cannot be read as a table: {' '.join(str(problem).split())}") from problem


def _read_csv(content: io.BytesIO) -> pa.Table:
    names = pyarrow.csv.open_csv(content).schema.names
    content.seek(0)
    text = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True)
    return pyarrow.csv.read_csv(content, convert_options=text)


def _check_distinct(source: str, column: pa.ChunkedArray, name: str) -> None:
    counts = pc.value_counts(column)
    doubles = [str(entry["values"]) for entry in counts.filter(pc.greater(counts.field("counts"), 1)).to_pylist()]
    if doubles:
        raise FileError(f"{source} names more than once as {name}: {_and_others(doubles)}")


def _and_others(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} others" if len(names) > 1 else "")


def _common_folder(paths: Iterable[str]) -> str:
    """What the paths of all folders begin with, with a slash at its end."""
    folders = [path.rpartition("/")[0] + "/" for path in paths]
    common = os.path.commonprefix(folders)  # noqa: RUF071 `commonpath` takes s3:// for a folder "s3:"
    return common.rpartition("/")[0] + "/"


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)
