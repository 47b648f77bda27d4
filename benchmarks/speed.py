"""Our speed, memory and size, and those of peers in the same run.

    python benchmarks/speed.py --peers PYTHON --json docs/results/speed.json [--repeats 5] [--seconds 10 60]

PYTHON is another interpreter, in whose environment AudioSeal, WavMark and Perth are looked for; what is not there is
left out. Every system runs in a process of its own, and they take turns: ours, a peer, the next, ours again. Ratios are
medians over the turns, so a machine that is busy now and then slows all of them.
"""

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray
from speed_worker import PACKAGES

import ideaw

OURS = "ideaw"
PEERS = tuple(name for name in PACKAGES if name != OURS)
WORKER = Path(__file__).with_name("speed_worker.py")
NARROW, WIDE = 16_000, 44_100
"""Rates in Hz: of the mono files, which all systems take, and of the stereo files, which only ours takes."""

TIMEOUT = 600.0
"""Seconds that one answer may take."""


@dataclass(frozen=True)
class Time:
    """What one task of one system took: medians in seconds, and how many times ours that is."""

    system: str
    task: str
    audio: str
    seconds: float
    threads: int
    wall: float
    cpu: float
    times_ours: dict[str, float]
    """Our task → this time over ours, turn by turn."""


@dataclass
class Table:
    """What `speed.py` measured."""

    times: list[Time] = field(default_factory=list)
    imports: dict[str, float] = field(default_factory=dict)
    """Seconds from the start of Python to the end of the import."""
    commands: dict[str, float] = field(default_factory=dict)
    """Seconds of our commands."""
    peak: dict[str, dict[str, float]] = field(default_factory=dict)
    """System → task on the longest mono file → bytes of memory."""
    size: dict[str, int] = field(default_factory=dict)
    """Bytes on disk, with all that is required."""


class Worker:
    """A system in a process of its own."""

    def __init__(self, python: str, system: str, threads: int) -> None:
        limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        self._process = subprocess.Popen(
            [python, str(WORKER), system, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if system == OURS else subprocess.DEVNULL,
            text=True,
            env=_environment(python) | limits,
        )
        self._answer()

    def run(self, task: str, file: Path, rate: int) -> dict[str, float]:
        """Seconds (wall and CPU) and peak memory of one task."""
        assert self._process.stdin
        print(json.dumps({"task": task, "file": str(file), "rate": rate}), file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], TIMEOUT)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self.close()
            raise TimeoutError(f"no answer within {TIMEOUT:g} s" if not ready else "it broke down")
        return json.loads(line)


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, nargs="+", default=[10, 60])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    pythons = {OURS: sys.executable} | _present(arguments.peers)
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        for seconds in arguments.seconds:
            sounds = _sounds(Path(folder), seconds)
            for threads in arguments.threads:
                table.times += _times(pythons, sounds, seconds, threads, arguments.repeats)
        table.peak = {system: _peak(python, system, sounds) for system, python in pythons.items()}
        clip = Path(folder) / "second.wav"
        soundfile.write(clip, _speech(1.0, NARROW, 1), NARROW)
        table.imports, table.commands = _starts(pythons, clip, arguments.repeats)
    for system, python in pythons.items():
        table.size[system] = int(_output(python, str(WORKER), system, "size"))
    _tell(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(table), indent=2) + "\n")


def _present(python: str | None) -> dict[str, str]:
    """The peers that an interpreter can import; one line about every other."""
    found = {}
    for system in PEERS:
        if python is None:
            print(f"{system}: left out, since no --peers was given")
            continue
        try:
            _output(python, "-c", f"import {PACKAGES[system]}")
            found[system] = python
        except (subprocess.SubprocessError, OSError):
            print(f"{system}: left out, since {python} cannot import {PACKAGES[system]}")
    return found


def _sounds(folder: Path, seconds: float) -> dict[str, tuple[Path, int]]:
    """Files of samples: plain and marked, mono at 16 kHz and stereo at 44.1 kHz."""
    marker, out = ideaw.load(), {}
    for name, rate, channels in (("mono", NARROW, 1), ("stereo", WIDE, 2)):
        plain = _speech(seconds, rate, channels)
        for what, samples in (("plain", plain), ("marked", marker.embed(plain, rate, "ab12"))):
            path = folder / f"{what}-{name}-{seconds:g}.npy"
            np.save(path, samples)
            out[f"{what} {name}"] = path, rate
    return out


def _speech(seconds: float, rate: int, channels: int) -> NDArray[np.float32]:
    """The packaged speech, again and again; a second channel is a little quieter."""
    with resources.files("ideaw").joinpath("samples", "speech.flac").open("rb") as file:
        speech, found_rate = soundfile.read(file, dtype="float32")
    mono = np.resize(soxr.resample(speech, found_rate, rate), round(seconds * rate))
    return mono if channels == 1 else np.stack([mono, 0.9 * mono], 1)


