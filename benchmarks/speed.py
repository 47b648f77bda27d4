"""Speed, memory and size of ideaw, and those of peers or of another checkout in the same run.

    python benchmarks/speed.py --json docs/results/speed.json [--peers DIR] [--repeats 5] [--seconds 10 60]
    python benchmarks/speed.py --baseline OTHER_CHECKOUT [--repeats 5] [--seconds 10 60] [--threads 1 2]

DIR holds the environments of the peers, as `make peers` makes them in `.peers`; what is not there is left out. Every
system runs in a process of its own, and they take turns: ours, a peer, the next, ours again. Ratios are medians over
the turns, so a machine that is busy now and then slows all of them. Where weights are not packaged, random ones are
taken, which take as long. With --baseline only this checkout and the other one, run by its own .venv, take turns, and
the ratio new/old of their medians is printed, by the wall clock and of CPU time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from statistics import median

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.bench.peers.peer import JsonLineProcess, Peer, TaskCost, environment, installed_size, interpreter
from ideaw.bench.peers.systems import IDEAW, PEERS, SYSTEMS
from ideaw.errors import PeerError

ROOT = Path(__file__).resolve().parent.parent

MONO_RATE_HZ, STEREO_RATE_HZ = 16_000, 44_100
"""Rates of the mono files, which all systems take, and of the stereo files, which only ours takes."""

TIMEOUT_SECONDS = 600.0
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


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", type=Path, metavar="DIR", default=Path(".peers"))
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, nargs="+", default=[10, 60])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--baseline", type=Path, metavar="CHECKOUT")
    arguments = parser.parse_args()
    if arguments.baseline is not None:
        _compare_checkouts(arguments.baseline, arguments.seconds, arguments.threads, arguments.repeats)
        return
    pythons = {IDEAW: sys.executable} | _present(arguments.peers)
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        for seconds in arguments.seconds:
            sounds = _sounds(Path(folder), seconds)
            for threads in arguments.threads:
                table.times += _times(pythons, arguments.peers, sounds, seconds, threads, arguments.repeats)
        table.peak = {SYSTEMS[name].title: _peak(name, arguments.peers, sounds) for name in pythons}
        clip = Path(folder) / "second.wav"
        soundfile.write(clip, _speech(1.0, MONO_RATE_HZ, 1), MONO_RATE_HZ)
        table.imports, table.commands = _starts(pythons, clip, arguments.repeats)
    table.size = {SYSTEMS[name].title: installed_size(name, arguments.peers) for name in pythons}
    _print_table(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(table), indent=2) + "\n")


def _present(folder: Path) -> dict[str, str]:
    """The peers that are there, with the Python of each; one line about every other."""
    pythons = {}
    for name in PEERS:
        try:
            pythons[name] = interpreter(name, folder)
        except PeerError as problem:
            print(problem)
    return pythons


def _sounds(folder: Path, seconds: float) -> dict[str, Path]:
    """Files of samples: plain and marked, mono at 16 kHz and stereo at 44.1 kHz."""
    marker, out = ideaw.load(), {}
    for name, rate, channels in (("mono", MONO_RATE_HZ, 1), ("stereo", STEREO_RATE_HZ, 2)):
        plain = _speech(seconds, rate, channels)
        for what, samples in (("plain", plain), ("marked", marker.embed(plain, rate, "ab12"))):
            path = folder / f"{what}-{name}-{seconds:g}.wav"
            soundfile.write(path, samples, rate, "FLOAT")
            out[f"{what} {name}"] = path
    return out


def _speech(seconds: float, rate: int, channels: int) -> NDArray[np.float32]:
    """The packaged speech, again and again; a second channel is a little quieter."""
    with resources.files("ideaw").joinpath("samples", "speech.flac").open("rb") as file:
        speech, own_rate = soundfile.read(file, dtype="float32")
    mono = np.resize(soxr.resample(speech, own_rate, rate), round(seconds * rate))
    return mono if channels == 1 else np.stack([mono, 0.9 * mono], 1)


TASKS = {
    "embed": ("embed", "plain"),
    "detect, marked": ("detect", "marked"),
    "detect, unmarked": ("detect", "plain"),
    "detect, unmarked, no other speeds": ("detect_at_its_speed", "plain"),
}
"""What we do: the task as a peer is asked for it, and with which sound. Peers do the first two."""


def _times(
    names: Iterable[str], folder: Path, sounds: dict[str, Path], seconds: float, threads: int, repeats: int
) -> list[Time]:
    """Every task of every system, taking turns; the first turn warms up and does not count."""
    workers = _started(names, folder, threads)
    trials = [(IDEAW, task, audio) for audio in ("mono", "stereo") for task in TASKS]
    trials += [(system, task, "mono") for system in workers if system != IDEAW for task in ("embed", "detect, marked")]
    # A peer's turn comes right after ours of the same kind.
    trials.sort(key=lambda trial: (trial[2], not trial[1].startswith("embed"), trial[0] != IDEAW))
    costs: dict[tuple[str, str, str], list[TaskCost]] = {trial: [] for trial in trials}
    for turn in range(repeats + 1):
        for (system, task, audio), turns in costs.items():
            name, sound = TASKS[task]
            try:
                answer = [workers[system].time(name, sounds[f"{sound} {audio}"])] if system in workers else []
            except PeerError as problem:
                print(f"{task}, {seconds:g} s: {problem}")
                del workers[system]
                continue
            turns += answer if turn else []
    for worker in workers.values():
        worker.close()
    return [
        Time(
            SYSTEMS[system].title,
            task,
            audio,
            seconds,
            threads,
            median(cost.wall for cost in turns),
            median(cost.cpu for cost in turns),
            _ratios(turns, costs, task, audio) if system != IDEAW else {},
        )
        for (system, task, audio), turns in costs.items()
        if system in workers
    ]


def _compare_checkouts(baseline: Path, lengths: Iterable[float], threads: Iterable[int], repeats: int) -> None:
    """Print how long every task takes here and in another checkout, and the ratio of the medians.

    Both are asked in turns, the order changing every time, so that neither is always the second.
    """
    print("task                                audio   seconds threads     new       old   new/old  of CPU time")
    with tempfile.TemporaryDirectory() as folder:
        for seconds in lengths:
            sounds = _sounds(Path(folder), seconds)
            for count in threads:
                workers = {"new": _checkout_worker(ROOT, count), "old": _checkout_worker(baseline.resolve(), count)}
                for audio in ("mono", "stereo"):
                    for task, (name, sound) in TASKS.items():
                        request = {"task": name, "file": str(sounds[f"{sound} {audio}"]), "timed": True}
                        turns: dict[str, list[dict[str, float]]] = {which: [] for which in workers}
                        for turn in range(repeats + 1):
                            for which in ("new", "old") if turn % 2 else ("old", "new"):
                                cost = workers[which].ask(**request)
                                turns[which] += [cost] if turn else []  # the first turn warms up
                        (new, old), (cpu, old_cpu) = (
                            (median(cost[clock] for cost in turns[which]) for which in ("new", "old"))
                            for clock in ("wall", "cpu")
                        )
                        print(
                            f"{task:35} {audio:7} {seconds:7g} {count:7} {new:7.3f} s {old:7.3f} s {new / old:8.3f} "
                            f"{cpu / old_cpu:8.3f}",
                            flush=True,
                        )
                for worker in workers.values():
                    worker.close()


def _checkout_worker(checkout: Path, threads: int) -> JsonLineProcess:
    """The worker of a checkout, in its own environment and with its own sources; started."""
    python, package = checkout / ".venv/bin/python", checkout / "src/ideaw"
    worker = package / "bench/peers/worker.py"
    for path in (python, worker):
        if not path.exists():
            raise SystemExit(f"{path} does not exist; give a checkout with an environment in .venv")
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [str(python), str(worker), IDEAW, str(threads)]
    process = JsonLineProcess(
        str(checkout), command, environment("") | limits | {"PYTHONPATH": str(package.parent)}, TIMEOUT_SECONDS
    )
    process.start()
    return process


def _started(names: Iterable[str], folder: Path, threads: int) -> dict[str, Peer]:
    out = {}
    for name in names:
        try:
            out[name] = Peer(name, threads=threads, timeout=TIMEOUT_SECONDS, at=folder)
        except PeerError as problem:
            print(problem)
    return out


def _ratios(
    peer_turns: list[TaskCost], costs: dict[tuple[str, str, str], list[TaskCost]], task: str, audio: str
) -> dict[str, float]:
    """Our task of the same kind → how many times as long a peer took, by the wall clock."""
    kind = task.split(",")[0]
    return {
        ours: median(theirs.wall / mine.wall for theirs, mine in zip(peer_turns, turns, strict=True))
        for (system, ours, of), turns in costs.items()
        if system == IDEAW and of == audio and ours.split(",")[0] == kind
    }


def _peak(name: str, folder: Path, sounds: dict[str, Path]) -> dict[str, float]:
    """Bytes that a fresh process needs at most for each task on a mono file."""
    out = {}
    for task in ("embed", "detect"):
        try:
            with Peer(name, timeout=TIMEOUT_SECONDS, at=folder) as worker:
                out[task] = worker.time(task, sounds["plain mono"]).peak
        except PeerError as problem:
            print(f"memory, {task}: {problem}")
    return out


def _starts(pythons: dict[str, str], clip: Path, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of imports and of our commands, taking turns."""
    cli = (sys.executable, "-m", "ideaw")
    packages = {name: package for name in pythons if (package := SYSTEMS[name].package) is not None}
    imports = {SYSTEMS[name].title: (pythons[name], "-c", f"import {package}") for name, package in packages.items()}
    commands = {"ideaw --help": (*cli, "--help"), "ideaw detect, 1 s": (*cli, "detect", str(clip))}
    took: dict[str, list[float]] = {name: [] for name in (*imports, *commands)}
    for turn in range(repeats + 1):
        for name, command in (imports | commands).items():
            began = time.perf_counter()
            subprocess.run(
                command, capture_output=True, timeout=TIMEOUT_SECONDS, env=environment(command[0]), check=False
            )
            if turn:
                took[name].append(time.perf_counter() - began)
    middle = {name: median(times) for name, times in took.items()}
    return {name: middle[name] for name in imports}, {name: middle[name] for name in commands}


def _print_table(table: Table) -> None:
    for time_ in table.times:
        ratios = ", ".join(f"{ratio:.3g} × ours ({task})" for task, ratio in time_.times_ours.items())
        print(
            f"{time_.system:10} {time_.task:34} {time_.audio:6} {time_.seconds:3g} s {time_.threads} threads: "
            f"{time_.wall:8.3f} s, CPU {time_.cpu:8.3f} s  {ratios}"
        )
    for system, peaks in table.peak.items():
        start = f"import {table.imports[system]:.2f} s, " if system in table.imports else ""
        memory = ", ".join(f"{task} {peak / 1e6:.0f} MB" for task, peak in peaks.items())
        print(f"{system:10} {start}installed {table.size[system] / 1e6:.0f} MB, {memory}")
    for command, seconds in table.commands.items():
        print(f"{command}: {seconds:.2f} s")


if __name__ == "__main__":
    main()
