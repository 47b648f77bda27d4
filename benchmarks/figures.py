"""The figures of the documentation: the command of each, what it needs, how it is shortened, and how long it takes.

A figure is a file or folder under docs/results. `make_results.py` makes those that are stale.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ideaw.bench.cache import METRICS_FILE

TABLE_FILE = "report.csv"
KEPT_FILES = (METRICS_FILE, TABLE_FILE)
"""Files of a preset's folder that are published; what else a run writes stays where it was measured."""

FOLDERS = ("clips", "stereo", "full-rate", "unmarked", "lyra")
"""What figures are measured on, and Lyra's weights."""

SEGMENTS_PER_CLIP = 8
CLIPS_OF_ALL, HOURS_OF_ALL = 100, 24.0
"""Clips of the evaluation, and hours of unmarked audio where no fewer are asked for."""

HOURS_OPTION = "--hours"


@dataclass(frozen=True)
class Short:
    """How much less is asked for: clips at most of each figure, hours at most of unmarked audio; None for all."""

    clips: int | None = None
    hours: float | None = None


FULL = Short()


@dataclass(frozen=True)
class Size:
    """The option that says how much a figure is measured on; what it counts, for each clip; and all of it."""

    option: str
    full: float | None = None
    """None: what there is, without the option."""
    per_clip: float = 1.0

    def words(self, short: Short) -> str:
        """The option with its value, or nothing."""
        value = self._value(short)
        return "" if value is None else f" {self.option} {value:g}"

    def share(self, short: Short) -> float:
        """How much of all of it that is, about."""
        value = self._value(short)
        return 1.0 if value is None else min(1.0, value / (self.full or CLIPS_OF_ALL * self.per_clip))

    def _value(self, short: Short) -> float | None:
        if self.option == HOURS_OPTION:
            asked = short.hours
        else:
            asked = None if short.clips is None else max(1, round(short.clips * self.per_clip))
        return min((value for value in (asked, self.full) if value is not None), default=None)


@dataclass(frozen=True)
class Figure:
    """A file or folder under docs/results, the commands that make it, and about how many minutes a core needs."""

    name: str
    words: str
    """Commands, without where they write; several are joined by "&&"."""
    minutes: float
    size: Size | None = None
    out: str = "--json {out}"
    """How a command is told where to write."""
    alone: bool = False
    """Whether it takes times, which another figure beside it would change."""
    parts: tuple[str, ...] = ("weights", "wire format", "engine")
    """What it depends on: of a figure of the network's mark alone, not on the deep layer."""

    @property
    def needs(self) -> list[str]:
        """Folders that must be given."""
        return [name for name in FOLDERS if f"{{{name}}}" in self.words]

    @property
    def is_file(self) -> bool:
        """Whether it is one file, and not a folder."""
        return self.name.endswith(".json")

    def command(self, short: Short | None = FULL) -> str:
        """How it is made, with names for folders, and without where it is written; None: without its size."""
        return self._commands({name: name.upper() for name in FOLDERS}, short, "")

    def runs(self, folders: Mapping[str, Path], short: Short, out: Path) -> list[str]:
        """The commands that write it to `out`."""
        places: dict[str, Path | str] = {**folders, "out": out, "plot": out.with_suffix(".png")}
        return self._commands(places, short, " " + self.out).split(" && ")

    def expected_minutes(self, short: Short = FULL) -> float:
        """About how long it takes."""
        return self.minutes * (1.0 if self.size is None else self.size.share(short))

    def _commands(self, places: Mapping[str, Path | str], short: Short | None, out: str) -> str:
        size = "" if self.size is None or short is None else self.size.words(short)
        return " && ".join(words + size + out for words in self.words.split(" && ")).format(**places)


BOTH_LAYERS = ("weights", "wire format", "engine", "deep layer")
PLOTTED = "--json {out} --plot {plot}"
FILES = Size("--limit")


def _preset(name: str, minutes: float, clips: int = 12, more: str = "") -> Figure:
    words = f"ideaw bench {name} --data {{clips}}{more}"
    return Figure(name, words, minutes, Size("--limit", clips), "--out {out}")


def _deep(name: str, words: str, minutes: float, pairs: int = 12, resumes: bool = False, alone: bool = False) -> Figure:
    """A figure of the deep layer; a pair of clips is joined to one piece."""
    out = "--resume --json {out}" if resumes else "--json {out}"
    command = f"python benchmarks/deep_layer.py {words}"
    return Figure(f"deep/{name}.json", command, minutes, Size("--pairs", pairs, 0.5), out, alone, BOTH_LAYERS)


