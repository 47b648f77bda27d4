"""Commands as users give them: most within this process, for speed, and some as a process of their own."""

import contextlib
import io
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from ideaw.cli import main

PROGRAM = Path(sys.executable).with_name("ideaw")


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def run(*arguments: object) -> Ran:
    """The command line within this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    code = ended.value.code
    assert isinstance(code, int | None)
    return Ran(code or 0, out.getvalue(), err.getvalue())


def run_process(*arguments: object) -> Ran:
    """The installed program."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def spoken(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32]) -> Path:
    """A WAV file of speech, which no test may change."""
    path = tmp_path_factory.mktemp("spoken") / "speech.wav"
    sf.write(path, speech, 16_000)
    return path


@pytest.fixture(scope="session")
def marked(tmp_path_factory: pytest.TempPathFactory, spoken: Path) -> Path:
    """The same with "hey" in it."""
    path = tmp_path_factory.mktemp("marked") / "marked.wav"
    assert run("embed", spoken, path, "-m", "hey").code == 0
    return path
