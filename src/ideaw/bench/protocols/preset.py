"""A preset says what a benchmark does to marked audio: a YAML file in `presets/`, one row for each line of its table.

A row has a label and an attack of the catalogue with its strengths, or a chain of such, or a threat of `security.py`.
A strength is a value, `{each: […]}` (a row for each), `{from: …, to: …}` or `{any: […]}` (drawn for every clip).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import yaml
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.bench.protocols.security import THREATS
from ideaw.errors import IdeawError

Value = float | str

Should = Literal["right", "none", "not wrong"]
"""What the answers to a threat should be."""

OWN_DRAWS = 1_000
"""From here on numbers seed the attacks of rows; those below seed messages and keys."""


KEYS: dict[str, tuple[type, ...]] = {
    "title": (str,),
    "about": (str,),
    "rate": (int,),
    "seconds": (int, float),
    "channels": (int,),
    "keep_length": (bool,),
    "rows": (list,),
}
OPTIONAL = {"keep_length"}
"""The keys of a preset, as in `Preset`, the types of their values, and those that may be left out."""


@dataclass(frozen=True)
class Between:
    """A strength that is drawn evenly for every clip."""

    low: float
    high: float


@dataclass(frozen=True)
class OneOf:
    """A strength that is chosen for every clip."""

    options: tuple["Value | Between", ...]


Strength = Value | Between | OneOf


@dataclass(frozen=True)
class Step:
    """An attack of the catalogue with its strengths; those that are not named have their defaults."""

    attack: str
    strengths: Mapping[str, Strength]

    def drawn(self, rng: np.random.Generator) -> dict[str, Value]:
        """The strengths for one clip."""
        return {name: _drawn(strength, rng) for name, strength in self.strengths.items()}


@dataclass(frozen=True)
class Row:
    """One line of the table: attacks that follow each other (none: the audio as it is), or a threat."""

    label: str
    steps: tuple[Step, ...] = ()
    threat: str | None = None
    should: Should | None = None


@dataclass(frozen=True)
class Preset:
    """What one benchmark does."""

    name: str
    title: str
    about: str
    rate: int
    """Of the clips, in Hz."""
    seconds: float
    """Of each clip."""
    channels: int
    keep_length: bool
    """Whether attacked audio is cut, or filled with zeros, to the length it had."""
    rows: tuple[Row, ...]

    @property
    def security(self) -> bool:
        """Whether its rows are threats."""
        return self.rows[0].threat is not None

    def attacked(self, row: Row, audio: NDArray[np.float32], seed: int, number: int) -> NDArray[np.float32]:
        """(n, channels) under the attacks of a row; draws are the same for all audio of the clip with this number."""
        rng = np.random.default_rng([seed, number, OWN_DRAWS + self.rows.index(row)])
        length = len(audio)
        for step in row.steps:
            strengths = step.drawn(rng)
            audio = catalogue.run(step.attack, audio, self.rate, int(rng.integers(1 << 31)), **strengths)
        if self.keep_length:
            audio = np.pad(audio[:length], ((0, max(0, length - len(audio))), (0, 0)))
        return audio


def names() -> list[str]:
    """The presets in the package."""
    files = resources.files("ideaw.bench.protocols").joinpath("presets").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load(name: str, quick: bool = False) -> Preset:
    """A preset of the package; `quick` keeps the ends of every list of strengths."""
    if name not in names():
        raise IdeawError(f'there is no preset "{name}"; there are: {", ".join(names())}')
    text = resources.files("ideaw.bench.protocols").joinpath("presets", f"{name}.yaml").read_text("utf-8")
    return parse(name, text, quick)


def parse(name: str, text: str, quick: bool = False) -> Preset:
    """The preset in a YAML text; `IdeawError` in one line for whatever is wrong with it."""
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise IdeawError(f"preset {name} is not YAML: {' '.join(str(problem).split())}") from problem
    _check_keys(name, content, set(KEYS) - OPTIONAL, OPTIONAL)
    for key, kinds in KEYS.items():
        if key in content and not isinstance(content[key], kinds):
            raise IdeawError(f"preset {name}: {key} cannot be {content[key]!r}")
    rows = [row for given in content["rows"] for row in _rows(name, given, quick)]
    labels = [row.label for row in rows]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if not rows or twice is not None:
        raise IdeawError(f"preset {name} has no rows" if not rows else f'preset {name} has two rows "{twice}"')
    if len({row.threat is None for row in rows}) > 1:
        raise IdeawError(f"preset {name} has rows with attacks and rows with threats; it takes two presets")
    defaults = {"keep_length": False} | {key: value for key, value in content.items() if key != "rows"}
    return Preset(name, rows=tuple(rows), **defaults)


def _check_keys(where: str, content: Any, needed: set[str], optional: set[str]) -> None:
    if not isinstance(content, dict):
        raise IdeawError(f"preset {where} is not a mapping of keys to values")
    missing, unknown = needed - content.keys(), content.keys() - needed - optional
    if missing or unknown:
        what = f"lacks {sorted(missing)[0]}" if missing else f"has an unknown key {sorted(map(str, unknown))[0]!r}"
        raise IdeawError(f"preset {where} {what}; its keys are: {', '.join(sorted(needed | optional))}")


def _rows(name: str, given: Any, quick: bool) -> Iterator[Row]:
    """The rows that one entry stands for: one, or as many as its lists of strengths have members."""
    if not isinstance(given, dict) or not isinstance(given.get("label"), str):
        raise IdeawError(f"preset {name}: every row needs a label, which {given!r} has not")
    label = given["label"]
    where = f'{name}, row "{label}"'
    rest = {key: value for key, value in given.items() if key != "label"}
    if "threat" in rest:
        _check_keys(where, rest, {"threat", "should"}, set())
        if rest["threat"] not in THREATS:
            raise IdeawError(f"preset {where}: there is no threat {rest['threat']!r}; there are: {', '.join(THREATS)}")
        if rest["should"] not in get_args(Should):
            raise IdeawError(f"preset {where}: should is one of {', '.join(get_args(Should))}")
        yield Row(label, (), rest["threat"], rest["should"])
    elif "chain" in rest:
        _check_keys(where, rest, {"chain"}, set())
        if not isinstance(rest["chain"], list) or not rest["chain"]:
            raise IdeawError(f"preset {where}: a chain is a list of attacks")
        yield from _expanded(label, [_step(where, step) for step in rest["chain"]], quick)
    else:
        yield from _expanded(label, [_step(where, rest)] if rest else [], quick)


def _step(where: str, given: Any) -> tuple[str, dict[str, Sequence[Strength]]]:
    """An attack, and for each strength the values that rows are made for."""
    if not isinstance(given, dict) or "attack" not in given:
        raise IdeawError(f"preset {where}: there is neither an attack, nor a chain, nor a threat in {given!r}")
    if given["attack"] not in catalogue.ATTACKS:
        raise IdeawError(f"preset {where}: there is no attack {given['attack']!r}; `ideaw attack --list` shows them")
    attack = catalogue.ATTACKS[given["attack"]]
    strengths = {name: _values(where, attack, name, value) for name, value in given.items() if name != "attack"}
    return attack.name, strengths


def _values(where: str, attack: catalogue.Attack, name: str, given: Any) -> Sequence[Strength]:
    if isinstance(given, dict) and given.keys() == {"each"} and isinstance(given["each"], list) and given["each"]:
        return [_strength(where, attack, name, value) for value in given["each"]]
    return [_strength(where, attack, name, given)]


def _strength(where: str, attack: catalogue.Attack, name: str, given: Any) -> Strength:
    if isinstance(given, dict) and given.keys() == {"any"} and isinstance(given["any"], list) and given["any"]:
        options = [_strength(where, attack, name, option) for option in given["any"]]
        return OneOf(tuple(option for option in options if not isinstance(option, OneOf)))
    try:
        if isinstance(given, dict) and given.keys() == {"from", "to"}:
            low, high = (float(catalogue.strength(attack, name, given[end])) for end in ("from", "to"))
            return Between(low, high)
        return catalogue.strength(attack, name, given)
    except IdeawError as problem:
        raise IdeawError(f"preset {where}: {problem}") from problem


def _expanded(label: str, steps: Sequence[tuple[str, Mapping[str, Sequence[Strength]]]], quick: bool) -> Iterator[Row]:
    """A row for every combination of listed strengths; `{name}` in the label stands for the strength of that name."""
    lists = [values for _, strengths in steps for values in strengths.values()]
    if quick:
        lists = [values if len(values) < 3 else (values[0], values[-1]) for values in lists]
    for chosen in product(*lists):
        values = iter(chosen)
        made = tuple(Step(attack, {name: next(values) for name in strengths}) for attack, strengths in steps)
        shown = {name: value for step in made for name, value in step.strengths.items()}
        yield replace(Row(label, made), label=label.format_map(_Shown(shown)))


class _Shown(dict[str, Any]):
    """Strengths as labels show them; braces that are none stay as they are."""

    def __getitem__(self, name: str) -> str:
        value = self.get(name, f"{{{name}}}")
        return f"{value:g}" if isinstance(value, int | float) else str(value)


def _drawn(strength: Strength, rng: np.random.Generator) -> Value:
    if isinstance(strength, OneOf):
        return _drawn(strength.options[int(rng.integers(len(strength.options)))], rng)
    return float(rng.uniform(strength.low, strength.high)) if isinstance(strength, Between) else strength
