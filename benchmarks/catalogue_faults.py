"""A catalogue job under kills: workers and drivers ended with -9 at random moments, in a bucket that is often busy.

Used by `benchmarks/catalogue.py faults` on thousands of files, and by the tests on fewer. All parts are real: an S3
server and the job are processes of their own, and what is killed is what the job has started.
"""

import contextlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import pyarrow as pa
import soundfile

import ideaw
from ideaw.catalogue.shards import read_parts
from ideaw.catalogue.storage import Storage

S3_SERVER = Path(__file__).with_name("s3_server.py")
RATE_HZ, CLIP_SECONDS = 16_000, 1.5
MESSAGE = "kill"

UNREADABLE = (b"", b"this is no audio", b"fLaC but not for long")
"""What lies in every UNREADABLE_STRIDE-th file."""

UNREADABLE_STRIDE = 17
ORPHAN_SECONDS = 60.0
"""Patience with workers whose driver is dead, until they have to be gone."""


@dataclass
class Outcome:
    """What a job under kills came to."""

    engine: str
    files: int
    drivers_killed: int = 0
    workers_killed: int = 0
    refusals: int = 0
    """Requests that the bucket answered with 503."""
    rows: int = 0
    distinct: int = 0
    """Different files among the rows."""
    statuses: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """Files whose row is not what it should be."""
    wall: float = 0.0


