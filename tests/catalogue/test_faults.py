"""Nothing lost, nothing twice: workers and drivers killed with -9, a bucket that is busy, files that kill."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

import ideaw
from ideaw.catalogue.storage import Storage
from tests.catalogue.conftest import rows

CRASH = """
import os, signal, sys

def crash(event, arguments):
    if event == "open" and str(arguments[0]).endswith("deadly.flac"):
        os.kill(os.getpid(), signal.SIGSEGV)

sys.addaudithook(crash)
"""
"""What makes every process die that opens a certain file, as a decoder that crashes would."""

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


@LINUX
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_kills_and_a_busy_bucket_lose_nothing(
    bucket: Mapping[str, str], faults: ModuleType, engine: str, tmp_path: Path
) -> None:
    files, source, out = 60, f"s3://catalogue/in-{engine}", f"s3://catalogue/out-{engine}"
    expected = faults.write_clips(source, files)
    faults.set_busy(bucket, 0.03)
    outcome = faults.Outcome(engine, files)
    command = faults.scan_command(source, out, engine, shard_size=10)
    faults.run_under_kills(
        *(command, bucket, outcome, random.Random(1)),
        drivers=1,
        workers=2,
        pause=0.5,
        is_worker=faults.IS_WORKER[engine],
    )
    faults.set_busy(bucket, 0)
    faults.check_rows(out, expected, outcome)
    assert (outcome.rows, outcome.distinct, outcome.wrong) == (files, files, [])
    assert outcome.drivers_killed + outcome.workers_killed > 0


@LINUX
@pytest.mark.slow
def test_marking_under_kills_marks_each_file_once_and_whole(
    bucket: Mapping[str, str], faults: ModuleType, tmp_path: Path
) -> None:
    files, source, out = 24, "s3://catalogue/to-mark", "s3://catalogue/marks"
    faults.write_clips(source, files)
    names = [f"000/{number:06}.flac" for number in range(files)]
    table = tmp_path / "messages.csv"
    table.write_text("id,message\n" + "".join(f"{name},m{number}\n" for number, name in enumerate(names)))
    faults.set_busy(bucket, 0.03)
    outcome = faults.Outcome("local", files)
    command = [
        *(sys.executable, "-m", "ideaw", "mark", source, "--out", out, "--messages", str(table)),
        *("--shard-size", "4", "--workers", "2"),
    ]
    faults.run_under_kills(
        *(command, bucket, outcome, random.Random(2)),
        drivers=1,
        workers=2,
        pause=0.5,
        is_worker=faults.is_local_worker,
    )
    faults.set_busy(bucket, 0)
    found = rows(out)
    assert sorted(found.column("id")) == names
    marker, plain, copy = ideaw.load(threads=1), tmp_path / "plain.flac", tmp_path / "once.flac"
    for number, name in enumerate(names):
        row = found.of(name)
        if number % 2 or number % faults.UNREADABLE_STRIDE == 0:  # marked before, or no audio
            assert row["status"] == "error"
            assert not Storage(out).exists(f"marked/{name}")
            continue
        plain.write_bytes(Storage(source).read(name))
        marker.embed_file(plain, copy, f"m{number}")
        assert (row["status"], row["message"]) == ("marked", f"m{number}")
        assert Storage(out).read(f"marked/{name}") == copy.read_bytes()


@LINUX
@pytest.mark.slow
def test_workers_of_a_killed_driver_end_by_themselves(clips: Path, tmp_path: Path, faults: ModuleType) -> None:
    command = faults.scan_command(str(clips), str(tmp_path / "job"), "local", shard_size=4)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as driver:
        while not (working := [pid for pid in faults.descendants(driver.pid) if faults.command_line(pid)]):
            time.sleep(0.05)
        driver.kill()
    faults.wait_until_gone(working)


@LINUX
@pytest.mark.slow
def test_a_file_that_kills_every_worker_is_an_error_and_the_others_are_done(
    clips: Path, tmp_path: Path, faults: ModuleType
) -> None:
    source, out = tmp_path / "in", tmp_path / "job"
    source.mkdir()
    for name in ("0.flac", "1.flac", "2.flac", "deadly.flac", "4.flac", "5.flac"):
        (source / name).write_bytes((clips / "1.flac").read_bytes())
    (tmp_path / "sitecustomize.py").write_text(CRASH)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = faults.scan_command(str(source), str(out), "local", shard_size=3, workers=1)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert rows(out).of("deadly.flac")["error"] == "the process that worked on it died 3 times: signal SIGSEGV"
    assert [row["status"] for row in rows(out).table.to_pylist() if row["id"] != "deadly.flac"] == ["found"] * 5
