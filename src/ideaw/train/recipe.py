"""A recipe says how one model is trained. It is a YAML file whose keys are the fields below.

A file may say `based_on: NAME` of the recipe beside it that it differs from, and then only what is different.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import yaml

from ideaw.errors import IdeawError
from ideaw.nets.config import NetConfig

BASE_KEY = "based_on"
"""The key of a recipe's file that names another."""

MERGED_FIELDS = ("net", "losses")
"""Fields of which a recipe that is based on another may give single entries."""

S = TypeVar("S", bound=msgspec.Struct)


class Losses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of the terms of the loss; a term of weight 0 is not computed."""

    kind: Literal["logistic", "squared"] = "logistic"
    """How bits are compared: cross-entropy of LLRs, or the paper's squared distance."""
    focus: float = 0.0
    """How much more segments count that are about to be lost or won than those read with ease, or never."""
    message: float = 1.0
    code: float = 0.5
    first_stage: float = 0.0
    """The message read after stage 1 alone, before the locating code is on top of it."""
    perceptual: float = 0.0
    """The paper's perceptual loss: the squared distance of marked audio and host."""
    audible: float = 0.0
    """Audible disturbance, in the manner of PESQ, beyond what is `bearable`."""
    bearable: float = 0.005
    """Disturbance that costs nothing: 0.005 is a PESQ of about 4.4."""
    identify: float = 0.0
    """How well the discriminator, which then is trained along, tells marked audio from host audio."""


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that decides what comes out of a training run, but the audio."""

    name: str
    net: NetConfig = msgspec.field(default_factory=NetConfig)
    steps: int = 10_000
    batch: int = 128
    """Segments in a step, over all GPUs together."""
    seed: int = 1

    snr: float | None = 38.0
    """SNR in dB that residuals are scaled to by construction; None: only the losses keep them small."""
    snr_start: float = 15.0
    snr_ramp: float = 0.5
    """Share of the run over which the SNR goes from `snr_start` to `snr`."""
    snr_spread: float = 2.0
    """Each segment's SNR is drawn within ± this many dB."""

    attacks: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Attack → share of each batch; the rest stays clean."""
    attacks_from: float = 0.0
    """Share of the run after which attacks and balance block come in: the paper's second training stage."""
    jitter: int = 125
    """Segments are read up to this many samples off their true place."""
    jitter_ramp: float = 0.0
    """Share of the run over which that grows from 0."""

    losses: Losses = msgspec.field(default_factory=Losses)
    optimiser: Literal["adamw", "adam"] = "adamw"
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 1e-4
    schedule: Literal["cosine", "step"] = "cosine"
    """`cosine` warms up and then falls over the last 70 %; `step` halves every tenth of each training stage."""
    warm_up: int = 300
    """Steps over which the learning rate rises at the start."""
    clip: float = 1.0
    """Largest norm of a gradient; 0: no limit."""
    average: float = 0.999
    """Decay of the moving average of the weights, which is what is shipped."""
    compile: bool = False
    """On a GPU, let torch compile the blocks: it takes a minute or two, and steps are faster after it."""


def read_recipe(path: Path, **overrides: Any) -> Recipe:
    """The recipe in a YAML file.

    Args:
        path: The file; recipes that it is based on lie beside it.
        overrides: Fields that replace those of the file, unless None.

    Raises:
        IdeawError: If a file cannot be read, or a field is unknown or of a wrong type.
    """
    given = {key: value for key, value in overrides.items() if value is not None}
    return convert_fields(Recipe, {"name": path.stem} | _read_fields(path) | given, str(path))


def convert_fields(kind: type[S], fields: Mapping[str, Any], source: str) -> S:
    """A validated structure from a mapping, nested ones included.

    Args:
        kind: The structure.
        fields: Its fields as YAML or JSON have them.
        source: Where they are from, for the error.

    Raises:
        IdeawError: If a field is unknown or of a wrong type; the line names the source and the field.
    """
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        wrong_float = "`float" in str(error) and "got `str`" in str(error)
        hint = " (YAML reads 1e-5 as a text: write 1.0e-5)" if wrong_float else ""
        raise IdeawError(f"{source}: {error}{hint}") from error


def _read_fields(path: Path, dependents: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The fields of a recipe's file and of those it is based on; `dependents` are based on this one."""
    try:
        fields = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise IdeawError(f"{path} is not a readable recipe: {' '.join(str(error).split())}") from error
    if not isinstance(fields, dict):
        raise IdeawError(f"{path} is not a recipe: it must hold the fields of one, as YAML")
    if BASE_KEY not in fields:
        return fields
    base_path = path.with_name(f"{fields.pop(BASE_KEY)}.yaml")
    if base_path in (path, *dependents):
        raise IdeawError(f"{path} is based on itself")
    base = _read_fields(base_path, (path, *dependents))
    return base | {key: _merge(base.get(key), value, key) for key, value in fields.items()}


def _merge(base: object, value: object, key: str) -> object:
    """A field given anew: of MERGED_FIELDS only what is named changes, anything else is replaced."""
    if key in MERGED_FIELDS and isinstance(base, Mapping) and isinstance(value, Mapping):
        return {**base, **value}
    return value
