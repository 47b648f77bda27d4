"""`ideaw embed` killed at any moment: what was at the target stays whole, or what should be there is."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

BEFORE = b"what was here before"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, speech: np.ndarray) -> Path:
    """Half a minute of speech."""
    path = tmp_path_factory.mktemp("kill") / "speech.wav"
    sf.write(path, np.tile(speech, 5), 16_000)
    return path


def embedding(source: Path, target: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ideaw", "embed", source, target, "-m", "hey"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


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
        left = len(strays(tmp_path))
        process = embedding(source, target)
        if attempt % 2:  # the moments that matter: while the file is being written, and put in its place
            while process.poll() is None and len(strays(tmp_path)) == left:
                time.sleep(0.0005)
            time.sleep(rng.uniform(0, 0.02))
        else:
            time.sleep(rng.uniform(0, takes))
        process.kill()
        process.wait()
        assert target.read_bytes() in (BEFORE, marked)
        assert source.read_bytes() == original


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_process_that_is_asked_to_end_leaves_no_temporary_file(
    tmp_path: Path, source: Path, ending: signal.Signals
) -> None:
    target = tmp_path / "out.flac"
    target.write_bytes(BEFORE)
    process = embedding(source, target)
    while process.poll() is None and not strays(tmp_path):
        time.sleep(0.0005)
    assert strays(tmp_path)  # the signal arrives while the file is being written
    process.send_signal(ending)
    assert process.wait(60) != 0
    assert not strays(tmp_path)
    assert target.read_bytes() == BEFORE
