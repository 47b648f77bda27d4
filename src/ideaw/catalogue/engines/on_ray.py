"""Workers as Ray actors, one core and one thread each, on this machine or on a cluster.

Actors stream their ticks back, so that a death is known together with the file it happened at. Nothing is restarted by
Ray: the dispatcher replaces what died, as it does on one machine.
"""

import logging
import os
import socket
import time
from collections.abc import Hashable, Iterator
from typing import Any, Self

from ideaw.catalogue.dispatch import Died, Event
from ideaw.catalogue.work import Hello, Refusal, ShardWorker, Tick, WorkerSpec, WorkOrder
from ideaw.errors import IdeawError, error_reason

CONNECT_SECONDS = 5.0
"""Patience with an address at which a Ray cluster should be."""

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
        if address is None:
            # The one switch that keeps a Ray of one machine on 127.0.0.1; `_node_ip_address` is resolved to another.
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
            quiet |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES, "num_cpus": count}
            self._ray.init(**quiet)
            return
        _check_answers(address)
        try:
            self._ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as problem:
            raise IdeawError(f"no Ray cluster can be used at {address}: {error_reason(problem)}") from problem

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
    """Raise `IdeawError` unless somebody listens at host:port: Ray itself would try for a long time."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or "//" in address:
        raise IdeawError(
            f"{address} is no address of a Ray cluster; give host:port, or auto on a machine of the cluster"
        )
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as problem:
        raise IdeawError(f"there is no Ray cluster at {address}: {error_reason(problem)}") from problem
