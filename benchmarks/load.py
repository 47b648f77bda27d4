"""Load on a service: many clients at once, each answer checked, with the memory of all its processes.

    python benchmarks/load.py [--uploads 200] [--workers 2] [--seconds 10] [--again] [--json docs/results/load.json]

Starts `ideaw serve` as a process of its own and sends all uploads at the same time, half to be marked and half to be
searched: stereo at 44.1 kHz, the packaged music. An answer is right if the message that was put in is found, by the
service itself in a marked file that it was sent, and by the library in a file that it marked. Anything else than a
right answer or a 503 that says when to come again fails. With --again, clients come again when they were told to.

Clients run on the same cores as the service. Memory is the sum of the PSS of the service and all that it started.
"""

import argparse
import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

import httpx
import numpy as np
import soundfile

import ideaw

MESSAGE = "load"
FIELDS = {"embed": {"message": MESSAGE}, "detect": {"speeds": "near"}}
"""Task → what is sent beside the file."""

REPEATS = 5
"""Requests that have the service for themselves."""

TIMEOUT_SECONDS = 600.0
SAMPLING_SECONDS = 0.2
"""Time between two looks at the memory."""


@dataclass(frozen=True)
class Answer:
    """What one client got: the last status, the seconds until then, and how often it was sent away before."""

    task: str
    status: int
    seconds: float
    refusals: int
    right: bool


@dataclass(frozen=True)
class Latency:
    """Of the requests of one task that were served, in seconds."""

    task: str
    served: int
    median: float
    p95: float


@dataclass(frozen=True)
class Load:
    """What was measured."""

    uploads: int
    workers: int
    seconds: float
    again: bool
    right: int
    busy: int
    """Clients that were told to come again, and did not."""
    wrong: int
    refusals: int
    """Answers that told a client to come again."""
    latencies: list[Latency]
    wall: float
    peak_bytes: int
    alone: dict[str, float]
    """Task → seconds of one request at a time, on the idle service, the median of some."""
    cpu: dict[str, float]
    """Task → seconds of CPU that one request costs all processes of the service."""


def main() -> None:
    """Measure, print, and fail if an answer was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--uploads", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--again", action="store_true", help="clients that are sent away come again")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    load = measure(options.uploads, options.workers, options.seconds, options.again)
    for line in lines(load):
        print(line)
    if options.json:
        options.json.write_text(json.dumps(asdict(load), indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if load.wrong else 0)


def lines(load: Load) -> list[str]:
    """The measurement in words."""
    alone = ", ".join(f"{task} {took:.2f} s, {load.cpu[task]:.2f} s of CPU" for task, took in load.alone.items())
    shares = f"{load.right} right, {load.busy} told to come again ({load.busy / load.uploads:.0%}), {load.wrong} wrong"
    served = [
        f"{one.task}: {one.served} served, median {one.median:.1f} s, 95 % within {one.p95:.1f} s"
        for one in load.latencies
    ]
    return [
        f"one at a time: {alone}",
        f"{load.uploads} at once, {load.workers} workers: {shares}, {load.refusals} refusals, {load.wall:.1f} s in all",
        *served,
        f"peak memory of all processes: {load.peak_bytes / 1e6:.0f} MB",
    ]


def measure(uploads: int, workers: int, seconds: float, again: bool) -> Load:
    """Start a service, load it, and check its answers."""
    plain = clip(seconds)
    with tempfile.TemporaryDirectory() as folder, running(workers, Path(folder)) as (process, address):
        marked = post(address, "embed", plain)
        forms = {"embed": plain, "detect": marked}
        alone, cpu = {}, {}
        for task, content in forms.items():
            alone[task], cpu[task] = one_at_a_time(process.pid, address, task, content)
        memory = Memory(process.pid)
        began = time.perf_counter()
        answers = asyncio.run(all_at_once(address, uploads, forms, again))
        wall = time.perf_counter() - began
        peak = memory.stop()
    busy = sum(answer.status == httpx.codes.SERVICE_UNAVAILABLE for answer in answers)
    right = sum(answer.right for answer in answers)
    refusals = sum(answer.refusals for answer in answers)
    latencies = [latency(task, [one.seconds for one in answers if one.task == task and one.right]) for task in forms]
    wrong = len(answers) - right - busy
    return Load(
        uploads, workers, seconds, again, right, busy, wrong, refusals, latencies, round(wall, 1), peak, alone, cpu
    )


def clip(seconds: float) -> bytes:
    """The packaged music again and again, as a WAV file of 16 bits."""
    packaged = resources.files("ideaw").joinpath("samples", "music.ogg").read_bytes()
    samples, rate = soundfile.read(io.BytesIO(packaged))
    length = round(seconds * rate)
    file = io.BytesIO()
    soundfile.write(file, np.tile(samples, (-(-length // len(samples)), 1))[:length], rate, format="WAV")
    return file.getvalue()


@contextlib.contextmanager
def running(workers: int, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The service as a process, and its address; afterwards nothing may be left in its temporary folder."""
    command = [sys.executable, "-m", "ideaw", "serve", "--no-open", "--port", "0", "--workers", str(workers)]
    environment = os.environ | {"TMPDIR": str(folder)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split(" ")[0]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
    assert list(folder.iterdir()) == [], "something was left behind"


def one_at_a_time(pid: int, address: str, task: str, content: bytes) -> tuple[float, float]:
    """The median time of a request that has the service for itself, and the CPU time of one, in seconds."""
    times, spent = [], sum(map(cpu_seconds, family(pid)))
    for _ in range(REPEATS):
        began = time.perf_counter()
        post(address, task, content)
        times.append(time.perf_counter() - began)
    spent = sum(map(cpu_seconds, family(pid))) - spent
    return round(float(np.median(times)), 3), round(spent / REPEATS, 3)


def post(address: str, task: str, content: bytes) -> bytes:
    """The answer to one request."""
    files = {"file": ("a.wav", content)}
    answer = httpx.post(f"{address}v1/{task}", files=files, data=FIELDS[task], timeout=TIMEOUT_SECONDS)
    return answer.raise_for_status().content


async def all_at_once(address: str, uploads: int, forms: dict[str, bytes], again: bool) -> list[Answer]:
    """One request of every client, the tasks in turns."""
    tasks = [list(forms)[number % len(forms)] for number in range(uploads)]
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT_SECONDS, limits=limits) as client:
        return await asyncio.gather(*(ask(client, task, forms[task], again) for task in tasks))


