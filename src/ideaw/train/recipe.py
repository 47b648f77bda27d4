"""A recipe says how one model is trained. It is a YAML file whose keys are the fields below.

A file may say `based_on: NAME` of the recipe beside it that it differs from, and then only what is different.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from ideaw.errors import IdeawError
from ideaw.nets.config import NetConfig

BASE = "based_on"
"""The key of a recipe's file that names another."""


@dataclass(frozen=True)
class Losses:
    """Weights of the terms of the loss; a term of weight 0 is not computed."""

    kind: Literal["logistic", "squared"] = "logistic"
    """How bits are compared: cross-entropy of logits, or the paper's distance."""
    focus: float = 0.0
    """How much more segments count that are about to be lost or won than those read with ease, or never."""
    message: float = 1.0
    code: float = 0.5
    first_stage: float = 0.0
    """The message read after stage 1 alone, before the code is on top of it."""
    perceptual: float = 0.0
    """The paper's perceptual loss: how far the marked audio is from the host."""
    audible: float = 0.0
    """What is heard of the mark, in the manner of PESQ, beyond what is `bearable`."""
    bearable: float = 0.005
    """Disturbance that costs nothing: 0.005 is a PESQ of about 4.4."""
    identify: float = 0.0
    """How well the discriminator, which then is trained along, tells marked audio from host audio."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what comes out of a training run, but the audio."""

    name: str
    net: NetConfig = field(default_factory=NetConfig)
    steps: int = 10_000
    batch: int = 128
    """Segments in a step, over all GPUs together."""
    seed: int = 1

    snr: float | None = 38.0
    """The level, in dB, that residuals are brought to by construction; None: only the losses keep them small."""
    snr_start: float = 15.0
    snr_ramp: float = 0.5
    """Share of the run over which the level goes from `snr_start` to `snr`."""
    snr_spread: float = 2.0
    """Each segment's level is drawn within ± this."""

    attacks: Mapping[str, float] = field(default_factory=dict)
    """Attack → share of each batch; the rest stays as it is."""
    attacks_from: float = 0.0
    """Share of the run after which attacks and balance block come in: the paper's second training stage."""
    jitter: int = 125
    """Segments are read up to this many samples off their true place."""
    jitter_ramp: float = 0.0
    """Share of the run over which that grows from 0."""

    losses: Losses = field(default_factory=Losses)
    optimiser: Literal["adamw", "adam"] = "adamw"
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 1e-4
    schedule: Literal["cosine", "step"] = "cosine"
    """`cosine` warms up and then falls over the last 70 %; `step` halves every tenth of each training stage."""
    warm_up: int = 300
    clip: float = 1.0
    """Largest norm of a gradient; 0: no limit."""
    average: float = 0.999
    """Decay of the running average of the weights, which is what is shipped."""
    compile: bool = False
    """On a GPU, let torch compile the blocks: it takes a minute or two, and steps are faster after it."""


def read_recipe(path: Path, **overrides: Any) -> Recipe:
    """The recipe in a YAML file, with some fields given anew."""
    given = {key: value for key, value in overrides.items() if value is not None}
    recipe = build(Recipe, {"name": path.stem} | _content(path) | given, str(path))
    assert isinstance(recipe, Recipe)
    return recipe


def _content(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """What a recipe's file says, with what it leaves to the one it is based on; `above` are those based on it."""
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise IdeawError(f"{path} is not a readable recipe: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise IdeawError(f"{path} is not a recipe: it must hold the fields of one, as YAML")
    if BASE not in content:
        return content
    base = path.with_name(f"{content.pop(BASE)}.yaml")
    if base in (path, *above):
        raise IdeawError(f"{path} is based on itself")
    below = _content(base, (path, *above))
    return below | {key: _changed(below.get(key), value, key) for key, value in content.items()}


def _changed(below: object, value: object, key: str) -> object:
    """A field given anew: of the network and the losses only what is named changes, all else is replaced whole."""
    if key in ("net", "losses") and isinstance(below, Mapping) and isinstance(value, Mapping):
        return {**below, **value}
    return value


def build(kind: type, content: Mapping[str, Any], where: str) -> Any:
    """A dataclass from a mapping, nested ones included; an unknown key is an error that lists the known ones."""
    known = {f.name for f in fields(kind)}
    hints = get_type_hints(kind)
    values = {}
    for key, value in content.items():
        if key not in known:
            raise IdeawError(f"{where}: unknown field {key!r}; known are {', '.join(sorted(known))}")
        hint = hints[key]
        if not _fits(value, hint):
            raise IdeawError(f"{where}: {key} cannot be {value!r}; it must be {_named(hint)}")
        if is_dataclass(hint):
            assert isinstance(hint, type)
            value = build(hint, value, f"{where}, {key}")
        values[key] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value from YAML is of the kind that a field asks for; a whole number will do for a float."""
    inner = get_args(hint)
    if is_dataclass(hint):
        return isinstance(value, Mapping)
    if get_origin(hint) is Literal:
        return value in inner
    if get_origin(hint) is UnionType:
        return any(_fits(value, one) for one in inner)
    if get_origin(hint) is tuple:
        return isinstance(value, list | tuple) and len(value) == len(inner) and all(map(_fits, value, inner))
    if inner:
        return isinstance(value, Mapping) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float if hint is float else hint)


def _named(hint: Any) -> str:
    """A field's kind in words."""
    words = {int: "a whole number", float: "a number (1.0e-5, not 1e-5)", bool: "true or false", str: "a text"}
    if get_origin(hint) is Literal:
        return " or ".join(get_args(hint))
    if get_origin(hint) is UnionType:
        return " or ".join(_named(one) for one in get_args(hint))
    if get_origin(hint) is tuple:
        return f"a list of {len(get_args(hint))} numbers"
    return words.get(hint, "null" if hint is type(None) else "a mapping")
