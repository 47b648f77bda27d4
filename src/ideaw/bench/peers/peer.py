"""A system in a process of its own, which `worker.py` runs: a line of JSON is asked, a line of JSON is answered.

Its environment is `.peers/NAME`, as `make peers` makes it (or in the folder that IDEAW_PEERS names). What is absent,
does not answer in time or breaks down is a `PeerError` of one line, so that a benchmark can say it and go on.
"""

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ideaw.bench.peers.systems import IDEAW, SYSTEMS
from ideaw.errors import PeerError

WORKER = Path(__file__).with_name("worker.py")

ANSWER_TIMEOUT_SECONDS = 600.0
"""Seconds that one answer may take."""

EXIT_GRACE_SECONDS = 1.0
"""Seconds for which the last output of a process that ended is read."""


@dataclass(frozen=True)
class PeerDetection:
    """What a peer finds in a file: its decision, the bits of a message, and how sure it is of a mark (0 to 1)."""

    mark: bool
    bits: tuple[int, ...] | None
    score: float


@dataclass(frozen=True)
class TaskCost:
    """What a task took: seconds by the clock and of the processors, and the most bytes that its process ever held."""

    wall: float
    cpu: float
    peak: float


class JsonLineProcess:
    """A process that answers lines of JSON. One that fails is ended, with all it began, and begun anew when asked."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str], timeout: float) -> None:
        self._name, self._command, self._environment, self._timeout = name, command, environment, timeout
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> dict[str, Any]:
        """Begin the process and wait for its first line."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=self._environment,
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._complaints: deque[str] = deque(maxlen=1)
        pipes = (self._process.stdout, self._lines.put), (self._process.stderr, self._complain)
        self._readers = [threading.Thread(target=_forward_lines, args=pipe, daemon=True) for pipe in pipes]
        for reader in self._readers:
            reader.start()
        return self._answer()

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to one request."""
        if self._process is None:
            self.start()
        assert self._process
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has ended, as the missing answer will tell
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """End the process and all that it began."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            for reader in self._readers:
                reader.join(EXIT_GRACE_SECONDS)
            assert self._process.stdin
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process = None

    def _complain(self, line: str) -> None:
        """Remember the last line that says anything."""
        if line.strip():
            self._complaints.append(line)

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=self._timeout)
        except queue.Empty:
            self.close()
            raise PeerError(f"{self._name}: no answer within {self._timeout:g} s") from None
        if not line:
            self.close()
            last = self._complaints[0].strip() if self._complaints else "it said nothing"
            raise PeerError(f"{self._name}: it broke down: {last}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self._name}: {answer['error']}")
        return answer


class Peer:
    """One system, ready to be asked; close it, or use it with `with`.

    `weights` is where its weights lie, if they come neither with it nor with its package; without them it can be timed
    only. `threads` is how many it may use.
    """

    bits: int
    """Bits of a message; 0: it only tells that a mark is there."""

    def __init__(
        self,
        name: str,
        weights: Path | None = None,
        threads: int = 1,
        timeout: float = ANSWER_TIMEOUT_SECONDS,
        at: Path | None = None,
    ) -> None:
        self.title = SYSTEMS[name].title
        python = interpreter(name, at)
        command = [python, str(WORKER), name, str(threads), *([str(weights.resolve())] if weights else [])]
        limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        self._process = JsonLineProcess(self.title, command, environment(python) | limits, timeout)
        self.bits = self._process.start()["bits"]

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def embed(self, host: Path, target: Path, message: Sequence[int] = ()) -> TaskCost:
        """Write the audio of `host`, with a message of `bits` bits, to `target`."""
        if len(message) != self.bits:
            raise PeerError(f"{self.title}: a message of {self.bits} bits is needed, not of {len(message)}")
        bits = "".join(str(int(bit)) for bit in message)
        return _task_cost(self._process.ask(task="embed", file=str(host), to=str(target), message=bits))

    def detect(self, file: Path) -> PeerDetection:
        """What it finds in a file."""
        answer = self._process.ask(task="detect", file=str(file))
        bits = answer["bits"]
        return PeerDetection(answer["mark"], None if bits is None else tuple(map(int, bits)), answer["score"])

    def time(self, task: str, file: Path) -> TaskCost:
        """How long a task takes on a file; of one that takes very long a part is done, and the rest calculated."""
        return _task_cost(self._process.ask(task=task, file=str(file), timed=True))

    def close(self) -> None:
        """End its process."""
        self._process.close()


def interpreter(name: str, at: Path | None = None) -> str:
    """The Python that runs a system's worker, from the folder of environments `at`; raises `PeerError` if absent."""
    system = SYSTEMS[name]
    if system.program is not None and shutil.which(system.program) is None:
        raise PeerError(f"{system.title}: left out, since there is no {system.program} on the PATH")
    if system.program is not None or name == IDEAW:
        return sys.executable
    folder = at or Path(os.environ.get("IDEAW_PEERS", ".peers"))
    python = folder / name / "bin" / "python"
    if not python.exists():
        raise PeerError(f"{system.title}: left out, since {python} does not exist; make peers installs it")
    return str(python.absolute())


def installed_size(name: str, at: Path | None = None) -> int:
    """Bytes that a system and all that it requires take on the disk."""
    python, program = interpreter(name, at), SYSTEMS[name].program
    if program is not None:
        return Path(shutil.which(program) or program).stat().st_size
    return int(_output_of(python, str(WORKER), name, "size", *SYSTEMS[name].distributions))


def version(name: str, at: Path | None = None) -> str:
    """Which version of a system there is."""
    python, program = interpreter(name, at), SYSTEMS[name].program
    if program is not None:
        return _output_of(program, "--version").split()[-1]
    return _output_of(python, str(WORKER), name, "version", *SYSTEMS[name].distributions)


def environment(python: str) -> dict[str, str]:
    """Ours for our own interpreter; another one must not see our packages."""
    return {name: value for name, value in os.environ.items() if python == sys.executable or name != "PYTHONPATH"}


def _output_of(*command: str) -> str:
    """What a command prints, without the end of its line; `PeerError` if it fails."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=ANSWER_TIMEOUT_SECONDS,
            env=environment(command[0]),
            check=True,
        )
    except subprocess.SubprocessError as problem:
        raise PeerError(" ".join(str(problem).split())) from problem
    return done.stdout.strip()


def _task_cost(answer: dict[str, Any]) -> TaskCost:
    return TaskCost(answer["wall"], answer["cpu"], answer["peak"])


def _forward_lines(pipe: IO[str], to: Callable[[str], None]) -> None:
    """Every line that comes out of a pipe, and an empty one at its end."""
    with pipe:
        for line in pipe:
            to(line)
    to("")
