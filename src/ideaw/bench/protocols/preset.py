"""A preset says what a benchmark does to marked audio: a YAML file in `presets/`, one row for each line of its table.

A row has a label and an attack of the catalogue with its strengths, or a chain of such, or a threat of `security.py`.
A strength is a value, `{each: […]}` (a row for each), `{from: …, to: …}` or `{any: […]}` (drawn for every clip).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np
import yaml

from ideaw.attacks import catalogue
from ideaw.bench.corpus import Samples
from ideaw.bench.protocols.security import THREATS
from ideaw.errors import FileError, IdeawError, MissingExtraError

Value = float | str

Expectation = Literal["right", "none", "not wrong"]
"""What the answers to a threat should be."""

FIRST_ROW_SEED = 1_000
"""From here on numbers seed the attacks of rows; those below seed messages and keys."""


class PresetFile(msgspec.Struct, forbid_unknown_fields=True):
    """The YAML file as it is written; the fields are those of `Preset`."""

    title: str
    about: str
    rate: int
    seconds: float
    channels: int
    rows: list[dict[str, Any]]
    keep_length: bool = False
    cost: bool = False


class ThreatEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A row with a threat as it is written."""

    label: str
    threat: str
    should: Expectation


class ChainEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A row with several attacks as it is written."""

    label: str
    chain: list[dict[str, Any]]


@dataclass(frozen=True)
class UniformRange:
    """A strength that is drawn evenly for every clip."""

    low: float
    high: float


@dataclass(frozen=True)
class Choice:
    """A strength that is chosen for every clip."""

    options: tuple["Value | UniformRange", ...]


Strength = Value | UniformRange | Choice


@dataclass(frozen=True)
class Step:
    """An attack of the catalogue with its strengths; those that are not named have their defaults."""

    attack: str
    strengths: Mapping[str, Strength]

    def draw(self, rng: np.random.Generator) -> dict[str, Value]:
        """The strengths for one clip."""
        return {name: _draw(strength, rng) for name, strength in self.strengths.items()}


@dataclass(frozen=True)
class Row:
    """One line of the table: attacks that follow each other (none: the audio as it is), or a threat."""

    label: str
    steps: tuple[Step, ...] = ()
    threat: str | None = None
    should: Expectation | None = None


@dataclass(frozen=True)
class Preset:
    """What one benchmark does."""

    name: str
    title: str
    about: str
    rate: int
    """Sampling rate of the clips in Hz."""
    seconds: float
    """Length of each clip in seconds."""
    channels: int
    keep_length: bool
    """Whether attacked audio is cut, or filled with zeros, to the length it had."""
    cost: bool
    """Whether it is measured what each attack costs the attacker: the quality of the attacked audio."""
    rows: tuple[Row, ...]

    @property
    def security(self) -> bool:
        """Whether its rows are threats."""
        return self.rows[0].threat is not None

    def with_lyra(self, folder: Path) -> "Preset":
        """The same with the folder of Lyra's weights in every step that needs them."""
        given = {"weights": str(folder)}

        def equipped(step: Step) -> Step:
            return replace(step, strengths={**step.strengths, **given}) if step.attack == "lyra" else step

        return replace(self, rows=tuple(replace(row, steps=tuple(map(equipped, row.steps))) for row in self.rows))

    def why_not(self, row: Row) -> str | None:
        """Why a row cannot be measured here, since a part that others provide is missing; None if it can."""
        for step in row.steps:
            if step.attack in catalogue.OTHERS_PARTS:
                rng = np.random.default_rng(FIRST_ROW_SEED)
                try:
                    trial = rng.normal(0, 0.1, self.rate).astype(np.float32)
                    catalogue.run(step.attack, trial, self.rate, 0, **step.draw(rng))
                except (MissingExtraError, FileError) as problem:
                    return f"{step.attack}: {problem}"
        return None

    def attack(self, row: Row, audio: Samples, seed: int, number: int) -> Samples:
        """(n, channels) under the attacks of a row; draws are the same for all audio of the clip with this number."""
        rng = np.random.default_rng([seed, number, FIRST_ROW_SEED + self.rows.index(row)])
        length = len(audio)
        for step in row.steps:
            strengths = step.draw(rng)
            audio = catalogue.run(step.attack, audio, self.rate, int(rng.integers(1 << 31)), **strengths)
        if self.keep_length:
            audio = np.pad(audio[:length], ((0, max(0, length - len(audio))), (0, 0)))
        return audio


def names() -> list[str]:
    """The presets in the package."""
    files = resources.files("ideaw.bench.protocols").joinpath("presets").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load(name: str, quick: bool = False) -> Preset:
    """A preset of the package; `quick` keeps the ends of every list of strengths. Raises `IdeawError` if unknown."""
    if name not in names():
        raise IdeawError(f'there is no preset "{name}"; there are: {", ".join(names())}')
    text = resources.files("ideaw.bench.protocols").joinpath("presets", f"{name}.yaml").read_text("utf-8")
    return parse(name, text, quick)


