"""The training loop, top to bottom: build or resume, step, log, validate, save.

Runs on one GPU (or the CPU); under `torchrun` on several, each with its share of the batch.
"""

import copy
import os
import time
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ideaw.attacks.draw import Draw
from ideaw.errors import FileError, IdeawError
from ideaw.nets.blocks import InvertibleBlock
from ideaw.nets.build import AnyNet, build_network
from ideaw.nets.config import NetConfig
from ideaw.nets.discriminator import Discriminator
from ideaw.nets.model import BalanceBlock, untie_extractor
from ideaw.nets.rivals.wavelet import ConvStack
from ideaw.train import checkpoint, losses
from ideaw.train.data import load_pools
from ideaw.train.export import load_weights
from ideaw.train.in_flight import InFlightCodecs
from ideaw.train.progress import open_log
from ideaw.train.recipe import Recipe, convert_fields
from ideaw.train.schedule import check_recipe, schedule_at
from ideaw.train.step import training_step
from ideaw.train.validate import validate

MIN_MARGIN_SAMPLES = 250
"""Unmarked audio on either side of a segment, at least, so that it can be read off its place."""


def train(
    recipe: Recipe,
    data: Path,
    out: Path,
    minutes: float | None = None,
    log_every: int = 50,
    validate_every: int = 1000,
    stop_after: int | None = None,
    initial_weights: Path | None = None,
    validate_on: int = 256,
) -> dict[str, float]:
    """Train until the recipe's last step, or stop before that, and save.

    Args:
        recipe: What to train.
        data: Folder of audio files or tar packs.
        out: Folder of the run; if it holds a checkpoint, the run goes on from there.
        minutes: Stop after so many.
        log_every: Steps between two lines of the log.
        validate_every: Steps between two validations, each of which is saved.
        stop_after: Stop at this step.
        initial_weights: A model folder or a checkpoint's file of weights that a new run begins with.
        validate_on: Segments that a validation reads.

    Returns:
        The last validation, as `validate` gives it.

    Raises:
        IdeawError: If recipe, batch, checkpoint or weights do not fit.
        FileError: If data or weights cannot be read.
    """
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    check_recipe(recipe)
    if recipe.batch % world:
        raise IdeawError(f"a batch of {recipe.batch} cannot be shared by {world} processes: take a multiple of {world}")
    device = _open_device(world)
    torch.manual_seed(recipe.seed)
    pool, held_out = load_pools(data, max(MIN_MARGIN_SAMPLES, recipe.jitter), device)
    model = build_network(recipe.net)
    if initial_weights:
        _load_initial_weights(model, initial_weights)
    model.to(device)
    if device.type == "cuda":
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    discriminator = Discriminator().to(device) if recipe.losses.identify else None
    average = copy.deepcopy(model)
    optimiser = make_optimiser(recipe, model)
    discriminator_optimiser = make_optimiser(recipe, discriminator) if discriminator else None
    step, in_flight = 0, None
    skipped, averaged = torch.zeros(2, device=device)
    saved = checkpoint.load(out / "checkpoint")
    if saved:
        parts, facts = saved
        if convert_fields(NetConfig, facts["recipe"]["net"], str(out)) != recipe.net:
            raise IdeawError(f"{out} holds a run of another network: give this one a folder of its own")
        step = facts["step"]
        skipped += facts["skipped"]
        averaged += facts["averaged"]
        in_flight = _restore_in_flight(parts, recipe.batch // world, device) if rank == 0 else None
        model.load_state_dict(parts["model"])
        average.load_state_dict(parts["average"])
        checkpoint.restore_optimiser(optimiser, model, parts, "optimiser")
        if discriminator and discriminator_optimiser and "discriminator" in parts:
            discriminator.load_state_dict(parts["discriminator"])
            checkpoint.restore_optimiser(discriminator_optimiser, discriminator, parts, "discriminator")
    if recipe.compile and device.type == "cuda":
        compile_blocks(model)

    def save() -> None:
        parts = {"model": model.state_dict(), "average": average.state_dict()}
        parts |= checkpoint.optimiser_state(optimiser, model, "optimiser")
        parts |= {"in_flight": in_flight.tensors()} if in_flight else {}
        if discriminator and discriminator_optimiser:
            parts |= {"discriminator": discriminator.state_dict()}
            parts |= checkpoint.optimiser_state(discriminator_optimiser, discriminator, "discriminator")
        facts = {
            "step": step,
            "skipped": int(skipped),
            "averaged": int(averaged),
            "recipe": msgspec.to_builtins(recipe),
            "hours_of_audio": round(pool.seconds / 3600, 2),
        }
        checkpoint.save(out / "checkpoint", parts, facts)

    last = min(recipe.steps, stop_after or recipe.steps)
    start_time, start_step, accuracies = time.monotonic(), step, {}
    with open_log(out, recipe, step, rank) as log:
        while step < last and (
            minutes is None or _all_ranks(time.monotonic() - start_time < 60 * minutes, world, device)
        ):
            schedule = schedule_at(recipe, step)
            draw = Draw.at(recipe.seed * 1000 + rank, step, device)
            torch.manual_seed(int(draw.host.integers(2**63)))  # for the random auxiliary signal
            rows = recipe.batch // world
            result = training_step(
                model, discriminator, pool, recipe, rows, schedule, draw, returning=in_flight, overmarker=average
            )
            in_flight = result.in_flight
            optimiser.zero_grad(set_to_none=True)
            result.loss.backward()  # type: ignore[no-untyped-call]
            not_finite = _optimiser_step(optimiser, model, schedule.learning_rate, recipe.clip, world)
            _update_average(average, model, torch.where(averaged > 0, 1 - recipe.average, 1.0) * (1 - not_finite))
            skipped += not_finite
            averaged += 1 - not_finite
            if discriminator and discriminator_optimiser:
                discriminator_optimiser.zero_grad(set_to_none=True)
                losses.discriminate(discriminator(result.host), discriminator(result.marked.detach())).backward()  # type: ignore[no-untyped-call]
                _optimiser_step(
                    discriminator_optimiser, discriminator, schedule.learning_rate, recipe.clip, world, not_finite
                )
            step += 1
            if step % log_every == 0 or step == last:
                log(
                    step,
                    {key: value.item() for key, value in result.metrics.items()}
                    | {
                        "learning_rate": schedule.learning_rate,
                        "skipped": int(skipped),
                        "segments_per_second": recipe.batch * (step - start_step) / (time.monotonic() - start_time),
                    },
                )
            if rank == 0 and step % validate_every == 0 and step < last:
                accuracies = validate(average, held_out, schedule.snr, validate_on)
                log(step, {f"valid_{key}": value for key, value in accuracies.items()})
                save()
        if rank == 0:
            accuracies = validate(average, held_out, schedule_at(recipe, step).snr, validate_on)
            log(step, {f"valid_{key}": value for key, value in accuracies.items()})
            save()
    if world > 1:
        dist.barrier()  # a process that leaves while its last reduction is being cleared away aborts
        dist.destroy_process_group()
    return accuracies


def _optimiser_step(
    optimiser: torch.optim.Optimizer,
    module: nn.Module,
    learning_rate: float,
    clip: float,
    world: int,
    skip: Tensor | float = 0.0,
) -> Tensor:
    """One step down the gradient, unless that is not finite or `skip` is 1.

    A fused optimiser looks at `found_inf` itself, on the device, so that the loop never waits for it.

    Returns:
        A scalar: 1 if the step was skipped, else 0.
    """
    parameters = [p for p in module.parameters() if p.grad is not None]
    if world > 1:
        for parameter in parameters:
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
    norm = nn.utils.clip_grad_norm_(parameters, clip or float("inf"))
    not_finite = (~torch.isfinite(norm) | (skip > 0)).float()
    for group in optimiser.param_groups:
        group["lr"] = learning_rate
    optimiser.found_inf = not_finite  # type: ignore[attr-defined]
    optimiser.step()
    return not_finite


@torch.no_grad()
def _update_average(average: AnyNet, model: AnyNet, share: Tensor) -> None:
    """Move the average `share` of the way towards the weights; after a step that was skipped, 0."""
    averages: list[Tensor] = list(average.parameters())
    weights: list[Tensor] = list(model.parameters())
    update = torch._foreach_sub(weights, averages)
    torch._foreach_mul_(update, share)
    torch._foreach_add_(averages, update)


def _restore_in_flight(parts: dict[str, checkpoint.Tensors], rows: int, device: torch.device) -> InFlightCodecs | None:
    """The rows that were in the codecs when the run was stopped, unless the batch is now too small for them."""
    in_flight = InFlightCodecs.from_tensors(parts["in_flight"], device) if "in_flight" in parts else None
    return in_flight if in_flight and len(in_flight) <= rows else None


def _all_ranks(condition: bool, world: int, device: torch.device) -> bool:
    """Whether it holds for every process: one that stopped by its own clock would leave the others waiting for it."""
    if world == 1:
        return condition
    flag = torch.tensor(int(condition), device=device)
    dist.all_reduce(flag, dist.ReduceOp.MIN)
    return bool(flag)


def _load_initial_weights(model: AnyNet, source: Path) -> None:
    """The weights of a model folder, or in a safetensors file of a checkpoint, into a network of the same sizes.

    One whose extractor has its own weights may begin with those of one that shares its blocks.
    """
    try:
        weights = load_weights(source).state_dict() if source.is_dir() else load_file(source)
        model.load_state_dict(weights if model.config.shared else untie_extractor(weights))
    except (OSError, SafetensorError) as error:
        raise FileError(f"{source} is neither a model folder nor a file of weights") from error
    except RuntimeError as error:
        raise IdeawError(f"the weights of {source} are those of another network than the recipe's") from error


def make_optimiser(recipe: Recipe, module: nn.Module) -> torch.optim.Optimizer:
    """The recipe's optimiser of the parameters of a module."""
    optimiser_class: type[torch.optim.Adam] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[recipe.optimiser]
    return optimiser_class(
        module.parameters(),
        lr=recipe.learning_rate,
        betas=recipe.betas,
        weight_decay=recipe.weight_decay,
        fused=True,
    )


def _open_device(world: int) -> torch.device:
    """The process's GPU, or the CPU; with several processes the group is opened too."""
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
    """Compile block by block: those of a stage are alike, so that each kind is compiled once."""
    for module in model.modules():
        if isinstance(module, InvertibleBlock):
            module.invert_mark = torch.compile(module.invert_mark, dynamic=False)  # type: ignore[method-assign]
            module.invert_host = torch.compile(module.invert_host, dynamic=False)  # type: ignore[method-assign]
        if isinstance(module, InvertibleBlock | BalanceBlock | ConvStack):
            module.forward = torch.compile(module.forward, dynamic=False)  # type: ignore[assignment, method-assign]
