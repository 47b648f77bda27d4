"""What a worker does, in whatever process: the files of one shard after the other, each a row, and then their part.

The engines only bring orders here and ticks back.
"""

import platform
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from ideaw.catalogue.cache import CacheSearcher
from ideaw.catalogue.evidence import HEARD_SCHEMA, EvidenceRecorder
from ideaw.catalogue.job import Job, read_job
from ideaw.catalogue.manifest import Entry, Manifest
from ideaw.catalogue.marking import FileMarker
from ideaw.catalogue.rows import (
    MARK_SCHEMA,
    SCAN_SCHEMA,
    SCHEMA_VERSION,
    Cost,
    Row,
    as_table,
    error_row,
    result_columns,
)
from ideaw.catalogue.searching import FileSearcher
from ideaw.catalogue.settings import MarkOptions, ScanOptions
from ideaw.catalogue.shards import read_heard, read_part, write_heard, write_part
from ideaw.catalogue.storage import SCRATCH, Storage, local_copy, remove_strays
from ideaw.engine.network import Network
from ideaw.errors import IdeawError, error_reason
from ideaw.keys import Key
from ideaw.marker import Marker
from ideaw.models import find_model

TICK_SECONDS = 1.0
"""Least time between two ticks of a worker, unless it works carefully."""

FETCHED_AHEAD = 2
"""Remote files that are fetched while another is worked on."""


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker is made from.

    Attributes:
        out: folder of the job.
        job: which must be the one that the worker sees there.
        key_digits: the keys in hexadecimal digits, since a `Key` is not pickled; the first is the one to mark with.
    """

    out: str
    job: Job
    key_digits: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True)
class WorkOrder:
    """A shard to be done.

    Attributes:
        shard: which.
        only_errors: keep the rows of its part that are no errors, and do the others again.
        given_up: files that are not tried any more → why.
        careful: tick before every file, so that it is known which one a worker died of.
    """

    shard: int
    only_errors: bool = False
    given_up: Mapping[int, str] = field(default_factory=dict)
    careful: bool = False


@dataclass(frozen=True)
class Tick:
    """How far a worker is with its order: files and seconds of audio done, found and failed, and the file it is at."""

    at: int
    files: int = 0
    seconds: float = 0.0
    heard_seconds: float = 0.0
    found: int = 0
    errors: int = 0
    done: bool = False


@dataclass(frozen=True)
class Versions:
    """Everything that a row depends on, on one machine."""

    ideaw: str
    schema: str
    weights: str
    onnxruntime: str
    numpy: str
    soxr: str
    libsndfile: str


@dataclass(frozen=True)
class Hello:
    """What a worker says first: who it is and what it runs."""

    name: str
    versions: Versions


@dataclass(frozen=True)
class Refusal:
    """A worker cannot go on, and another would not be able to either: one line why."""

    reason: str


def versions_here(weights: str) -> Versions:
    """The versions in this process, and the weights that it loads."""
    import soundfile

    onnxruntime, numpy, soxr = (version(name) for name in ("onnxruntime", "numpy", "soxr"))
    libsndfile = str(soundfile.__libsndfile_version__)
    return Versions(version("ideaw"), SCHEMA_VERSION, weights, onnxruntime, numpy, soxr, libsndfile)


class ShardWorker:
    """Does orders of one job, on one thread.

    Raises:
        IdeawError: the model cannot be loaded, or the folder of the job is not seen from here.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        self._folder, self._job = Storage(spec.out), spec.job
        network = Network(find_model(spec.job.model), threads=1)
        self.hello = Hello(f"{socket.gethostname()} ({platform.machine()})", versions_here(network.weights_id))
        if read_job(self._folder) != spec.job:
            raise IdeawError(
                f"the worker on {socket.gethostname()} does not see the job in {spec.out}; give a shared one"
            )
        self._manifest = Manifest(self._folder)
        keys = [Key.of(digits) for digits in spec.key_digits]
        options = spec.job.options
        self._marker = self._cached = None
        if isinstance(options, MarkOptions):
            self._marker = FileMarker(Marker(network, keys[0]), keys[0], options, self._folder)
        else:
            self._searcher = FileSearcher(network, keys, options)
            if options.heard is not None:
                self._cached = CacheSearcher(Storage(options.heard), network, keys, options)
        remove_strays(SCRATCH)

    def run(self, order: WorkOrder) -> Iterator[Tick]:
        """Do an order; its part is written before the last tick.

        Raises:
            IdeawError: the manifest cannot be read, or the part not be written.
        """
        entries = self._manifest.entries(order.shard)
        caching = isinstance(self._job.options, ScanOptions) and self._job.options.cache
        rows, heard = self._known(order, caching)
        tick, told = Tick(entries[0].index), 0.0
        todo = [entry for entry in entries if entry.index not in rows]
        for entry, copy in _with_copies(todo, order.given_up, fetch=self._cached is None):
            tick = replace(tick, at=entry.index)
            if order.careful or time.monotonic() - told >= TICK_SECONDS:
                told = time.monotonic()
                yield tick
            recorder = EvidenceRecorder() if caching else None
            row, cost = self._do(entry, copy, order.shard, recorder)
            rows[entry.index] = row
            if recorder is not None and row["status"] != "error":
                heard[entry.index] = {"index": entry.index} | recorder.packed(cost.seconds or 0.0)
            tick = _after(tick, row, cost)
        if caching:
            write_heard(self._folder, order.shard, as_table(list(heard.values()), HEARD_SCHEMA))
        schema = MARK_SCHEMA if self._marker is not None else SCAN_SCHEMA
        write_part(self._folder, order.shard, as_table([rows[entry.index] for entry in entries], schema))
        yield replace(tick, done=True)

    def _known(self, order: WorkOrder, caching: bool) -> tuple[dict[int, Row], dict[int, Row]]:
        """Index → row of what need not be done again, in the part and in the cache."""
        if not order.only_errors:
            return {}, {}
        known = read_part(self._folder, order.shard).to_pylist()
        heard = read_heard(self._folder, order.shard).to_pylist() if caching else []
        rows = {row["index"]: row for row in known if row["status"] != "error"}
        return rows, {row["index"]: row for row in heard}

    def _do(
        self, entry: Entry, copy: Path | Exception, shard: int, recorder: EvidenceRecorder | None
    ) -> tuple[Row, Cost]:
        """The row of a file, and what it took."""
        row: Row = {name: getattr(entry, name) for name in ("index", "id", "path", "size", "etag")}
        try:
            if isinstance(copy, Exception):
                raise copy
            if self._marker is not None:
                row |= self._marker.mark(entry, copy)
                return row, Cost(row["seconds"], row["seconds"] or 0.0, None, row["cpu_seconds"])
            if self._cached is not None:
                detection, cost = self._cached.search(entry, shard)
            else:
                detection, cost = self._searcher.search(copy, None if recorder is None else recorder.keep)
        except IdeawError as problem:
            reason = str(problem)
            # The copy of a remote file has a name that says nothing to anybody.
            return row | error_row(reason.replace(str(copy), entry.path) if isinstance(copy, Path) else reason), Cost()
        except Exception as problem:  # one file must not end the work on millions
            return row | error_row(f"unexpected {type(problem).__name__}: {error_reason(problem)}"), Cost()
        return row | result_columns(detection, cost), cost


