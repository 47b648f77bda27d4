"""`ideaw embed` killed at any moment: what was at the target stays whole, or what should be there is."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

import ideaw
from ideaw.audio.write import write_audio

BEFORE = b"what was here before"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, speech: np.ndarray) -> Path:
    """Half a minute of speech."""
    path = tmp_path_factory.mktemp("kill") / "speech.wav"
    sf.write(path, np.tile(speech, 5), 16_000)
    return path


def embedding(source: Path, target: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ideaw", "embed", source, target, "-m", "hey", "--overwrite"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=hear_signals)


def hear_signals() -> None:
    """Signals that whoever runs the tests ignores, as nohup does, end a process all the same."""
    for ending in (signal.SIGHUP, signal.SIGINT):
        signal.signal(ending, signal.SIG_DFL)


def is_writing(process: subprocess.Popen[bytes], folder: Path) -> bool:
    """Whether the process has a file of the folder open that is not its source: one without a name, or a hidden one."""
    try:
        names = [os.readlink(link) for link in Path(f"/proc/{process.pid}/fd").iterdir()]
    except OSError:
        return False
    return any(name.startswith(str(folder)) and (name.endswith(" (deleted)") or "/.ideaw-" in name) for name in names)


def strays(folder: Path) -> list[Path]:
    return list(folder.glob(".ideaw-*"))


@pytest.mark.slow
def test_a_killed_process_leaves_the_old_file_or_the_new_one(tmp_path: Path, source: Path) -> None:
    original = source.read_bytes()
    started = time.monotonic()
    assert embedding(source, tmp_path / "whole.flac").wait() == 0
    takes = time.monotonic() - started
    marked = (tmp_path / "whole.flac").read_bytes()
    target, rng = tmp_path / "out.flac", np.random.default_rng(0)
    for attempt in range(8):
        target.write_bytes(BEFORE)
        process = embedding(source, target)
        if attempt % 2:  # the moments that matter: while the file is being written, and put in its place
            while process.poll() is None and not is_writing(process, tmp_path):
                time.sleep(0.0005)
            time.sleep(rng.uniform(0, 0.02))
        else:
            time.sleep(rng.uniform(0, takes))
        process.kill()
        process.wait()
        assert target.read_bytes() in (BEFORE, marked)
        assert source.read_bytes() == original
        assert not strays(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_process_that_is_asked_to_end_leaves_no_temporary_file(
    tmp_path: Path, source: Path, ending: signal.Signals
) -> None:
    target = tmp_path / "out.flac"
    for _ in range(5):  # on a busy machine the file may be complete before the signal arrives
        target.write_bytes(BEFORE)
        process = embedding(source, target)
        while process.poll() is None and not is_writing(process, tmp_path):
            time.sleep(0.0005)
        process.send_signal(ending)
        if process.wait(60) != 0:
            break
    assert process.returncode != 0  # the signal arrived while the file was being written
    assert not strays(tmp_path)
    assert target.read_bytes() == BEFORE


IN_A_THREAD = """
import sys, threading, ideaw
done = threading.Thread(target=ideaw.embed_file, args=(sys.argv[1], sys.argv[2], "hey"))
done.start()
done.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_where_another_thread_writes(tmp_path: Path, source: Path, ending: signal.Signals) -> None:
    target = tmp_path / "out.flac"
    process = subprocess.Popen([sys.executable, "-c", IN_A_THREAD, source, target])
    while process.poll() is None and not is_writing(process, tmp_path):
        time.sleep(0.0005)
    assert is_writing(process, tmp_path)
    process.send_signal(ending)
    assert process.wait(60) == -ending
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_without_files_that_have_no_name_a_signal_leaves_none_either(tmp_path: Path, source: Path) -> None:
    """As on network drives: the hidden temporary file is removed, also when the process is asked to end."""
    script = "import os, sys; del os.O_TMPFILE; import ideaw; ideaw.embed_file(*sys.argv[1:], 'hey')"
    target = tmp_path / "out.flac"
    process = subprocess.Popen([sys.executable, "-c", script, source, target])
    while process.poll() is None and not strays(tmp_path):
        time.sleep(0.0005)
    assert strays(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())


WITH_LITTLE_ROOM = """
import os, resource, sys
import ideaw
marker, target = ideaw.load(threads=1), sys.argv[1]
for source in sys.argv[2:]:
    for verify in (True, False):
        for share in (0.02, 0.6, 0.97):
            room = int(share * os.path.getsize(source))
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
            try:
                marker.embed_file(source, target + os.path.splitext(source)[1], "hey", verify=verify, over=True)
            except ideaw.FileError as problem:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
                print(problem)
"""


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, music: np.ndarray) -> None:
    """At every size at which the disk may be full: while samples are coded, and while what surrounds them is copied."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    sources = [tmp_path / "in" / f"music{suffix}" for suffix in (".wav", ".flac", ".mp3", ".ogg", ".m4a")]
    for path in sources:
        write_audio(path, music[: 2 * 44_100].astype(np.float64), 44_100)
    before = [path.read_bytes() for path in sources]
    command = [sys.executable, "-c", WITH_LITTLE_ROOM, tmp_path / "out" / "marked", *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 6 * len(sources)
    reasons = ("file too large", "the disk may be full")  # never libsndfile's "System error"
    assert all("cannot be written" in line and line.endswith(reasons) for line in lines), lines
    assert not list((tmp_path / "out").iterdir())
    assert [path.read_bytes() for path in sources] == before


def test_a_drive_that_vanishes_is_one_line(tmp_path: Path, source: Path) -> None:
    drive = tmp_path / "drive"
    drive.mkdir()
    marker = ideaw.load(threads=1)

    def unplug(share: float) -> None:
        if share > 0.5 and drive.exists():
            shutil.rmtree(drive)

    with pytest.raises(ideaw.FileError, match="cannot be written") as caught:
        marker.embed_file(source, drive / "out.wav", "hey", progress=unplug)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
