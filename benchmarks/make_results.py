"""Make the figures of the documentation again: those that are missing, or older than weights, wire format or engine.

    python benchmarks/make_results.py --clips DIR [--stereo DIR] [--full-rate DIR] [--unmarked DIR] [--lyra DIR]
        [--only NAME …] [--jobs N] [--limit N] [--hours H] [--minutes M] [--list]

Each figure is one file or folder under docs/results that commands write (`figures.py`); after it stamps.json there
keeps what it was made with, and its command. A run that is interrupted goes on where it was: figures that are done are
not stale any more, and presets of attacks and rows of the deep layer go on within a figure, in runs/results.

DIR of `--clips` holds the clips of the evaluation, that of `--stereo` what `stereo_clips.py` made of its index, that of
`--full-rate` lossless files at 44.1 or 48 kHz, that of `--unmarked` hours of audio without marks. `--limit` and
`--hours` make a short run, of fewer clips for each figure and fewer hours; a run without them makes those again that
were made short. With `--jobs 2` two figures are made at once, each on cores of its own, and those that take times after
them, alone. `--list` says what is stale and how long it takes. At the end `publish.py` writes the tables.
"""

import argparse
import fcntl
import hashlib
import json
import os
import queue
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from figures import FIGURES, FOLDERS, FULL, KEPT_FILES, Figure, Short
from stamps import DIGEST_LETTERS, ROOT, Stamp, changed_parts, stamp

RESULTS = ROOT / "docs/results"
STAMPS = RESULTS / "stamps.json"
WORK = ROOT / "runs/results"
"""Where figures are measured until they are whole."""

