"""Checkpoints: a folder of safetensors and one JSON of facts, replaced whole or not at all.

Together with the recipe they decide every later step: all random draws of a step follow from the recipe's
seed and the number of the step, so no generator's state has to be kept.
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


def save(folder: Path, parts: dict[str, Tensors], facts: dict[str, Any]) -> None:
    """Write every part as one file, and the facts; an earlier checkpoint stays until this one is whole."""
    fresh, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for name, tensors in parts.items():
        kept = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        save_file(kept, fresh / f"{name}.safetensors")
    (fresh / "facts.json").write_text(json.dumps(facts, indent=2))
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.replace(folder, old)
    os.replace(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)


def load(folder: Path) -> tuple[dict[str, Tensors], dict[str, Any]] | None:
    """The parts and facts of a checkpoint; None if there is none."""
    place = folder if folder.exists() else folder.with_name(folder.name + ".old")
    if not place.exists():
        return None
    parts = {path.stem: load_file(path) for path in place.glob("*.safetensors")}
    return parts, json.loads((place / "facts.json").read_text())


def optimiser_state(optimiser: torch.optim.Optimizer, module: nn.Module, prefix: str) -> dict[str, Tensors]:
    """An Adam optimiser's two moments, each as tensors named like the parameters, and its counters."""
    kept: dict[str, Tensors] = {}
    for key in ("exp_avg", "exp_avg_sq", "step"):
        named = {n: optimiser.state[p][key] for n, p in module.named_parameters() if p in optimiser.state}
        if named:
            kept[f"{prefix}-{key}"] = named
    return kept


def restore_optimiser(
    optimiser: torch.optim.Optimizer, module: nn.Module, parts: dict[str, Tensors], prefix: str
) -> None:
    """The other way round; the moments get the memory layout of their parameters, which a fused optimiser needs."""
    for key in ("exp_avg", "exp_avg_sq", "step"):
        tensors = parts.get(f"{prefix}-{key}", {})
        for name, parameter in module.named_parameters():
            if name in tensors:
                like = parameter if key != "step" else torch.empty((), device=parameter.device)
                optimiser.state[parameter][key] = torch.empty_like(like.detach()).copy_(tensors[name])
