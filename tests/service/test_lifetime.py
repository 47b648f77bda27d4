"""How a service begins and ends: on a signal, by a kill, with a job running; and that nothing is left of it."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ideaw.service.folder import FOLDER_PREFIX, private_folder, sweep

from .conftest import PATIENCE_SECONDS, Running, children, is_alive, service, started, wait_until
from .test_limits import HEAD, OPENING, preview_later

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]

SERVE = ("-m", "ideaw", "serve", "--no-open", "--workers", "1")


def busy_worker(running: Running) -> int:
    """Stop the one worker where it is, so that a job takes until it is continued."""
    (worker,) = [pid for pid, command in children(running.process.pid).items() if "worker" in command]
    os.kill(worker, signal.SIGSTOP)
    return worker


def test_uploads_lie_where_only_their_owner_looks(tmp_path: Path) -> None:
    with service(tmp_path, workers=1) as running, running.connect() as connection:
        connection.sendall(f"{HEAD}Content-Length: 100000\r\n\r\n".encode() + OPENING + b"x" * 1_000)
        wait_until(lambda: running.uploads != [], "the upload has begun")
        (folder,) = running.folders
        for place in (folder, *running.uploads):
            assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_killed_service_leaves_no_file_and_no_process(tmp_path: Path, spoken: Path) -> None:
    with service(tmp_path, workers=1) as running, running.connect() as half:
        processes = list(children(running.process.pid))
        worker = busy_worker(running)
        thread, _ = preview_later(running, spoken)
        wait_until(lambda: running.metric("ideaw_workers_busy") == 1, "a job runs")
        half.sendall(f"{HEAD}Content-Length: 100000\r\n\r\n".encode() + OPENING + b"x" * 1_000)
        wait_until(lambda: len(running.uploads) == 2, "an upload has begun")
        os.kill(running.process.pid, signal.SIGKILL)
        os.kill(worker, signal.SIGCONT)
        wait_until(lambda: list(tmp_path.iterdir()) == [], "the folder is gone")
        wait_until(lambda: not any(map(is_alive, processes)), "all processes are gone")
        thread.join()


def test_what_even_the_guard_could_not_delete_is_deleted_by_the_next(tmp_path: Path, spoken: Path) -> None:
    with service(tmp_path, workers=1) as running, running.connect() as half:
        half.sendall(f"{HEAD}Content-Length: 100000\r\n\r\n".encode() + OPENING + b"x" * 1_000)
        wait_until(lambda: running.uploads != [], "an upload has begun")
        processes = children(running.process.pid)
        for pid in (*[pid for pid, command in processes.items() if "guard" in command], running.process.pid):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, processes)), "all processes are gone")
        (left,) = running.folders
        assert [path.name for path in left.rglob("*") if path.is_file()] != []
    with service(tmp_path, workers=1) as running:
        assert left not in running.folders
        assert len(running.folders) == 1


def test_a_sweep_leaves_what_lives_and_what_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (tmp_path / f"{FOLDER_PREFIX}link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / f"{FOLDER_PREFIX}dead").mkdir()
    (tmp_path / "other").mkdir()
    with private_folder() as folder:
        sweep(tmp_path)
        assert folder.is_dir()
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
            ["elsewhere", f"{FOLDER_PREFIX}link", "other", folder.name]
        )
        assert (tmp_path / "elsewhere" / "kept").exists()
    assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_asked_to_stop_finishes_what_runs_and_takes_nothing_new(
    tmp_path: Path, spoken: Path, number: signal.Signals
) -> None:
    with service(tmp_path, workers=1) as running:
        worker = busy_worker(running)
        thread, answers = preview_later(running, spoken)
        wait_until(lambda: running.metric("ideaw_workers_busy") == 1, "a job runs")
        running.process.send_signal(number)

        def refuses() -> bool:
            try:
                running.connect().close()
            except OSError:
                return True
            return False

        wait_until(refuses, "nothing new is taken")
        assert running.process.poll() is None
        os.kill(worker, signal.SIGCONT)
        thread.join()
        assert answers[0].status_code == 200
        assert running.process.wait(PATIENCE_SECONDS) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_stop_does_not_wait_for_ever(tmp_path: Path, spoken: Path) -> None:
    with service(tmp_path, workers=1, stderr=subprocess.DEVNULL, limits={"stop_seconds": 1.0}) as running:
        worker = busy_worker(running)
        thread, _ = preview_later(running, spoken)
        wait_until(lambda: running.metric("ideaw_workers_busy") == 1, "a job runs")
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(PATIENCE_SECONDS)
        wait_until(lambda: not is_alive(worker), "the worker is gone")
        thread.join()
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, *SERVE, "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"port {port} of 127.0.0.1 is in use" in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--model", "99+99"), "99+99"),
        (("--key", "nowhere.key"), "nowhere.key"),
        (("--token-file", "nowhere.tokens"), "nowhere.tokens"),
        (("--max-seconds", "inf"), "seconds"),
        (("--host", "no.such.host.invalid"), "no.such.host.invalid"),
    ],
)
def test_what_cannot_be_served_is_one_line(tmp_path: Path, options: tuple[str, str], says: str) -> None:
    command = [sys.executable, *SERVE, "--port", "0", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr


def test_the_page_is_opened_once_it_can_be_loaded(tmp_path: Path) -> None:
    seen, script = tmp_path / "seen", tmp_path / "browser"
    script.write_text(
        f"#!{sys.executable}\n"
        "import sys, urllib.request\n"
        f"open({str(seen)!r}, 'w').write(urllib.request.urlopen(sys.argv[1]).read().decode())\n"
    )
    script.chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = os.environ | {"BROWSER": f"{script} %s", "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "ideaw", "serve", "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: seen.exists() and "</html>" in seen.read_text(), "the browser has the page")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


IN_A_BOX = """
mount --bind {temporary} {temporary} && mount -o remount,bind,ro / && cd / && exec setpriv {rights} "$@"
"""
"""Runs a command with all of the machine's file system read-only but one folder."""

