"""The training loop, top to bottom: build or resume, step, log, validate, save.

Runs on one GPU (or the CPU); under `torchrun` on several, each with its share of the batch.
"""

import copy
import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ideaw.attacks.batch import Draw
from ideaw.errors import FileError, IdeawError
from ideaw.nets.blocks import InvertibleBlock
from ideaw.nets.config import NetConfig
from ideaw.nets.discriminator import Discriminator
from ideaw.nets.kinds import AnyNet, make
from ideaw.nets.model import BalanceBlock, apart
from ideaw.nets.wavelet import ConvStack
from ideaw.train import checkpoint, losses
from ideaw.train.data import load_pools
from ideaw.train.export import load_weights
from ideaw.train.recipe import Recipe, build
from ideaw.train.step import Moment, Trip, check, moment, take
from ideaw.train.validate import validate

MARGIN = 250
"""Samples of unmarked audio kept on both sides of a segment, at least, so that it can be read off its place."""


def train(
    recipe: Recipe,
    data: Path,
    out: Path,
    minutes: float | None = None,
    log_every: int = 50,
    validate_every: int = 1000,
    stop_after: int | None = None,
    begin: Path | None = None,
    validate_on: int = 256,
) -> dict[str, float]:
    """Train until the recipe's last step, or stop before that after some minutes or at a step, and save.

    A run whose folder holds a checkpoint goes on from there; a new one may begin with the weights of a model
    folder or of a checkpoint's file. Validates on so many segments, and returns the last validation.
    """
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    check(recipe)
    if recipe.batch % world:
        raise IdeawError(f"a batch of {recipe.batch} cannot be shared by {world} processes: take a multiple of {world}")
    device = _device(world)
    torch.manual_seed(recipe.seed)
    pool, held_out = load_pools(data, max(MARGIN, recipe.jitter), device)
    model = make(recipe.net)
    if begin:
        _begin_with(model, begin)
    model.to(device)
    if device.type == "cuda":
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    critic = Discriminator().to(device) if recipe.losses.identify else None
    average = copy.deepcopy(model)
    optimiser = make_optimiser(recipe, model)
    critic_optimiser = make_optimiser(recipe, critic) if critic else None
    step, trip = 0, None
    skipped, averaged = torch.zeros(2, device=device)
    kept = checkpoint.load(out / "checkpoint")
    if kept:
        parts, facts = kept
        if build(NetConfig, facts["recipe"]["net"], str(out)) != recipe.net:
            raise IdeawError(f"{out} holds a run of another network: give this one a folder of its own")
        step = facts["step"]
        skipped += facts["skipped"]
        averaged += facts["averaged"]
        trip = _trip(parts, recipe.batch // world, device) if rank == 0 else None
        model.load_state_dict(parts["model"])
        average.load_state_dict(parts["average"])
        checkpoint.restore_optimiser(optimiser, model, parts, "optimiser")
        if critic and critic_optimiser and "critic" in parts:
            critic.load_state_dict(parts["critic"])
            checkpoint.restore_optimiser(critic_optimiser, critic, parts, "critic")
    if recipe.compile and device.type == "cuda":
        compile_blocks(model)

    def save() -> None:
        parts = {"model": model.state_dict(), "average": average.state_dict()}
        parts |= checkpoint.optimiser_state(optimiser, model, "optimiser")
        parts |= {"trip": trip.tensors()} if trip else {}
        if critic and critic_optimiser:
            parts |= {"critic": critic.state_dict()} | checkpoint.optimiser_state(critic_optimiser, critic, "critic")
        facts = {
            "step": step,
            "skipped": int(skipped),
            "averaged": int(averaged),
            "recipe": dataclasses.asdict(recipe),
            "hours_of_audio": round(pool.seconds / 3600, 2),
        }
        checkpoint.save(out / "checkpoint", parts, facts)

    last = min(recipe.steps, stop_after or recipe.steps)
    began, since, found = time.monotonic(), step, {}
    with _log(out, recipe, step, rank) as log:
        while step < last and (minutes is None or _all(time.monotonic() - began < 60 * minutes, world, device)):
            now = moment(recipe, step)
            draw = Draw.at(recipe.seed * 1000 + rank, step, device)
            torch.manual_seed(int(draw.host.integers(2**63)))  # for the random auxiliary signal
            outcome = take(model, critic, pool, recipe, recipe.batch // world, now, draw, trip, average)
            trip = outcome.trip
            optimiser.zero_grad(set_to_none=True)
            outcome.loss.backward()
            burst = _descend(optimiser, model, now, recipe.clip, world)
            _follow(average, model, torch.where(averaged > 0, 1 - recipe.average, 1.0) * (1 - burst))
            skipped += burst
            averaged += 1 - burst
            if critic and critic_optimiser:
                critic_optimiser.zero_grad(set_to_none=True)
                losses.discriminate(critic(outcome.host), critic(outcome.marked.detach())).backward()
                _descend(critic_optimiser, critic, now, recipe.clip, world, burst)
            step += 1
            if step % log_every == 0 or step == last:
                speed = recipe.batch * (step - since) / (time.monotonic() - began)
                report = {key: value.item() for key, value in outcome.report.items()}
                report |= {"learning_rate": now.learning_rate, "skipped": int(skipped), "segments_per_second": speed}
                log(step, report)
            if rank == 0 and step % validate_every == 0 and step < last:
                found = validate(average, held_out, now.snr, validate_on)
                log(step, {f"valid_{key}": value for key, value in found.items()})
                save()
        if rank == 0:
            found = validate(average, held_out, moment(recipe, step).snr, validate_on)
            log(step, {f"valid_{key}": value for key, value in found.items()})
            save()
    if world > 1:
        dist.barrier()  # one that leaves while its last reduction is being cleared away aborts
        dist.destroy_process_group()
    return found


def _descend(
    optimiser: torch.optim.Optimizer,
    module: nn.Module,
    now: Moment,
    clip: float,
    world: int,
    skip: Tensor | float = 0.0,
) -> Tensor:
    """One step down the gradient; 1 where that is not finite or `skip` is 1: then nothing is changed.

    The optimiser itself looks at `found_inf`, on the device, so that the loop never waits for it.
    """
    parameters = [p for p in module.parameters() if p.grad is not None]
    if world > 1:
        for parameter in parameters:
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
    norm = nn.utils.clip_grad_norm_(parameters, clip or float("inf"))
    burst = (~torch.isfinite(norm) | (skip > 0)).float()
    for group in optimiser.param_groups:
        group["lr"] = now.learning_rate
    optimiser.found_inf = burst  # type: ignore[attr-defined]
    optimiser.step()
    return burst


@torch.no_grad()
def _follow(average: AnyNet, model: AnyNet, share: Tensor) -> None:
    """Move the average `share` of the way towards the weights; after a step that was skipped, 0."""
    ours: list[Tensor] = list(average.parameters())
    theirs: list[Tensor] = list(model.parameters())
    way = torch._foreach_sub(theirs, ours)
    torch._foreach_mul_(way, share)
    torch._foreach_add_(ours, way)


def _trip(parts: dict[str, checkpoint.Tensors], number: int, device: torch.device) -> Trip | None:
    """What was on its way when the run was stopped, unless the run goes on with too small a batch for it."""
    trip = Trip.of(parts["trip"], device) if "trip" in parts else None
    return trip if trip and len(trip) <= number else None


def _all(yes: bool, world: int, device: torch.device) -> bool:
    """Whether every process says yes: one that stopped by its own clock would leave the others waiting for it."""
    if world == 1:
        return yes
    said = torch.tensor(int(yes), device=device)
    dist.all_reduce(said, dist.ReduceOp.MIN)
    return bool(said)


def _begin_with(model: AnyNet, begin: Path) -> None:
    """The weights of a model folder, or in a safetensors file of a checkpoint, into a network of the same sizes.

    One whose extractor is trained apart may begin with those of one that shares its blocks.
    """
    try:
        weights = load_weights(begin).state_dict() if begin.is_dir() else load_file(begin)
        model.load_state_dict(weights if model.config.shared else apart(weights))
    except (OSError, SafetensorError) as error:
        raise FileError(f"{begin} is neither a model folder nor a file of weights") from error
    except RuntimeError as error:
        raise IdeawError(f"the weights of {begin} are those of another network than the recipe's") from error


def make_optimiser(recipe: Recipe, module: nn.Module) -> torch.optim.Optimizer:
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[recipe.optimiser]
    return kind(
        module.parameters(),
        lr=recipe.learning_rate,
        betas=recipe.betas,
        weight_decay=recipe.weight_decay,
        fused=True,
    )


def _device(world: int) -> torch.device:
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
    else:
        device = torch.device("cpu")
    if world > 1:
        on_gpu = device.type == "cuda"
        dist.init_process_group("nccl" if on_gpu else "gloo", device_id=device if on_gpu else None)
    return device


def compile_blocks(model: AnyNet) -> None:
    """Compile block by block: those of a stage are alike, so each kind is compiled once."""
    for module in model.modules():
        if isinstance(module, InvertibleBlock):
            module.find = torch.compile(module.find, dynamic=False)  # type: ignore[method-assign]
            module.clear = torch.compile(module.clear, dynamic=False)  # type: ignore[method-assign]
        if isinstance(module, InvertibleBlock | BalanceBlock | ConvStack):
            module.forward = torch.compile(module.forward, dynamic=False)  # type: ignore[assignment, method-assign]


@contextmanager
def _log(out: Path, recipe: Recipe, step: int, rank: int) -> Iterator[Callable[[int, dict[str, Any]], None]]:
    """A function that logs values at a step: JSON lines, TensorBoard if it is installed, a bar on a terminal."""
    if rank:
        yield lambda step, values: None
        return
    out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    told_last = TextColumn("{task.fields[told]}")
    columns = (TextColumn(recipe.name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), told_last)
    try:
        from torch.utils.tensorboard import SummaryWriter

        board = SummaryWriter(str(out / "tensorboard"), purge_step=step)
    except ImportError:
        board = None
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    with (out / "log.jsonl").open("a") as lines, bar:
        task = bar.add_task("", total=recipe.steps, completed=step, told="")

        def log(step: int, values: dict[str, Any]) -> None:
            rounded = {k: v if isinstance(v, int) else float(f"{v:.6g}") for k, v in values.items()}
            finite = {key: value if math.isfinite(value) else None for key, value in rounded.items()}
            lines.write(json.dumps({"step": step} | finite) + "\n")
            lines.flush()
            told = " ".join(f"{key} {value:.4g}" for key, value in rounded.items())
            bar.update(task, completed=step, told=told)
            if not console.is_terminal:
                console.print(f"step {step}: {told}", soft_wrap=True, highlight=False)
            if board:
                for key, value in values.items():
                    board.add_scalar(key, value, step)

        yield log
        if board:
            board.close()