TASKS = {
    "embed": ("embed", "plain"),
    "detect, marked": ("detect", "marked"),
    "detect, unmarked": ("detect", "plain"),
    "detect, unmarked, no other speeds": ("detect at its speed", "plain"),
}
"""What we do: the worker's task, and with which sound. Peers do the first two."""


def _times(
    pythons: dict[str, str], sounds: dict[str, tuple[Path, int]], seconds: float, threads: int, repeats: int
) -> list[Time]:
    """Every task of every system, taking turns; the first turn warms up and does not count."""
    workers = _started(pythons, threads)
    asked = [(OURS, task, audio) for audio in ("mono", "stereo") for task in TASKS]
    asked += [(system, task, "mono") for system in workers if system != OURS for task in ("embed", "detect, marked")]
    # A peer's turn comes right after ours of the same kind.
    asked.sort(key=lambda each: (each[2], not each[1].startswith("embed"), each[0] != OURS))
    took: dict[tuple[str, str, str], list[dict[str, float]]] = {each: [] for each in asked}
    for turn in range(repeats + 1):
        for (system, task, audio), found in took.items():
            name, sound = TASKS[task]
            try:
                answer = [workers[system].run(name, *sounds[f"{sound} {audio}"])] if system in workers else []
            except TimeoutError as problem:
                print(f"{system}, {task}, {seconds:g} s: left out, {problem}")
                del workers[system]
                continue
            found += answer if turn else []
    for worker in workers.values():
        worker.close()
    return [
        Time(
            system,
            task,
            audio,
            seconds,
            threads,
            median(each["wall"] for each in found),
            median(each["cpu"] for each in found),
            _ratios(found, took, task, audio) if system != OURS else {},
        )
        for (system, task, audio), found in took.items()
        if system in workers
    ]


def _started(pythons: dict[str, str], threads: int) -> dict[str, Worker]:
    out = {}
    for system, python in pythons.items():
        try:
            out[system] = Worker(python, system, threads)
        except TimeoutError as problem:
            print(f"{system}: left out, {problem}")
    return out


def _ratios(
    found: list[dict[str, float]], took: dict[tuple[str, str, str], list[dict[str, float]]], task: str, audio: str
) -> dict[str, float]:
    """Our task of the same kind → how many times as long a peer took, by the wall clock."""
    kind = task.split(",")[0]
    return {
        ours: median(theirs["wall"] / mine["wall"] for theirs, mine in zip(found, turns, strict=True))
        for (system, ours, of), turns in took.items()
        if system == OURS and of == audio and ours.split(",")[0] == kind
    }


def _peak(python: str, system: str, sounds: dict[str, tuple[Path, int]]) -> dict[str, float]:
    """Bytes that a fresh process needs at most for each task on a mono file."""
    out = {}
    for task in ("embed", "detect"):
        try:
            worker = Worker(python, system, 1)
            out[task] = worker.run(task, *sounds["plain mono"])["peak"]
            worker.close()
        except TimeoutError as problem:
            print(f"memory of {system}, {task}: left out, {problem}")
    return out


def _starts(pythons: dict[str, str], clip: Path, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of imports and of our commands, taking turns."""
    cli = (sys.executable, "-m", "ideaw.cli")
    imports = {system: (python, "-c", f"import {PACKAGES[system]}") for system, python in pythons.items()}
    commands = {"ideaw --help": (*cli, "--help"), "ideaw detect, 1 s": (*cli, "detect", str(clip))}
    took: dict[str, list[float]] = {name: [] for name in (*imports, *commands)}
    for turn in range(repeats + 1):
        for name, command in (imports | commands).items():
            began = time.perf_counter()
            subprocess.run(command, capture_output=True, timeout=TIMEOUT, env=_environment(command[0]), check=False)
            if turn:
                took[name].append(time.perf_counter() - began)
    middle = {name: median(times) for name, times in took.items()}
    return {name: middle[name] for name in imports}, {name: middle[name] for name in commands}


def _output(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, env=_environment(command[0]), check=True
    )
    return done.stdout


def _environment(python: str) -> dict[str, str]:
    """Ours for our own interpreter; another one must not see our packages."""
    return {name: value for name, value in os.environ.items() if python == sys.executable or name != "PYTHONPATH"}


def _tell(table: Table) -> None:
    for time_ in table.times:
        ratios = ", ".join(f"{ratio:.3g} × ours ({task})" for task, ratio in time_.times_ours.items())
        print(
            f"{time_.system:10} {time_.task:34} {time_.audio:6} {time_.seconds:3g} s {time_.threads} threads: "
            f"{time_.wall:8.3f} s, CPU {time_.cpu:8.3f} s  {ratios}"
        )
    for system, seconds in table.imports.items():
        print(f"{system:10} import {seconds:.2f} s, installed {table.size[system] / 1e6:.0f} MB, ", end="")
        print(", ".join(f"{task} {peak / 1e6:.0f} MB" for task, peak in table.peak[system].items()))
    for command, seconds in table.commands.items():
        print(f"{command}: {seconds:.2f} s")


if __name__ == "__main__":
    main()
