"""A benchmark that can be interrupted: trials go to a folder as they are made, and are not made again.

The folder belongs to one configuration. Trials are lines that are appended; one that a crash cut off is dropped.
"""

import contextlib
import json
import multiprocessing
import signal
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from ideaw.audio import atomic
from ideaw.audio.buffer import Progress
from ideaw.errors import FileError, IdeawError

CONFIGURATION, TRIALS = "run.json", "trials.jsonl"

Record = dict[str, Any]


class Run:
    """The trials of a run; in `folder`, or only in memory without one."""

    def __init__(self, folder: Path | None, configuration: Mapping[str, Any]) -> None:
        self.records: list[Record] = []
        self._file: Path | None = None
        if folder is not None:
            self._file = folder / TRIALS
            _claim(folder, json.loads(json.dumps(configuration)))
            self.records = _read(self._file)

    def add(self, record: Record) -> None:
        """Keep one more trial."""
        if self._file is not None:
            with atomic.told(self._file), self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        self.records.append(record)


def write(path: Path, content: str) -> None:
    """A file that appears whole or not at all."""
    with atomic.placed(path) as temporary:
        temporary.write_text(content, "utf-8")


def everywhere(
    start: Callable[..., None],
    given: tuple[Any, ...],
    work: Callable[[Any], Record],
    tasks: Sequence[Hashable],
    workers: int,
    progress: Progress | None = None,
    done: int = 0,
) -> Iterator[Record]:
    """What `work` makes of every task, as it comes, from processes that each called `start(*given)` first.

    `done` tasks more were finished before, for the progress that is shown.
    """
    total = done + len(tasks)
    for count, record in enumerate(_made(start, given, work, tasks, min(workers, len(tasks))), done + 1):
        yield record
        if progress:
            progress(count / total)


def _made(
    start: Callable[..., None],
    given: tuple[Any, ...],
    work: Callable[[Any], Record],
    tasks: Sequence[Hashable],
    workers: int,
) -> Iterator[Record]:
    if workers <= 1:
        if tasks:
            start(*given)
        yield from map(work, tasks)
        return
    spawned = multiprocessing.get_context("spawn")  # ONNX Runtime does not survive a fork
    pool = ProcessPoolExecutor(workers, spawned, _quietly, (start, *given))
    try:
        for future in as_completed([pool.submit(work, task) for task in tasks]):
            yield future.result()
    except BrokenProcessPool as problem:
        raise IdeawError("a process of the benchmark was killed; the same command goes on from there") from problem
    finally:
        pool.shutdown(cancel_futures=True)


def _quietly(start: Callable[..., None], *given: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts means the whole, which stops its processes
    start(*given)


def _claim(folder: Path, configuration: Mapping[str, Any]) -> None:
    """Make the folder one of this configuration, or see that it is."""
    with atomic.told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        held = sorted(path.name for path in folder.iterdir())
    place = folder / CONFIGURATION
    if CONFIGURATION not in held:
        if held:
            raise FileError(f"{folder} holds other files and no run; choose another folder")
        write(place, json.dumps(configuration, indent=2) + "\n")
        return
    before = {}
    with contextlib.suppress(OSError, ValueError):
        before = json.loads(place.read_text("utf-8"))
    differing = [name for name in configuration if before.get(name) != configuration[name]]
    if differing:
        raise FileError(f"{folder} holds another run, with other {differing[0]}; choose another folder")


def _read(file: Path) -> list[Record]:
    """The trials in a file, which is cut off where it is damaged."""
    if not file.exists():
        return []
    records: list[Record] = []
    good = 0
    with atomic.told(file), file.open("rb+") as lines:
        for line in lines:
            try:
                if not line.endswith(b"\n"):
                    break
                records.append(json.loads(line))
            except ValueError:
                break
            good += len(line)
        lines.truncate(good)
    return records
