"""What an engine must be told in one line before any work, and what it must not do."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ideaw.catalogue.engines.on_ray import within
from ideaw.catalogue.storage import Storage
from tests.catalogue.conftest import rows
from tests.cli.conftest import run

OTHER_VERSION = "Metadata-Version: 2.1\nName: ideaw\nVersion: 9.9.9\n"
NO_PROC = pytest.mark.skipif(sys.platform != "linux", reason="sockets are found in /proc")


def refused(out: Path, *arguments: object) -> str:
    """The only line of a scan that must end before it does anything."""
    ran = run("scan", *arguments, "--out", out)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    assert not list(out.glob("part-*"))
    return ran.err


def test_an_address_where_no_ray_is_is_refused_before_anything_is_written(clips: Path, tmp_path: Path) -> None:
    engine = ("--engine", "ray", "--address")
    assert "there is no Ray cluster at 127.0.0.1:9" in refused(tmp_path / "a", clips, *engine, "127.0.0.1:9")
    assert "is no address of a Ray cluster" in refused(tmp_path / "a", clips, *engine, "somewhere")
    assert "is no address of a Ray cluster" in refused(tmp_path / "a", clips, *engine, "ray://127.0.0.1:10001")
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_a_bucket_without_permission_is_refused(
    clips: Path, tmp_path: Path, bucket: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "s3://nobody/in cannot be listed: it does not exist" in refused(tmp_path / "a", "s3://nobody/in")
    ran = run("scan", clips, "--out", "s3://nobody/out")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "s3://nobody/out" in ran.err
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    Storage("s3://catalogue").fs.clear_instance_cache()
    try:
        assert "Unable to locate credentials" in refused(tmp_path / "a", "s3://catalogue/in")
    finally:
        Storage("s3://catalogue").fs.clear_instance_cache()


@pytest.mark.slow
def test_a_bucket_that_refuses_this_caller_is_refused(bucket: dict[str, str], tmp_path: Path) -> None:
    from urllib.request import urlopen

    Storage("s3://catalogue").write("private/1.flac", b"")
    with urlopen(f"{bucket['AWS_ENDPOINT_URL']}/forbid?on=1"):
        pass
    try:
        assert "s3://catalogue/private cannot be listed: permission denied" in refused(
            tmp_path / "a", "s3://catalogue/private"
        )
    finally:
        with urlopen(f"{bucket['AWS_ENDPOINT_URL']}/forbid?on=0"):
            pass


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """A Ray cluster of two cores on 127.0.0.1 whose workers have another version; the environment of its drivers."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "ideaw-9.9.9.dist-info").mkdir()
    (folder / "ideaw-9.9.9.dist-info/METADATA").write_text(OTHER_VERSION)
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = os.environ | token | {"RAY_USAGE_STATS_ENABLED": "0"}
    alone = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "PYTHONPATH": str(folder)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(Path(sys.executable).with_name("ray"), "start", "--head", "--block", f"--port={port}", "--num-cpus=2"),
        *("--object-store-memory=100000000", "--include-dashboard=false", "--disable-usage-stats"),
    ]
    with (folder / "log").open("w") as log:
        head = subprocess.Popen(command, env=environment | alone, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 120
        while "Ray runtime started" not in (folder / "log").read_text():
            assert time.monotonic() < until
            assert head.poll() is None, (folder / "log").read_text()
            time.sleep(0.2)
        yield f"127.0.0.1:{port}", environment
    finally:
        head.terminate()
        head.wait()


@pytest.mark.slow
def test_workers_of_a_cluster_must_have_the_version_of_the_driver(
    cluster: tuple[str, dict[str, str]], clips: Path, tmp_path: Path
) -> None:
    address, environment = cluster
    command = [
        *(sys.executable, "-m", "ideaw", "scan", str(clips), "--out", str(tmp_path / "job")),
        *("--engine", "ray", "--address", address, "--speeds", "none", "--shard-size", "3"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("ideaw: "))
    assert (done.returncode, done.stdout) == (2, "")
    assert "has other versions (ideaw 9.9.9 there, " in line
    assert not list((tmp_path / "job").glob("part-*"))
    shutil.rmtree(tmp_path / "job")

    same = environment | {"PYTHONPATH": str(next(tmp_path.parent.glob("cluster*")))}
    done = subprocess.run([*command, "--workers", "3"], capture_output=True, text=True, env=same, timeout=300)
    assert "ideaw: 3 workers need as many cores, and the cluster has 2; give fewer\n" in done.stderr
    assert not (tmp_path / "job").exists()
    done = subprocess.run(command, capture_output=True, text=True, env=same, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(set(rows(tmp_path / "job").column("id"))) == 9


def test_patience_ends_even_where_every_exception_is_taken_for_a_reason_to_try_again() -> None:
    def connect() -> None:
        with within(0.2):
            while True:
                with contextlib.suppress(Exception):
                    time.sleep(10)

    with pytest.raises(TimeoutError, match=r"does not answer within 0\.2 s"):
        connect()
    with within(300):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)  # no alarm is left


@NO_PROC
@pytest.mark.slow
def test_a_ray_of_this_machine_listens_to_no_other(clips: Path, tmp_path: Path, faults: ModuleType) -> None:
    out = tmp_path / "job"
    command = faults.scan_command(str(clips), str(out), "ray", shard_size=2)
    addresses: set[str] = set()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as driver:
        while driver.poll() is None:
            addresses |= listening([driver.pid, *faults.descendants(driver.pid)])
            time.sleep(0.2)
        assert driver.returncode == 0
    assert addresses
    assert addresses <= {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert len(rows(out).column("id")) == 9


def listening(pids: list[int]) -> set[str]:
    """The addresses, in the digits of the kernel, at which any of these processes listens."""
    sockets = set()
    for pid in pids:
        try:
            links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        sockets |= {link[8:-1] for link in links if link.startswith("socket:[")}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(fields[1].partition(":")[0])
    return found