RIGHTS = {
    "another user": "--reuid 65534 --regid 65534 --clear-groups --no-new-privs",
    "no capabilities": "--bounding-set=-all --inh-caps=-all --no-new-privs",
}
"""What is left of root's; a container's user has neither a name nor capabilities."""

PROBE = "import subprocess, sys; subprocess.check_call([sys.executable, '-c', '']); open('/usr/forbidden', 'w')"
"""Fails at its end in a box that works."""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody reaches, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.mark.parametrize("rights", RIGHTS.values(), ids=RIGHTS)
def test_a_user_without_rights_is_served_on_a_read_only_system(open_folder: Path, spoken: Path, rights: str) -> None:
    box = ("unshare", "--mount", "sh", "-c", IN_A_BOX.format(temporary=open_folder, rights=rights), "box")
    probe = (*box, sys.executable, "-c", PROBE)
    tried = subprocess.run(probe, capture_output=True, text=True)
    if "Read-only file system" not in tried.stderr:
        pytest.skip(
            "no such box can be made here: that takes unshare, mount, setpriv, rights, and a Python for everybody"
        )
    with started(open_folder, *SERVE, "--port", "0", prefix=box) as running:
        marked = running.post("embed", {"message": "hey"}, file=spoken).content
        assert running.post("detect", file=("marked.wav", marked)).json()["message"] == "hey"
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        assert "CapEff:\t0000000000000000" in status
    assert list(open_folder.iterdir()) == []


def test_a_service_whose_folder_was_cleaned_away_says_so(tmp_path: Path, spoken: Path) -> None:
    with service(tmp_path, workers=1) as running:
        assert running.client.get("/health").status_code == 200
        for folder in running.folders:
            folder.rmdir()
        assert running.client.get("/health").status_code == 503
        assert running.post("detect", file=spoken).status_code == 503


def test_the_command_line_sets_the_limits(tmp_path: Path, spoken: Path) -> None:
    with started(tmp_path, *SERVE, "--port", "0", "--max-seconds", "2", "--max-mb", "1") as running:
        limits = running.client.get("/v1/info").json()["limits"]
        assert (limits["seconds"], limits["bytes"]) == (2, 1_000_000)
        assert running.post("detect", file=spoken).status_code == 413


def test_a_service_without_its_packages_names_the_extra(tmp_path: Path) -> None:
    for package in ("fastapi", "uvicorn", "prometheus_client", "python_multipart"):
        without = f"import sys; sys.modules[{package!r}] = None; import ideaw.cli; ideaw.cli.main(['serve'])"
        done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert 'pip install "ideaw[serve]"' in done.stderr
