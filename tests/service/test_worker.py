"""A worker by itself: jobs on its standard input, outcomes on its output, an end when nobody asks any more."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile as sf

from ideaw.service.jobs import Attack, Done, Job, Outcome, Preview, Refused
from ideaw.service.worker import READY

from .conftest import PATIENCE_SECONDS

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]

CONFINED = """
from pathlib import Path
from ideaw.service import worker

(mapped,) = [int(row.split()[1]) << 10 for row in Path("/proc/self/status").read_text().splitlines() if "VmSize" in row]
worker.ADDRESS_SPACE_BYTES = mapped + (600 << 20)
worker.main()
"""
"""A worker with little memory beside its libraries."""


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", CONFINED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == READY
        yield process
        process.kill()


def ask(worker: subprocess.Popen[bytes], job: Job) -> Outcome:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(msgspec.json.encode(job) + b"\n")
    worker.stdin.flush()
    return msgspec.json.decode(worker.stdout.readline(), type=Outcome)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound the memory of a process")
def test_a_job_that_needs_more_memory_than_there_is_fails_alone(
    worker: subprocess.Popen[bytes], tmp_path: Path, spoken: Path
) -> None:
    long, short = tmp_path / "long.flac", tmp_path / "short.wav"
    sf.write(long, np.zeros(40_000_000, np.int16), 44_100)
    short.write_bytes(spoken.read_bytes())
    refused = ask(worker, Attack(str(long), "noise", 1e6, 10**9))
    assert isinstance(refused, Refused)
    assert (refused.status, "memory" in refused.line) == (413, True)
    done = ask(worker, Preview(str(short), 10.0, 10**6))
    assert isinstance(done, Done)
    assert done.answer == {"file": "preview.wav", "rate": 16_000, "channels": 1}


def test_a_worker_ends_in_the_middle_of_a_job_when_nobody_asks_any_more(
    worker: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    long = tmp_path / "long.flac"
    sf.write(long, np.zeros(40_000_000, np.int16), 44_100)
    assert worker.stdin is not None
    worker.stdin.write(msgspec.json.encode(Preview(str(long), 1e6, 10**9)) + b"\n")
    worker.stdin.close()
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert worker.stdout is not None
    assert worker.stdout.read() == b""
