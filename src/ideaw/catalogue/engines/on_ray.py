"""Workers as Ray actors, one core and one thread each, on this machine or on a cluster.

Actors stream their ticks back, so that a death is known together with the file it happened at. Nothing is restarted by
Ray: the dispatcher replaces what died, as it does on one machine.
"""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Self

from ideaw.catalogue.dispatch import Died, Event
from ideaw.catalogue.work import Hello, Refusal, ShardWorker, Tick, WorkerSpec, WorkOrder
from ideaw.errors import IdeawError, error_reason

CONNECT_SECONDS = 5.0
"""Patience with an address at which a Ray cluster should be."""

START_ATTEMPTS = 3
"""How often Ray is started here before it is given up: it gives its own processes no more than 30 s to start."""

INIT_SECONDS = 60.0
"""Patience with Ray itself while it connects, which would otherwise try for ever."""

OBJECT_STORE_BYTES = 100_000_000
"""Shared memory of a Ray that is started here: only ticks pass through it."""


class ShardActor:
    """A worker in a process of Ray's."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._refusal: str | None = None
        try:
            self._worker = ShardWorker(spec)
        except IdeawError as problem:
            self._refusal = str(problem)

    def hello(self) -> Iterator[Hello | Refusal]:
        """What it runs, or why it cannot."""
        yield Refusal(self._refusal) if self._refusal is not None else self._worker.hello

    def run(self, order: WorkOrder) -> Iterator[Tick | Refusal]:
        """The ticks of an order."""
        try:
            yield from self._worker.run(order)
        except IdeawError as problem:
            yield Refusal(str(problem))


class RayWorkers:
    """Actors of one Ray cluster; a context, at whose end none is left.

    Args:
        spec: what workers are made from.
        address: host:port of a cluster, or "auto" for the one of this machine; None starts one, for 127.0.0.1 alone.
        count: how many workers there are to be (None: as many as cores).

    Raises:
        IdeawError: there is no cluster, it is another version's, or has fewer cores.
    """

    def __init__(self, spec: WorkerSpec, address: str | None, count: int | None) -> None:
        self._spec = spec
        self._actors: dict[Hashable, Any] = {}
        self._streams: dict[Any, Hashable] = {}
        self._started = 0
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
        if address is not None:
            _check_answers(address)
        if _is_of_this_machine_alone(address):
            # The one switch that keeps Ray on 127.0.0.1, which it otherwise takes for the machine's own address.
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        import ray

        self._ray: Any = ray
        self._connect(address, count)
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        self.count = count or max(cores, 1)
        if self.count > cores:
            self._ray.shutdown()
            raise IdeawError(f"{self.count} workers need as many cores, and the cluster has {cores}; give fewer")

    def _connect(self, address: str | None, count: int | None) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
        if address is None:
            self._start_here(quiet | {"num_cpus": count})
            return
        try:
            with within(INIT_SECONDS):
                self._ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as problem:
            raise IdeawError(f"no Ray cluster can be used at {address}: {error_reason(problem)}") from problem

    def _start_here(self, options: dict[str, Any]) -> None:
        options |= {"address": "local", "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._ray.init(**options)
                return
            except Exception as problem:  # it raises just that where its processes do not start in time
                self._ray.shutdown()
                if attempt == START_ATTEMPTS:
                    raise IdeawError(f"Ray cannot be started on this machine: {error_reason(problem)}") from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    def start(self) -> Hashable:
        worker, self._started = self._started, self._started + 1
        actor = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(ShardActor)
        self._actors[worker] = actor.remote(self._spec)
        self._follow(worker, self._actors[worker].hello)
        return worker

    def submit(self, worker: Hashable, order: WorkOrder) -> None:
        self._follow(worker, self._actors[worker].run, order)

    def _follow(self, worker: Hashable, method: Any, *arguments: object) -> None:
        self._streams[method.options(num_returns="streaming").remote(*arguments)] = worker

    def wait(self, seconds: float) -> list[tuple[Hashable, Event]]:
        if not self._streams:
            time.sleep(seconds)
            return []
        streams = list(self._streams)
        ready, _ = self._ray.wait(streams, num_returns=len(streams), timeout=seconds, fetch_local=False)
        return [event for stream in ready for event in self._next(stream)]

    def _next(self, stream: Any) -> list[tuple[Hashable, Event]]:
        worker = self._streams[stream]
        try:
            return [(worker, self._ray.get(next(stream)))]
        except StopIteration:
            del self._streams[stream]
            return []
        except self._ray.exceptions.RayError as problem:
            self._forget(worker)
            return [(worker, Died(error_reason(problem)[:200]))]

    def end(self, worker: Hashable) -> None:
        self._ray.kill(self._actors[worker])
        self._forget(worker)

    def _forget(self, worker: Hashable) -> None:
        del self._actors[worker]
        self._streams = {stream: other for stream, other in self._streams.items() if other != worker}


def _check_answers(address: str) -> None:
    """Raise `IdeawError` at once unless somebody listens at host:port."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or "//" in address:
        raise IdeawError(
            f"{address} is no address of a Ray cluster; give host:port, or auto on a machine of the cluster"
        )
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as problem:
        raise IdeawError(f"there is no Ray cluster at {address}: {error_reason(problem)}") from problem


class _Late(BaseException):
    """Time is up; no `Exception`, since Ray takes these for reasons to try again."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` if the block takes longer; only in the main thread, and where there are alarms."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Late:
        raise TimeoutError(f"it does not answer within {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _is_of_this_machine_alone(address: str | None) -> bool:
    """Whether a cluster, None for one to be started, can be reached through 127.0.0.1 and not by the machine's name."""
    if address is None:
        return True
    host, _, port = address.rpartition(":")
    if host not in ("127.0.0.1", "localhost"):
        return False
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing; tells the address that others would see
        socket.create_connection((probe.getsockname()[0], int(port)), CONNECT_SECONDS).close()
        return False
    return True
