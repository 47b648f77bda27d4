"""Workers as processes of this machine, started anew (spawn), one pipe to each.

A worker ends by itself when its driver dies: its end of the pipe closes, and a thread waits for that while it works.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Hashable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Self

from ideaw.catalogue.dispatch import Died, Event
from ideaw.catalogue.work import Refusal, ShardWorker, WorkerSpec, WorkOrder
from ideaw.errors import IdeawError


class LocalWorkers:
    """Processes of this machine; a context, at whose end none is left."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec, self._spawn = spec, multiprocessing.get_context("spawn")
        self._processes: dict[Connection, SpawnProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in list(self._processes):
            self.end(connection)

    def start(self) -> Connection:
        ours, theirs = self._spawn.Pipe()
        process = self._spawn.Process(target=_serve, args=(theirs, self._spec), daemon=True)
        process.start()
        theirs.close()  # so that its death is the end of ours
        self._processes[ours] = process
        return ours

    def submit(self, worker: Hashable, order: WorkOrder) -> None:
        assert isinstance(worker, Connection)
        with suppress(OSError):  # if it died just now, `wait` tells
            worker.send(order)

    def wait(self, seconds: float) -> list[tuple[Hashable, Event]]:
        events: list[tuple[Hashable, Event]] = []
        for connection in wait(list(self._processes), seconds):
            assert isinstance(connection, Connection)
            try:
                events.append((connection, connection.recv()))
            except (EOFError, OSError):
                events.append((connection, Died(self._forget(connection))))
        return events

    def end(self, worker: Hashable) -> None:
        assert isinstance(worker, Connection)
        self._processes[worker].kill()
        self._forget(worker)

    def _forget(self, connection: Connection) -> str:
        """Why a process died, which is waited for."""
        process = self._processes.pop(connection)
        process.join()
        connection.close()
        code = process.exitcode or 0
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _serve(connection: Connection, spec: WorkerSpec) -> None:
    """What a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        worker = ShardWorker(spec)
        connection.send(worker.hello)
        while True:
            for tick in worker.run(connection.recv()):
                connection.send(tick)
    except IdeawError as problem:
        connection.send(Refusal(str(problem)))
    except (EOFError, BrokenPipeError):
        pass  # the driver is no more


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