async def ask(client: httpx.AsyncClient, task: str, content: bytes, again: bool) -> Answer:
    """What one client sends, until it is served or gives up."""
    began, refusals = time.perf_counter(), 0
    while True:
        answer = await client.post(f"v1/{task}", data=FIELDS[task], files={"file": ("a.wav", content)})
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            break
        refusals += 1
        wait = int(answer.headers["Retry-After"])
        if not again:
            break
        await asyncio.sleep(wait)
    seconds = time.perf_counter() - began
    right = answer.status_code == httpx.codes.OK and await asyncio.to_thread(is_right, task, answer.content)
    return Answer(task, answer.status_code, seconds, refusals, right)


def is_right(task: str, content: bytes) -> bool:
    """Whether an answer says what it should."""
    if task == "detect":
        return bool(json.loads(content)["message"] == MESSAGE)
    with MARKER_LOCK:
        samples, rate = soundfile.read(io.BytesIO(content))
        return MARKER.detect(samples, rate, speeds="none", layers="fast").message == MESSAGE


MARKER, MARKER_LOCK = ideaw.load(threads=1), threading.Lock()
"""What checks marked files, one after the other, so that the service has the cores."""


def latency(task: str, seconds: list[float]) -> Latency:
    """Of those that were served; NaN where there are none."""
    middle, late = np.percentile(seconds, [50, 95]) if seconds else (np.nan, np.nan)
    return Latency(task, len(seconds), round(float(middle), 2), round(float(late), 2))


class Memory:
    """Watches the memory of a process and all below it."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peak, self._stopped = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> int:
        """The most that was seen, in bytes."""
        self._stopped.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLING_SECONDS):
            self._peak = max(self._peak, sum(map(proportional_bytes, family(self._pid))))


def family(pid: int) -> list[int]:
    """A process and those that it started, and so on."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return [pid, *(member for child in found for member in family(child))]


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used."""
    with contextlib.suppress(OSError):
        columns = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(columns[11]) + int(columns[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def proportional_bytes(pid: int) -> int:
    """What is a process's own of the memory, and its share of what it has in common with others."""
    with contextlib.suppress(OSError):
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(1024 * int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return 0


if __name__ == "__main__":
    main()
