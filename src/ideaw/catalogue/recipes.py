"""Detection in pipelines of other people: Ray Data, Spark, plain multiprocessing; rows as `ideaw scan` makes them.

Each worker process loads the model once, on one thread. What a pipeline does about kills and resuming is its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ideaw.catalogue.rows import SCAN_SCHEMA, Row, as_table, error_row, result_columns
from ideaw.catalogue.searching import FileSearcher
from ideaw.catalogue.settings import ScanOptions
from ideaw.catalogue.storage import local_copy
from ideaw.engine.network import Network
from ideaw.errors import IdeawError
from ideaw.hypotheses import DEFAULT_SPEEDS, Speeds
from ideaw.keys import PUBLIC, Key
from ideaw.models import find_model

if TYPE_CHECKING:
    import pandas as pd

SPARK_TYPES = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    pa.bool_(): "boolean",
}
"""Types of columns in the words of Spark."""


class DetectFiles:
    """Searches files by their paths or URLs.

    Args:
        key_files: files of keys whose marks are looked for (none: the public key); they must be there on each machine.
        model: name of a packaged model, or path of a model folder (None: the default).
        speeds: other speeds to try where nothing is found: "none", "near" or "all".
        until_sure: stop listening to a file once a message is found beyond doubt.
        probes: excerpts of long files that are heard first; 0 for none.
        longest: seconds; longer files are errors (None: none are).

    Raises:
        IdeawError: there is no such model, or a key cannot be read.
    """

    def __init__(
        self,
        key_files: Sequence[str] = (),
        model: str | None = None,
        speeds: Speeds = DEFAULT_SPEEDS,
        until_sure: bool = True,
        probes: int = 0,
        longest: float | None = None,
    ) -> None:
        keys = [key for path in key_files for key in Key.read_all(path)] or [PUBLIC]
        options = ScanOptions(speeds, until_sure, probes, longest)
        self._searcher = FileSearcher(Network(find_model(model), threads=1), keys, options)

    def row(self, path: str) -> Row:
        """The row of a file; one that cannot be searched is a row of status "error" with the reason."""
        row: Row = {"id": path, "path": path}
        try:
            with local_copy(path, None) as copy:
                return row | result_columns(*self._searcher.search(copy))
        except IdeawError as problem:
            return row | error_row(str(problem))

    def table(self, paths: Iterable[str]) -> pa.Table:
        """The rows of files, in the schema of `ideaw scan`."""
        return as_table([self.row(path) for path in paths], SCAN_SCHEMA)


class DetectBatch(DetectFiles):
    """The same as an actor class for `ray.data.Dataset.map_batches`: a batch with the column `path` → a table."""

    def __call__(self, batch: Mapping[str, Any]) -> pa.Table:
        """The rows of a batch."""
        return self.table(str(path) for path in batch["path"])


class DetectFrames:
    """The same for `pyspark.sql.DataFrame.mapInPandas`: frames with the column `path` → frames of rows.

    Args:
        options: those of `DetectFiles`, which each worker is made from.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    def __call__(self, frames: "Iterable[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
        """The rows of each frame."""
        files = DetectFiles(**self._options)
        for frame in frames:
            yield files.table(frame["path"]).to_pandas()


def spark_schema() -> str:
    """The schema of the rows as Spark takes it."""
    return ", ".join(f"{column.name} {SPARK_TYPES[column.type]}" for column in SCAN_SCHEMA)


_files: DetectFiles | None = None


def start_worker(**options: Any) -> None:
    """The `initializer` of a `multiprocessing.Pool`; takes the options of `DetectFiles`."""
    global _files
    _files = DetectFiles(**options)


def detect_path(path: str) -> Row:
    """What such a pool maps over paths: the row of a file."""
    assert _files is not None, "give start_worker as the initializer of the pool"
    return _files.row(path)
