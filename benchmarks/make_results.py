"""Make the figures of the documentation again: those that are missing, or older than weights, wire format or engine.

    python benchmarks/make_results.py --clips DIR [--stereo DIR] [--unmarked DIR] [--lyra DIR] [--only NAME …] [--list]

Each figure is one command that writes one file or folder under docs/results/; after it docs/results/stamps.json keeps
what it was made with. A run that is interrupted goes on where it was: figures that are done are not stale any more, and
presets of attacks go on within a figure. DIR of `--clips` holds the clips of the evaluation, that of `--stereo` what
`stereo_clips.py` made of its index, that of `--unmarked` hours of audio without marks. `--list` says what is stale and
how long it takes. At the end `publish.py` writes the tables.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from stamps import ROOT, Stamp, changed_parts, stamp

RESULTS = ROOT / "docs/results"
STAMPS = RESULTS / "stamps.json"

FOLDERS = ("clips", "stereo", "unmarked", "lyra")
"""What figures are measured on, and Lyra's weights."""


@dataclass(frozen=True)
class Figure:
    """A file or folder under docs/results, the words that make it, and about how many minutes two cores need."""

    name: str
    words: str
    minutes: float
    parts: tuple[str, ...] = ("weights", "wire format", "engine")
    """What it depends on."""

    @property
    def needs(self) -> list[str]:
        """Folders that must be given."""
        return [name for name in FOLDERS if f"{{{name}}}" in self.words]


def _preset(name: str, minutes: float, limit: int = 12, more: str = "") -> Figure:
    return Figure(name, f"ideaw bench {name} --data {{clips}} --limit {limit}{more} --out {{out}}", minutes)


FIGURES = (
    *(
        Figure(
            f"segments-{model}.json",
            f"ideaw bench segments --data {{clips}} --model {model} --others --json {{out}}",
            12,
        )
        for model in ("46+10", "22+10", "10+10")
    ),
    Figure("quality-46+10.json", "ideaw bench quality --data {clips} --json {out}", 8),
    Figure("files-46+10.json", "ideaw bench files --data {clips} --json {out}", 45),
    Figure("files-stereo.json", "ideaw bench files --data {stereo} --json {out}", 25),
    Figure("lengths-46+10.json", "ideaw bench lengths --data {clips} --json {out} --plot {plot}", 20),
    Figure("levels-46+10.json", "ideaw bench levels --data {clips} --json {out} --plot {plot}", 5),
    Figure("unmarked-46+10.json", "ideaw bench unmarked --data {unmarked} --hours 24 --json {out}", 400),
    Figure("locating-46+10.json", "ideaw bench locating --json {out} --plot {plot}", 5),
    _preset("rawbench-loose", 8),
    _preset("rawbench-strict", 10),
    _preset("audiomarkbench", 25),
    _preset("edits", 15),
    _preset("security", 5),
    _preset("resynthesis", 20, more=" --lyra {lyra}"),
    _preset("voice", 12),
    Figure("other-code.json", "python benchmarks/other_code.py --data {clips} --json {out}", 8),
    Figure("speed.json", "python benchmarks/speed.py --json {out}", 10),
    Figure("stream.json", "python benchmarks/stream.py --audio {clips} --clips 100 --json {out}", 30),
    Figure("verdicts.json", "python benchmarks/verdicts.py {clips} --json {out}", 8),
    Figure("marking.json", "python benchmarks/marking_cost.py --json {out}", 3),
    Figure("fingerprint.json", "python benchmarks/fingerprint.py --clips {clips} --limit 40 --json {out}", 5, ()),
    Figure("containers.json", "python benchmarks/container_matrix.py --json {out}", 5, ()),
)


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


def command_of(figure: Figure) -> str:
    """How a figure is made, without where it is written."""
    words = figure.words.split(" --json")[0].split(" --out")[0]
    return words.format(**{name: name.upper() for name in FOLDERS})


def freshness_table() -> list[str]:
    """The lines of the Markdown table that says how old every figure is."""
    made, now = read_stamps(), stamp()
    lines = ["| figure | command | made with |", "| --- | --- | --- |"]
    for figure in FIGURES:
        state = made_with(figure, made, now)
        lines.append(f"| {figure.name.removesuffix('.json')} | `{command_of(figure)}` | {state} |")
    return [
        *lines,
        "",
        "`python benchmarks/make_results.py --list` says the same and how long it takes to make them again.",
    ]


def make(figure: Figure, folders: dict[str, Path]) -> bool:
    """Measure a figure and note what it was made with; whether it could be done."""
    out = RESULTS / figure.name
    measured = out.with_name(f"new-{out.name}") if out.suffix else out
    if not out.suffix and out.exists() and stale_parts(figure, read_stamps(), stamp()):
        shutil.rmtree(out)  # a preset goes on within its folder, but not from another version
    places = {**folders, "out": measured, "plot": out.with_suffix(".png")}
    words = [word.format(**places) for word in shlex.split(figure.words)]
    words = [sys.executable, *(["-m", "ideaw", *words[1:]] if words[0] == "ideaw" else words[1:])]
    began, before = time.monotonic(), stamp()
    if subprocess.run(words, cwd=ROOT, check=False).returncode != 0:
        print(f"{figure.name}: not made")
        return False
    if out.suffix:
        measured.replace(out)
    STAMPS.write_text(json.dumps(dict(sorted((read_stamps() | {figure.name: before}).items())), indent=1) + "\n")
    print(f"{figure.name}: made in {(time.monotonic() - began) / 60:.1f} min")
    return True


def main() -> int:
    """Make what is stale, as far as its folders are given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name in FOLDERS:
        parser.add_argument(f"--{name}", type=lambda text: Path(text).resolve())
    parser.add_argument("--only", nargs="+", choices=[figure.name for figure in FIGURES])
    parser.add_argument("--minutes", type=float, help="begin no figure after so many minutes")
    parser.add_argument("--list", action="store_true", help="say what is stale and how long it takes; measure nothing")
    given = parser.parse_args()
    folders = {name: getattr(given, name) for name in FOLDERS if getattr(given, name)}
    made, now = read_stamps(), stamp()
    wanted = [figure for figure in FIGURES if not given.only or figure.name in given.only]
    stale = [
        figure for figure in wanted if stale_parts(figure, made, now) != [] or not (RESULTS / figure.name).exists()
    ]
    for figure in stale:
        missing = [name for name in figure.needs if name not in folders]
        print(f"{figure.name}: about {figure.minutes:g} min{', needs --' + ' --'.join(missing) if missing else ''}")
    print(f"{len(stale)} of {len(wanted)} are stale; about {sum(f.minutes for f in stale) / 60:.1f} h on two cores")
    if given.list:
        return 0
    began = time.monotonic()
    ready = [figure for figure in stale if not set(figure.needs) - set(folders)]
    in_time = (f for f in ready if given.minutes is None or time.monotonic() - began < 60 * given.minutes)
    fine = [make(figure, folders) for figure in in_time]
    subprocess.run([sys.executable, "benchmarks/publish.py"], cwd=ROOT, check=True)
    return 0 if all(fine) and len(fine) == len(ready) else 1


if __name__ == "__main__":
    sys.exit(main())
