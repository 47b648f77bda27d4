"""A map over worker processes: every process is prepared once, results arrive in the order in which they are ready."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ideaw.audio.blocks import Progress
from ideaw.errors import IdeawError

Task = TypeVar("Task")
Result = TypeVar("Result")


def map_processes(
    initialise: Callable[..., None],
    arguments: tuple[Any, ...],
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int,
    progress: Progress | None = None,
    done: int = 0,
) -> Iterator[Result]:
    """The result of `work` for every task, as it is ready; within this process where one worker is enough.

    Args:
        initialise: Called once in every process, with `arguments`.
        arguments: Must pickle, as processes are spawned.
        work: A function of a module; its results must pickle.
        tasks: What to work on.
        workers: The most processes.
        progress: Called with the share of tasks that are finished.
        done: Tasks that were finished before, for the progress.

    Raises:
        IdeawError: A process was killed.
    """
    total = done + len(tasks)
    results = _results(initialise, arguments, work, tasks, min(workers, len(tasks)))
    for count, result in enumerate(results, done + 1):
        yield result
        if progress:
            progress(count / total)


def _results(
    initialise: Callable[..., None],
    arguments: tuple[Any, ...],
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int,
) -> Iterator[Result]:
    if workers <= 1:
        if tasks:
            initialise(*arguments)
        yield from map(work, tasks)
        return
    spawn = multiprocessing.get_context("spawn")  # ONNX Runtime does not survive a fork
    pool = ProcessPoolExecutor(workers, spawn, _initialise, (initialise, *arguments))
    try:
        for future in as_completed([pool.submit(work, task) for task in tasks]):
            yield future.result()
    except BrokenProcessPool as problem:
        raise IdeawError("a process of the benchmark was killed; the same command goes on from there") from problem
    finally:
        pool.shutdown(cancel_futures=True)


def _initialise(initialise: Callable[..., None], *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which stops its processes
    initialise(*arguments)
