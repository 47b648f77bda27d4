"""The worker processes: who waits for one, what is done when one takes too long or dies, and how they end.

Ready-made pools of processes cannot stop one job without the others, so this is one of our own: a queue in the order of
arrival with a bound, and workers that are replaced when they were killed.
"""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import time
from asyncio import subprocess as processes
from http import HTTPStatus
from typing import Any

import msgspec

from ideaw.errors import ModelError
from ideaw.service import worker as worker_module
from ideaw.service.jobs import Job, Outcome, Refused
from ideaw.service.metrics import Metrics
from ideaw.service.refusals import Refusal, busy
from ideaw.service.settings import Settings

MAX_OUTCOME_BYTES = 1 << 25
"""The longest line that a worker may answer."""

_logger = logging.getLogger("ideaw.service")
_decoder: msgspec.json.Decoder[Outcome] = msgspec.json.Decoder(Outcome)


class Worker:
    """One process, which is started anew after each end."""

    def __init__(self, model: str | None) -> None:
        self._command = [sys.executable, "-P", "-m", worker_module.__name__, *([model] if model else [])]
        self._process: processes.Process | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start the process, unless it runs, and wait until its model is loaded.

        Raises:
            ModelError: it ended instead.
        """
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                limit=MAX_OUTCOME_BYTES,
                env=os.environ | one_thread,
            )
            assert self._process.stdout is not None
            if await self._process.stdout.readline() != worker_module.READY:
                self._process = None
                raise ModelError("a worker process did not start; the lines above say why")

    async def do(self, job: Job) -> Outcome:
        """Send a job and wait for its outcome.

        Raises:
            ConnectionError: the process ended before it had one.
        """
        await self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the worker ended in the middle of a job")
        return _decoder.decode(line)

    async def kill(self) -> None:
        """End the process at once, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class Pool:
    """All workers, and the queue before them."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._limits, self._metrics = settings.limits, metrics
        self._workers = [Worker(settings.model) for _ in range(settings.workers)]
        self._free: asyncio.Queue[Worker] = asyncio.Queue()
        self._background: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self._usual_seconds = 1.0

    async def start(self) -> None:
        """Start all workers; raises what the first raises that cannot."""
        await asyncio.gather(*(worker.start() for worker in self._workers))
        for worker in self._workers:
            self._free.put_nowait(worker)

    async def stop(self) -> None:
        """End all workers at once."""
        for task in self._background:
            task.cancel()
        for worker in self._workers:
            await worker.kill()

    def check_room(self) -> None:
        """Raise a `Refusal` if so many jobs wait already that another one is not taken."""
        if self._free.empty() and self._waiting >= self._limits.waiting:
            seconds = self._usual_seconds * self._waiting / len(self._workers)
            raise busy("all workers are busy and enough requests wait; try again later", seconds)

    async def run(self, job: Job) -> dict[str, Any]:
        """Do a job as soon as a worker is free; if the caller is cancelled meanwhile, the job ends too.

        Raises:
            Refusal: the job cannot be done, takes too long, or too many wait.
        """
        self.check_room()
        self._waiting += 1
        self._metrics.waiting.set(self._waiting)
        try:
            worker = await self._free.get()
        finally:
            self._waiting -= 1
            self._metrics.waiting.set(self._waiting)
        began = time.monotonic()
        with self._metrics.busy.track_inprogress():
            outcome = await self._outcome(worker, job)
        seconds = time.monotonic() - began
        self._usual_seconds += 0.1 * (seconds - self._usual_seconds)
        self._metrics.job_seconds.labels(type(job).__name__.lower()).observe(seconds)
        if isinstance(outcome, Refused):
            raise Refusal(outcome.status, outcome.line)
        return outcome.answer

    async def _outcome(self, worker: Worker, job: Job) -> Outcome:
        """What a worker says; whatever else happens, that worker is killed before its files are deleted."""
        well = False
        try:
            async with asyncio.timeout(self._limits.job_seconds):
                outcome = await self._attempt(worker, job)
            well = True
            return outcome
        except TimeoutError:
            self._metrics.killed.labels("time").inc()
            line = f"this takes longer than the {self._limits.job_seconds:g} s that a request may; send less audio"
            raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, line) from None
        except (OSError, ModelError):
            self._note_crash()
            raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "this audio cannot be processed") from None
        finally:
            if well:
                self._free.put_nowait(worker)
            else:
                task = asyncio.create_task(self._replace(worker))
                self._background.add(task)
                task.add_done_callback(self._background.discard)
                await worker.kill()

    async def _attempt(self, worker: Worker, job: Job) -> Outcome:
        """Do a job, once more if its worker dies, which need not be the fault of this job."""
        try:
            return await worker.do(job)
        except OSError:
            self._note_crash()
            await worker.kill()
            return await worker.do(job)

    def _note_crash(self) -> None:
        self._metrics.killed.labels("crash").inc()
        _logger.warning("a worker ended in the middle of a job and is replaced")

    async def _replace(self, worker: Worker) -> None:
        """Let the next have a new process in the place of one that is killed."""
        try:
            await worker.kill()
            await worker.start()
        except (ModelError, OSError):  # the next job tries again, and is refused if that fails too
            _logger.exception("a worker cannot be replaced now")
        self._free.put_nowait(worker)