@contextlib.contextmanager
def s3_server(log: Path) -> Iterator[dict[str, str]]:
    """A server of buckets; the environment in which it is found."""
    with log.open("w") as errors:
        process = subprocess.Popen([sys.executable, S3_SERVER], stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        secrets = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
        yield {"AWS_ENDPOINT_URL": address} | secrets
    finally:
        process.kill()
        process.wait()


def set_busy(environment: Mapping[str, str], share: float) -> int:
    """Let a server refuse a share of all requests; how many it has refused so far."""
    with urllib.request.urlopen(f"{environment['AWS_ENDPOINT_URL']}/busy?share={share}&after=1", timeout=60) as answer:
        return int(answer.read())


def write_clips(folder: str, count: int) -> dict[str, str]:
    """Short clips in a folder or bucket, every other one marked, some unreadable: name → what its row must say."""
    speech, _ = soundfile.read(
        io.BytesIO(resources.files("ideaw").joinpath("samples", "speech.flac").read_bytes()), dtype="float32"
    )
    marked = ideaw.load(threads=1).embed(speech, RATE_HZ, MESSAGE)
    storage, length, expected = Storage(folder), round(CLIP_SECONDS * RATE_HZ), {}
    for number in range(count):
        name = f"{number // 100:03}/{number:06}.flac"
        if number % UNREADABLE_STRIDE == 0:
            storage.write(name, UNREADABLE[number // UNREADABLE_STRIDE % len(UNREADABLE)])
            expected[name] = "error"
            continue
        start = number * 997 % (len(speech) - length)
        file = io.BytesIO()
        soundfile.write(file, (marked if number % 2 else speech)[start : start + length], RATE_HZ, format="FLAC")
        storage.write(name, file.getvalue())
        expected[name] = "found" if number % 2 else "none"
    return expected


def run_under_kills(
    command: list[str],
    environment: Mapping[str, str],
    outcome: Outcome,
    rng: random.Random,
    *,
    drivers: int,
    workers: int,
    pause: float,
    is_worker: Callable[[str], bool],
) -> None:
    """Run a command again and again until it succeeds, ending it and its workers with -9 meanwhile.

    Args:
        command: of the job.
        environment: of the command.
        outcome: counts the kills.
        rng: says when and what.
        drivers, workers: how many of either are killed.
        pause: seconds between two kills, on average.
        is_worker: whether a process of this command line works on files.
    """
    began = time.monotonic()
    while True:
        with subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True) as driver:
            killed, at = False, time.monotonic() + rng.expovariate(1 / pause)
            while driver.poll() is None:
                time.sleep(0.02)
                if time.monotonic() < at:
                    continue
                at = time.monotonic() + rng.expovariate(1 / pause)
                family = descendants(driver.pid)
                working = [pid for pid in family if is_worker(command_line(pid))]
                left = drivers - outcome.drivers_killed, workers - outcome.workers_killed
                if not working or not any(left):
                    continue
                if rng.random() * sum(left) < left[0]:
                    driver.kill()
                    outcome.drivers_killed += 1
                    killed = True
                    wait_until_gone(working)
                else:
                    kill(rng.choice(working))
                    outcome.workers_killed += 1
            complaint = driver.stderr.read() if driver.stderr else ""
            if driver.returncode == 0:
                outcome.wall = round(time.monotonic() - began, 1)
                return
            if not killed:
                raise RuntimeError(f"the job ended with {driver.returncode}: {complaint[-2000:]}")


def check_rows(out: str, expected: Mapping[str, str], outcome: Outcome) -> pa.Table:
    """Hold the parts of a job against what they should be; all rows."""
    table = pa.concat_tables(read_parts(Storage(out)))
    ids, statuses = table["id"].to_pylist(), table["status"].to_pylist()
    outcome.rows, outcome.distinct = len(ids), len(set(ids))
    outcome.statuses = dict(Counter(statuses))
    outcome.wrong = [name for name, status in zip(ids, statuses, strict=True) if expected.get(name) != status]
    outcome.wrong += sorted(set(expected) - set(ids))
    return table


def scan_command(source: str, out: str, engine: str, shard_size: int, workers: int = 2) -> list[str]:
    """The command line of a scan of short clips."""
    return [
        *(sys.executable, "-m", "ideaw", "scan", source, "--out", out, "--speeds", "none", "--engine", engine),
        *("--shard-size", str(shard_size), "--workers", str(workers)),
    ]


def is_local_worker(line: str) -> bool:
    """Whether this is the command line of a process of the local engine."""
    return "multiprocessing.spawn" in line


def is_ray_worker(line: str) -> bool:
    """Whether this is the command line of an actor of Ray's that does shards."""
    return "ray::ShardActor" in line


IS_WORKER = {"local": is_local_worker, "ray": is_ray_worker}


def scan_under_kills(
    folder: Path, engine: str, files: int, shard_size: int, drivers: int, workers: int, pause: float, busy: float
) -> Outcome:
    """Scan clips in a bucket while workers and drivers are killed.

    Args:
        folder: for the log of the server.
        engine: "local" or "ray".
        files, shard_size: how many clips, and how many in a part.
        drivers, workers, pause: see `run_under_kills`.
        busy: share of requests that the bucket refuses.
    """
    outcome = Outcome(engine, files)
    with s3_server(folder / "server.log") as environment, patched_environment(environment):
        Storage("s3://catalogue").fs.mkdir("catalogue")
        expected = write_clips("s3://catalogue/in", files)
        set_busy(environment, busy)
        out = f"s3://catalogue/{engine}"
        command = scan_command("s3://catalogue/in", out, engine, shard_size)
        kills = {"drivers": drivers, "workers": workers, "pause": pause, "is_worker": IS_WORKER[engine]}
        run_under_kills(command, environment, outcome, random.Random(files), **kills)
        outcome.refusals = set_busy(environment, 0.0)
        check_rows(out, expected, outcome)
    return outcome


@contextlib.contextmanager
def patched_environment(environment: Mapping[str, str]) -> Iterator[None]:
    """These variables for as long as the block lasts."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def descendants(pid: int) -> list[int]:
    """What a process has started, and so on."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def command_line(pid: int) -> str:
    """The command line of a process; empty if it is no more."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def kill(pid: int) -> None:
    """End a process with -9, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait_until_gone(pids: list[int]) -> None:
    """Wait until none of these workers is there any more; raise `RuntimeError` if one stays."""
    until = time.monotonic() + ORPHAN_SECONDS
    while alive := [pid for pid in pids if command_line(pid)]:
        if time.monotonic() > until:
            raise RuntimeError(f"left behind by a killed driver: {[command_line(pid) for pid in alive]}")
        time.sleep(0.05)


def summary(outcome: Outcome) -> str:
    """The outcome in a line."""
    return json.dumps({name: value for name, value in vars(outcome).items() if name != "wrong"})