COMMAND = "command"
"""What a stamp holds besides the digests: how the figure was made."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def read_stamps() -> dict[str, Stamp]:
    """Figure → what it was made with."""
    return json.loads(STAMPS.read_text()) if STAMPS.exists() else {}


def stale_parts(figure: Figure, made: dict[str, Stamp], now: Stamp) -> list[str] | None:
    """What changed since a figure was made; None where nobody knows what it was made with."""
    if figure.parts and figure.name not in made:
        return None
    return [part for part in changed_parts(made.get(figure.name, {}), now) if part in figure.parts]


def made_with(figure: Figure, made: dict[str, Stamp], now: Stamp) -> str:
    """How old a figure is, in words."""
    if not (RESULTS / figure.name).exists():
        return "not measured"
    changed = stale_parts(figure, made, now)
    older = None if changed is None else " and ".join(changed)
    return "an earlier version" if older is None else f"an earlier {older}" if older else "this version"


def command_of(figure: Figure, made: dict[str, Stamp]) -> str:
    """How a figure was made, without where it is written; without its size where nobody noted that."""
    return made.get(figure.name, {}).get(COMMAND, figure.command(None))


def is_due(figure: Figure, made: dict[str, Stamp], now: Stamp, short: Short = FULL) -> bool:
    """Whether a figure is to be made: it is missing or stale, or it was made short and all of it is asked for."""
    whole = figure.command()
    grows = figure.command(short) == whole != made.get(figure.name, {}).get(COMMAND, whole)
    return grows or stale_parts(figure, made, now) != [] or not (RESULTS / figure.name).exists()


def freshness_table() -> list[str]:
    """The lines of the Markdown table that says how old every figure is."""
    made, now = read_stamps(), stamp()
    lines = ["| figure | command | made with |", "| --- | --- | --- |"]
    for figure in FIGURES:
        state = made_with(figure, made, now)
        lines.append(f"| {figure.name.removesuffix('.json')} | `{command_of(figure, made)}` | {state} |")
    states = [made_with(figure, made, now) for figure in FIGURES]
    return [
        *lines,
        "",
        f"{states.count('this version')} of {len(FIGURES)} figures are of this version. `make results FLAGS=--list` "
        "says the same and how long it takes to make the others again.",
    ]


def make(figure: Figure, folders: dict[str, Path], short: Short = FULL, limits: dict[str, str] | None = None) -> bool:
    """Measure a figure and note what it was made with; whether it could be done. `limits` are added to what it sees."""
    began, before = time.monotonic(), stamp() | {COMMAND: figure.command(short)}
    inputs = json.dumps([figure.name, before, sorted((name, str(folder)) for name, folder in folders.items())])
    work = WORK / hashlib.sha256(inputs.encode()).hexdigest()[:DIGEST_LETTERS]
    out = work / figure.name
    out.parent.mkdir(parents=True, exist_ok=True)
    for words in map(shlex.split, figure.runs(folders, short, out)):
        program = [sys.executable, *(["-m", "ideaw", *words[1:]] if words[0] == "ideaw" else words[1:])]
        if subprocess.run(program, cwd=ROOT, check=False, env=os.environ | (limits or {})).returncode != 0:
            print(f"{figure.name}: not made", flush=True)
            return False
    with _alone_in_results():
        _publish(figure, out)
        STAMPS.with_suffix(".new").write_text(
            json.dumps(dict(sorted((read_stamps() | {figure.name: before}).items())), indent=1) + "\n"
        )
        STAMPS.with_suffix(".new").replace(STAMPS)
    shutil.rmtree(work)
    print(f"{figure.name}: made in {(time.monotonic() - began) / 60:.1f} min", flush=True)
    return True


def _publish(figure: Figure, out: Path) -> None:
    """Put what was measured, and its picture, where the documentation finds it."""
    target = RESULTS / figure.name
    if not figure.is_file:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        made = {out / name: target / name for name in KEPT_FILES}
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = {path: target.with_suffix(path.suffix) for path in (out, out.with_suffix(".png")) if path.exists()}
    for path, place in made.items():
        shutil.move(path, place)


@contextmanager
def _alone_in_results() -> Iterator[None]:
    """No other figure is noted meanwhile, by this program or by another run of it."""
    folder = os.open(RESULTS, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def make_all(figures: list[Figure], make_one: Callable[..., bool], jobs: int, minutes: float | None) -> list[bool]:
    """Make figures, `jobs` at once, and those that take times alone; which of them could be done.

    None is begun after so many minutes. `make_one` gets a figure and the limits of its process.
    """
    began = time.monotonic()
    cores: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
    available = sorted(os.sched_getaffinity(0))
    for job in range(jobs):
        cores.put(set(available[job::jobs]) or set(available))

    def in_time() -> bool:
        return minutes is None or time.monotonic() - began < 60 * minutes

    def beside(figure: Figure) -> bool:
        return in_time() and make_one(figure, limits=ONE_THREAD)

    if jobs == 1:
        return [in_time() and make_one(figure, limits={}) for figure in figures]
    # The cores of a thread are those of the processes that it starts.
    with ThreadPoolExecutor(jobs, initializer=lambda: os.sched_setaffinity(0, cores.get())) as pool:
        longest_first = sorted((f for f in figures if not f.alone), key=lambda figure: -figure.minutes)
        fine = list(pool.map(beside, longest_first))
    return fine + [in_time() and make_one(figure, limits={}) for figure in figures if figure.alone]


def main() -> int:
    """Make what is stale, as far as its folders are given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name in FOLDERS:
        parser.add_argument(f"--{name}", dest=name, type=lambda text: Path(text).resolve(), metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=[figure.name for figure in FIGURES], metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1, help="figures at once; 2 for two cores")
    parser.add_argument("--limit", type=int, help="a short run: at most so many clips for each figure")
    parser.add_argument("--hours", type=float, help="a short run: so many hours of unmarked audio")
    parser.add_argument("--minutes", type=float, help="begin no figure after so many minutes")
    parser.add_argument("--list", action="store_true", help="say what is stale and how long it takes; measure nothing")
    given = parser.parse_args()
    folders = {name: folder for name in FOLDERS if (folder := getattr(given, name))}
    short = Short(given.limit, given.hours)
    made, now = read_stamps(), stamp()
    wanted = [figure for figure in FIGURES if not given.only or figure.name in given.only]
    due = [figure for figure in wanted if is_due(figure, made, now, short)]
    for figure in due:
        missing = [name for name in figure.needs if name not in folders]
        needs = f", needs --{' --'.join(missing)}" if missing else ""
        alone = ", alone" if figure.alone else ""
        print(f"{figure.name}: about {figure.expected_minutes(short):.2g} min{alone}{needs}")
    hours = sum(figure.expected_minutes(short) for figure in due) / 60
    print(f"{len(due)} of {len(wanted)} are to be made; about {hours:.1f} h on a core", flush=True)
    if given.list:
        return 0
    ready = [figure for figure in due if not set(figure.needs) - set(folders)]
    fine = make_all(ready, partial(make, folders=folders, short=short), max(1, given.jobs), given.minutes)
    subprocess.run([sys.executable, "benchmarks/publish.py"], cwd=ROOT, check=True)
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
