"""The program itself: quick to start, quiet when it is stopped, clear about what is not installed."""

import os
import pty
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from tests.cli.conftest import PROGRAM, run, run_process

HEAVY = {"torch", "onnxruntime", "matplotlib", "scipy", "av", "yaml", "onnx", "pesq", "pystoi"}
COMMANDS = (
    "embed",
    "detect",
    "compare",
    "attack",
    "models",
    "demo",
    "train",
    "export",
    "bench",
    "keygen",
    "issue",
    "verify",
    "testcert",
)


@pytest.mark.slow
def test_version_and_help() -> None:
    assert run_process("--version").out == f"ideaw {version('ideaw')}\n"
    module = subprocess.run([sys.executable, "-m", "ideaw", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout == run_process("--version").out
    told = run_process("--help")
    assert told.code == 0
    assert all(f" {command} " in told.out for command in COMMANDS)
    for command in COMMANDS:
        assert run(command, "--help").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--help",), ("train", "--help"), ("attack", "--list"), ("models",)])
def test_nothing_heavy_is_imported_before_it_is_needed(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert imported & HEAVY == set()


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("nonsense",), ("embed",), ("embed", "a.wav", "b.wav"), ("detect", "--what")])
def test_a_command_line_that_is_wrong_ends_with_2(arguments: tuple[str, ...]) -> None:
    ran = run_process(*arguments)
    assert ran.code == 2
    assert "Usage: ideaw" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.slow
def test_an_interrupted_command_leaves_nothing_behind(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "in.wav", np.tile(speech, 100), 16_000)
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "embed", tmp_path / "in.wav", tmp_path / "out.wav", "-m", "hey"],
        stdout=subprocess.PIPE,
        stderr=side,
        env=os.environ | {"TERM": "xterm"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell in the background ignores it
    )
    os.close(side)
    shown = b""
    while b"marking in.wav" not in shown:
        shown += os.read(terminal, 1024)
    process.send_signal(signal.SIGINT)
    drained = bytearray(shown)
    try:
        while block := os.read(terminal, 1024):
            drained += block
    except OSError:  # the other side is closed: it has ended
        pass
    out, _ = process.communicate()
    os.close(terminal)
    assert process.returncode == 130
    assert out == b""
    assert b"Traceback" not in drained
    assert [path.name for path in tmp_path.iterdir()] == ["in.wav"]


@pytest.mark.slow
def test_a_reader_that_went_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([PROGRAM, "attack", "--list"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b""


def without(package: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The program where a package cannot be imported."""
    script = f"import sys; sys.modules[{package!r}] = None; from ideaw.cli import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_missing_extra_is_named(tmp_path: Path, spoken: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("steps: 1")
    plot = tmp_path / "plot.png"
    for package, extra, arguments in (
        ("torch", "train", ("train", recipe, "--data", tmp_path)),
        ("torch", "train", ("export", tmp_path, tmp_path / "model")),
        ("matplotlib", "bench", ("compare", spoken, spoken, "--plot", plot)),
        ("matplotlib", "bench", ("detect", spoken, "--plot", plot)),
        ("av", "formats", ("embed", spoken, tmp_path / "out.m4a", "-m", "hey")),
    ):
        ran = without(package, *arguments)
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
        assert f'pip install "ideaw[{extra}]"' in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]


@pytest.mark.slow
def test_snr_is_given_where_pesq_is_missing(spoken: Path, marked: Path) -> None:
    ran = without("pesq", "compare", spoken, marked)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert " dB" in ran.stdout
    assert 'pip install "ideaw[bench]"' in ran.stdout