def _catalogue(name: str, minutes: float, size: Size | None = None, engines: tuple[str, ...] = ()) -> Figure:
    command = f"python benchmarks/catalogue.py {name}"
    words = " && ".join(f"{command} --engine {engine}" for engine in engines) or command
    return Figure(f"catalogue-{name}.json", words, minutes, size, alone=True)


ENGINES = ("local", "ray")

FIGURES = (
    *(
        Figure(
            f"segments-{model}.json",
            f"ideaw bench segments --data {{clips}} --model {model} --others",
            12,
            Size("--limit", per_clip=SEGMENTS_PER_CLIP),
        )
        for model in ("46+10", "22+10", "10+10")
    ),
    Figure("quality-46+10.json", "ideaw bench quality --data {clips}", 12, FILES),
    Figure("files-46+10.json", "ideaw bench files --data {clips}", 13, FILES),
    Figure("files-stereo.json", "ideaw bench files --data {stereo}", 6, FILES),
    Figure("lengths-46+10.json", "ideaw bench lengths --data {clips}", 20, FILES, PLOTTED),
    Figure(
        "levels-46+10.json",
        "ideaw bench levels --data {clips}",
        5,
        Size("--limit", per_clip=SEGMENTS_PER_CLIP),
        PLOTTED,
    ),
    Figure(
        "unmarked-46+10.json",
        "ideaw bench unmarked --data {unmarked}",
        100,
        Size(HOURS_OPTION, HOURS_OF_ALL),
        parts=BOTH_LAYERS,
    ),
    Figure("locating-46+10.json", "ideaw bench locating", 5, None, PLOTTED, alone=True),
    _preset("rawbench-loose", 1),
    Figure(
        "rawbench-loose-perth",
        "ideaw bench rawbench-loose --data {clips} --peer perth",
        15,
        Size("--limit", 10),
        "--out {out}",
        parts=(),
    ),
    _preset("rawbench-strict", 1),
    _preset("audiomarkbench", 25),
    _preset("edits", 3),
    _preset("security", 2),
    _preset("resynthesis", 6, more=" --lyra {lyra}"),
    _preset("voice", 3),
    Figure("other-code.json", "python benchmarks/other_code.py --data {clips}", 1, Size("--limit", 40)),
    _deep("rates-speech", "rates {clips} --kind speech --lyra {lyra}", 3, resumes=True),
    _deep("rates-music", "rates {clips} --kind music --lyra {lyra}", 3, resumes=True),
    _deep("edits", "edits {clips}", 2, resumes=True),
    _deep("stereo", "stereo {full-rate} --lyra {lyra}", 1),
    _deep("quality-speech", "quality {clips} --kind speech", 3),
    _deep("quality-music", "quality {clips} --kind music", 3),
    _deep("alarms", "alarms {clips} --keys 100", 2),
    _deep("frontier", "frontier {clips} --lyra {lyra}", 4),
    _deep("security", "security {clips}", 1),
    _deep("streams", "streams {clips} --lyra {lyra}", 1),
    _deep("messages", "messages {clips} --lyra {lyra}", 3),
    _deep("costs", "costs {clips}", 2, 4, alone=True),
    Figure("speed.json", "python benchmarks/speed.py", 20, alone=True),
    Figure("stream.json", "python benchmarks/stream.py --audio {clips}", 30, Size("--clips", 100), alone=True),
    Figure("verdicts.json", "python benchmarks/verdicts.py {clips}", 2, Size("--clips", 16), parts=BOTH_LAYERS),
    Figure("marking.json", "python benchmarks/marking_cost.py", 3, alone=True, parts=BOTH_LAYERS),
    Figure("load.json", "python benchmarks/load.py", 3, alone=True, parts=BOTH_LAYERS),
    Figure("load-again.json", "python benchmarks/load.py --again", 4, alone=True, parts=BOTH_LAYERS),
    _catalogue("faults", 15, engines=ENGINES),
    _catalogue("overhead", 10, engines=ENGINES),
    _catalogue("scaling", 12),
    _catalogue("listening", 15, Size("--trials", 20)),
    _catalogue("cache", 15, Size("--clips", 20)),
    Figure(
        "fingerprint.json",
        "python benchmarks/fingerprint.py --clips {clips}",
        5,
        Size("--limit", 40),
        alone=True,
        parts=(),
    ),
    Figure("containers.json", "python benchmarks/container_matrix.py", 5, parts=()),
)
