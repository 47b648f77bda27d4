"""How far a job is: a live table on a terminal, elsewhere a line every ten seconds."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from ideaw.catalogue.work import Tick

LINE_SECONDS = 10.0
"""Time between two lines where there is no terminal."""


@dataclass(frozen=True)
class Plan:
    """Files of the whole job, and of those the ones that are left for this run."""

    files: int
    left: int


@dataclass
class JobProgress:
    """What a run has done so far, parts under way included."""

    plan: Plan
    files: int = 0
    seconds: float = 0.0
    heard_seconds: float = 0.0
    found: int = 0
    errors: int = 0
    began: float = field(default_factory=time.monotonic)
    shown: Callable[[], None] = lambda: None
    """Called after every update."""
    _done: Tick = field(default_factory=lambda: Tick(0))

    def update(self, under_way: Iterable[Tick], done: Tick | None) -> None:
        """Count the ticks of orders under way, and that of one more that is done."""
        if done is not None:
            self._done = _sum([self._done, done])
        total = _sum([self._done, *under_way])
        self.files, self.seconds, self.heard_seconds = total.files, total.seconds, total.heard_seconds
        self.found, self.errors = total.found, total.errors
        self.shown()

    @property
    def rate(self) -> float:
        """Files in a second."""
        return self.files / max(time.monotonic() - self.began, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Until the end at this rate; None before the first file."""
        return (self.plan.left - self.files) / self.rate if self.files else None

    def cells(self) -> dict[str, str]:
        """What is shown, by name; what counts this run alone says so, where the job had begun before."""
        before, took = self.plan.files - self.plan.left, time.monotonic() - self.began
        now = " now" if before else ""
        left = "?" if self.seconds_left is None else _clock(self.seconds_left)
        return {
            "files": f"{before + self.files:,} of {self.plan.files:,}",
            f"hours of audio{now}": f"{self.seconds / 3600:,.2f}",
            "files/s": f"{self.rate:,.1f}",
            "× real time": f"{self.seconds / max(took, 1e-9):,.0f}",
            "time left": left,
            f"found{now}": f"{self.found:,}",
            f"errors{now}": f"{self.errors:,}",
        }

    def as_json(self) -> dict[str, float | int]:
        """What this run did, for a machine."""
        return {
            "files": self.plan.files,
            "done_before": self.plan.files - self.plan.left,
            "done_now": self.files,
            "found": self.found,
            "errors": self.errors,
            "hours": self.seconds / 3600,
            "heard_hours": self.heard_seconds / 3600,
            "wall_seconds": time.monotonic() - self.began,
        }

    def line(self) -> str:
        """The same as one line."""
        return ", ".join(f"{name} {cell}" for name, cell in self.cells().items())


@contextmanager
def show_progress(progress: JobProgress, stream: TextIO | None = None) -> Iterator[JobProgress]:
    """Show a job's progress on `stream` (None: standard error) whenever it is updated, as long as the block lasts."""
    out = sys.stderr if stream is None else stream
    if out.isatty():
        with _live_table(progress, out):
            yield progress
        return
    progress.shown = _every(LINE_SECONDS, lambda: print(progress.line(), file=out, flush=True))
    yield progress


@contextmanager
def _live_table(progress: JobProgress, out: TextIO) -> Iterator[None]:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    def drawn() -> Table:
        table, cells = Table(), progress.cells()
        for name in cells:
            table.add_column(name, justify="right")
        table.add_row(*cells.values())
        return table

    with Live(drawn(), console=Console(file=out), refresh_per_second=4, transient=True) as live:
        progress.shown = lambda: live.update(drawn())
        yield


def _every(seconds: float, action: Callable[[], None]) -> Callable[[], None]:
    """The action, which does nothing until so long after it was last done."""
    done_at = time.monotonic()

    def act() -> None:
        nonlocal done_at
        if time.monotonic() - done_at >= seconds:
            done_at = time.monotonic()
            action()

    return act


def _sum(ticks: Iterable[Tick]) -> Tick:
    total = Tick(0)
    for tick in ticks:
        total = Tick(
            0,
            total.files + tick.files,
            total.seconds + tick.seconds,
            total.heard_seconds + tick.heard_seconds,
            total.found + tick.found,
            total.errors + tick.errors,
        )
    return total


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
