"""Checkpoints: a folder of safetensors and one JSON of facts, replaced as a whole or not at all.

Together with the recipe they decide every later step: all random draws of a step follow from the recipe's
seed and the number of the step, so no generator's state has to be saved.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

Tensors = dict[str, Tensor]

ADAM_STATE = ("exp_avg", "exp_avg_sq", "step")
"""What Adam holds for every parameter: its two moments and a counter."""


def save(folder: Path, parts: dict[str, Tensors], facts: dict[str, Any]) -> None:
    """Write a checkpoint; an earlier one stays until this one is complete.

    Args:
        folder: Where to.
        parts: Name of a safetensors file → its tensors.
        facts: What goes into the JSON beside them.
    """
    fresh, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for name, tensors in parts.items():
        on_cpu = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        save_file(on_cpu, fresh / f"{name}.safetensors")
    (fresh / "facts.json").write_text(json.dumps(facts, indent=2))
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.replace(folder, old)
    os.replace(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)


def load(folder: Path) -> tuple[dict[str, Tensors], dict[str, Any]] | None:
    """The parts and facts of a checkpoint; None if there is none."""
    complete = folder if folder.exists() else folder.with_name(folder.name + ".old")
    if not complete.exists():
        return None
    parts = {path.stem: load_file(path) for path in complete.glob("*.safetensors")}
    return parts, json.loads((complete / "facts.json").read_text())


def optimiser_state(optimiser: torch.optim.Optimizer, module: nn.Module, prefix: str) -> dict[str, Tensors]:
    """An Adam optimiser's state as parts of a checkpoint, its tensors named like the parameters.

    Args:
        optimiser: Of the parameters of `module`.
        module: Gives the names.
        prefix: First part of the names of the parts.
    """
    parts: dict[str, Tensors] = {}
    for key in ADAM_STATE:
        named = {n: optimiser.state[p][key] for n, p in module.named_parameters() if p in optimiser.state}
        if named:
            parts[f"{prefix}-{key}"] = named
    return parts


def restore_optimiser(
    optimiser: torch.optim.Optimizer, module: nn.Module, parts: dict[str, Tensors], prefix: str
) -> None:
    """The inverse of `optimiser_state`; moments get the memory layout of their parameters, as fused Adam needs."""
    for key in ADAM_STATE:
        tensors = parts.get(f"{prefix}-{key}", {})
        for name, parameter in module.named_parameters():
            if name in tensors:
                like = parameter if key != "step" else torch.empty((), device=parameter.device)
                optimiser.state[parameter][key] = torch.empty_like(like.detach()).copy_(tensors[name])
