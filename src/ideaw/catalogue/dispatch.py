"""Shards given to workers until all are done, whatever dies: the one loop that both engines share.

A worker that died is replaced and its shard done again. If a file was being worked on each time, it is given up after a
few deaths and becomes an error row, so that no file can stop a job.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

from ideaw.catalogue.work import Hello, Refusal, Tick, Versions, WorkOrder
from ideaw.errors import IdeawError

MAX_DEATHS_AT_FILE, MAX_DEATHS_AT_START = 3, 20
"""Deaths of workers at one file after which it is given up, and of workers one after the other that were still starting
after which the job is."""

STUCK_SECONDS = 1800.0
"""A worker that says nothing for so long is taken to be stuck at its file, and ended."""

START_SECONDS = 300.0
"""Patience with workers that are starting."""

WAIT_SECONDS = 0.5
"""Longest wait for workers before progress is shown again."""


@dataclass(frozen=True)
class Died:
    """A worker is no more."""

    reason: str


Event = Hello | Tick | Refusal | Died


class Workers(Protocol):
    """Processes of an engine."""

    def start(self) -> Hashable:
        """Start a worker; what names it."""

    def submit(self, worker: Hashable, order: WorkOrder) -> None:
        """Give a worker its next order."""

    def wait(self, seconds: float) -> list[tuple[Hashable, Event]]:
        """What workers said, each in order; may come back early with nothing."""

    def end(self, worker: Hashable) -> None:
        """End a worker at once."""


@dataclass
class _Desk:
    """What is known of a worker: its order, the file that it is at, and when it last said something."""

    order: WorkOrder | None = None
    tick: Tick | None = None
    heard_at: float = field(default_factory=time.monotonic)
    ready: bool = False


ProgressWatcher = Callable[[Iterable[Tick], Tick | None], None]
"""Receives the ticks of all orders under way, and that of one that was done just now."""


class Dispatcher:
    """Gives orders to workers.

    Args:
        workers: of an engine.
        count: how many of them.
        versions: that every worker must have.
        watch: shows progress.
    """

    def __init__(self, workers: Workers, count: int, versions: Versions, watch: ProgressWatcher) -> None:
        self._workers, self._count, self._versions, self._watch = workers, count, versions, watch
        self._desks: dict[Hashable, _Desk] = {}
        self._deaths: Counter[tuple[int, int]] = Counter()
        self._deaths_at_start = 0

    def run(self, orders: Sequence[WorkOrder]) -> None:
        """Do all orders.

        Raises:
            IdeawError: a worker has other versions, before any work is done; or no worker can go on.
        """
        self._waiting = deque(orders)
        for _ in range(min(self._count, len(orders))):
            self._desks[self._workers.start()] = _Desk()
        while not all(desk.ready for desk in self._desks.values()):
            self._listen()
        while self._waiting or any(desk.order for desk in self._desks.values()):
            for worker, desk in self._desks.items():
                if desk.ready and desk.order is None and self._waiting:
                    desk.order, desk.tick, desk.heard_at = self._waiting.popleft(), None, time.monotonic()
                    self._workers.submit(worker, desk.order)
            self._listen()

    def _listen(self) -> None:
        """Take in what workers say."""
        finished = []
        for worker, event in self._workers.wait(WAIT_SECONDS):
            desk = self._desks.get(worker)
            if desk is None:
                continue
            desk.heard_at = time.monotonic()
            match event:
                case Hello():
                    self._check(event)
                    desk.ready, self._deaths_at_start = True, 0
                case Tick():
                    desk.tick = event
                    if event.done:
                        finished.append(event)
                        desk.order = desk.tick = None
                case Refusal():
                    raise IdeawError(event.reason)
                case Died():
                    self._replace(worker, event.reason)
        self._end_stuck()
        under_way = [desk.tick for desk in self._desks.values() if desk.tick is not None]
        for tick in finished:
            self._watch(under_way, tick)
        self._watch(under_way, None)

    def _check(self, hello: Hello) -> None:
        differences = [
            f"{entry.name} {getattr(hello.versions, entry.name)} there, {getattr(self._versions, entry.name)} here"
            for entry in fields(Versions)
            if getattr(hello.versions, entry.name) != getattr(self._versions, entry.name)
        ]
        if differences:
            raise IdeawError(
                f"the worker on {hello.name} has other versions ({'; '.join(differences)}); install the same everywhere"
            )

    def _end_stuck(self) -> None:
        now = time.monotonic()
        for worker, desk in list(self._desks.items()):
            if not desk.ready and now - desk.heard_at > START_SECONDS:
                raise IdeawError(f"a worker did not start within {START_SECONDS:g} s; give fewer with --workers")
            if desk.order is not None and now - desk.heard_at > STUCK_SECONDS:
                self._workers.end(worker)
                self._replace(worker, f"it took more than {STUCK_SECONDS:g} s")

    def _replace(self, worker: Hashable, reason: str) -> None:
        """Another worker in place of one that died; its order comes first, with care."""
        desk = self._desks.pop(worker)
        if not desk.ready:
            self._deaths_at_start += 1
            if self._deaths_at_start >= MAX_DEATHS_AT_START:
                raise IdeawError(f"workers die before they begin: {reason}")
        if desk.order is not None:
            order = replace(desk.order, careful=True)
            if desk.tick is not None and desk.order.careful:
                place = order.shard, desk.tick.at
                self._deaths[place] += 1
                if self._deaths[place] >= MAX_DEATHS_AT_FILE:
                    why = f"the process that worked on it died {MAX_DEATHS_AT_FILE} times: {reason}"
                    order = replace(order, given_up={**order.given_up, desk.tick.at: why})
            self._waiting.appendleft(order)
        self._desks[self._workers.start()] = _Desk()