def parse(name: str, text: str, quick: bool = False) -> Preset:
    """The preset in a YAML text; `IdeawError` in one line that names the field for whatever is wrong with it."""
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise IdeawError(f"preset {name} is not YAML: {' '.join(str(problem).split())}") from problem
    file = _convert(name, content, PresetFile)
    rows = tuple(row for entry in file.rows for row in _parse_row(name, entry, quick))
    labels = [row.label for row in rows]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if not rows or twice is not None:
        raise IdeawError(f"preset {name} has no rows" if not rows else f'preset {name} has two rows "{twice}"')
    if len({row.threat is None for row in rows}) > 1:
        raise IdeawError(f"preset {name} has rows with attacks and rows with threats; it takes two presets")
    fields = {field: getattr(file, field) for field in PresetFile.__struct_fields__ if field != "rows"}
    return Preset(name, rows=rows, **fields)


Entry = TypeVar("Entry", bound=msgspec.Struct)


def _convert(where: str, content: Any, kind: type[Entry]) -> Entry:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as problem:
        fields = ", ".join(kind.__struct_fields__)
        raise IdeawError(f"preset {where}: {problem}; its fields are: {fields}") from problem


def _parse_row(name: str, entry: dict[str, Any], quick: bool) -> Iterator[Row]:
    """The rows that one entry stands for: one, or as many as its lists of strengths have members."""
    label = entry.get("label")
    if not isinstance(label, str):
        raise IdeawError(f"preset {name}: every row needs a label, which {entry!r} has not")
    where = f'{name}, row "{label}"'
    if "threat" in entry:
        threat = _convert(where, entry, ThreatEntry)
        if threat.threat not in THREATS:
            raise IdeawError(f"preset {where}: there is no threat {threat.threat!r}; there are: {', '.join(THREATS)}")
        yield Row(label, (), threat.threat, threat.should)
        return
    steps = [{field: value for field, value in entry.items() if field != "label"}] if len(entry) > 1 else []
    if "chain" in entry:
        steps = _convert(where, entry, ChainEntry).chain
        if not steps:
            raise IdeawError(f"preset {where}: a chain is a list of attacks")
    yield from _expand(label, [_parse_step(where, step) for step in steps], quick)


def _parse_step(where: str, entry: dict[str, Any]) -> tuple[str, dict[str, Sequence[Strength]]]:
    """An attack, and for each strength the values that rows are made for."""
    if "attack" not in entry:
        raise IdeawError(f"preset {where}: there is neither an attack, nor a chain, nor a threat in {entry!r}")
    if entry["attack"] not in catalogue.ATTACKS:
        raise IdeawError(f"preset {where}: there is no attack {entry['attack']!r}; `ideaw attack --list` shows them")
    attack = catalogue.ATTACKS[entry["attack"]]
    strengths = {name: _parse_values(where, attack, name, value) for name, value in entry.items() if name != "attack"}
    return attack.name, strengths


def _parse_values(where: str, attack: catalogue.Attack, name: str, entry: Any) -> Sequence[Strength]:
    if isinstance(entry, dict) and entry.keys() == {"each"} and isinstance(entry["each"], list) and entry["each"]:
        return [_parse_strength(where, attack, name, value) for value in entry["each"]]
    return [_parse_strength(where, attack, name, entry)]


def _parse_strength(where: str, attack: catalogue.Attack, name: str, entry: Any) -> Strength:
    if isinstance(entry, dict) and entry.keys() == {"any"} and isinstance(entry["any"], list) and entry["any"]:
        options = [_parse_strength(where, attack, name, option) for option in entry["any"]]
        return Choice(tuple(option for option in options if not isinstance(option, Choice)))
    try:
        if isinstance(entry, dict) and entry.keys() == {"from", "to"}:
            low, high = (float(catalogue.strength(attack, name, entry[end])) for end in ("from", "to"))
            return UniformRange(low, high)
        return catalogue.strength(attack, name, entry)
    except IdeawError as problem:
        raise IdeawError(f"preset {where}: {problem}") from problem


def _expand(label: str, steps: Sequence[tuple[str, Mapping[str, Sequence[Strength]]]], quick: bool) -> Iterator[Row]:
    """A row for every combination of listed strengths; `{name}` in the label stands for the strength of that name."""
    lists = [values for _, strengths in steps for values in strengths.values()]
    if quick:
        lists = [values if len(values) < 3 else (values[0], values[-1]) for values in lists]
    for combination in product(*lists):
        values = iter(combination)
        chain = tuple(Step(attack, {name: next(values) for name in strengths}) for attack, strengths in steps)
        strengths_of_row = {name: value for step in chain for name, value in step.strengths.items()}
        yield replace(Row(label, chain), label=label.format_map(_LabelFields(strengths_of_row)))


class _LabelFields(dict[str, Any]):
    """Strengths as labels show them; names in braces that are no strengths stay as they are."""

    def __getitem__(self, name: str) -> str:
        value = self.get(name, f"{{{name}}}")
        return f"{value:g}" if isinstance(value, int | float) else str(value)


def _draw(strength: Strength, rng: np.random.Generator) -> Value:
    if isinstance(strength, Choice):
        return _draw(strength.options[int(rng.integers(len(strength.options)))], rng)
    return float(rng.uniform(strength.low, strength.high)) if isinstance(strength, UniformRange) else strength