def _after(tick: Tick, row: Row, cost: Cost) -> Tick:
    return replace(
        tick,
        files=tick.files + 1,
        seconds=tick.seconds + (cost.seconds or 0.0),
        heard_seconds=tick.heard_seconds + cost.heard_seconds,
        found=tick.found + (row["status"] in ("found", "marked")),
        errors=tick.errors + (row["status"] == "error"),
    )


def _with_copies(
    entries: Iterable[Entry], given_up: Mapping[int, str], fetch: bool = True
) -> Iterator[tuple[Entry, Path | Exception]]:
    """Every file with its local copy, or why there is none; remote ones are fetched ahead.

    Args:
        entries: the files.
        given_up: those that are not tried → why.
        fetch: whether copies are needed.
    """

    def copy_of(entry: Entry) -> tuple[ExitStack, Path | Exception]:
        stack = ExitStack()
        if entry.index in given_up:
            return stack, IdeawError(given_up[entry.index])
        if not fetch:
            return stack, Path(entry.path)
        try:
            return stack, stack.enter_context(local_copy(entry.path, entry.size))
        except Exception as problem:
            return stack, problem

    waiting: deque[tuple[Entry, Future[tuple[ExitStack, Path | Exception]]]] = deque()
    with ThreadPoolExecutor(FETCHED_AHEAD) as pool:
        try:
            for entry in entries:
                if not fetch or "://" not in entry.path:
                    yield entry, copy_of(entry)[1]
                    continue
                waiting.append((entry, pool.submit(copy_of, entry)))
                if len(waiting) > FETCHED_AHEAD:
                    yield from _fetched(waiting)
            while waiting:
                yield from _fetched(waiting)
        finally:
            for _, future in waiting:
                future.result()[0].close()


def _fetched(
    waiting: "deque[tuple[Entry, Future[tuple[ExitStack, Path | Exception]]]]",
) -> Iterator[tuple[Entry, Path | Exception]]:
    entry, future = waiting.popleft()
    stack, copy = future.result()
    with stack:
        yield entry, copy
