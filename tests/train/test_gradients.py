"""Attacked steps reach every trainable number: stages, carriers, balance block, discriminator; also through codecs."""

from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from torch import nn

from ideaw.attacks.draw import Draw
from ideaw.nets.build import build_dual_stage
from ideaw.nets.discriminator import Discriminator
from ideaw.nets.model import Ideaw
from ideaw.train import losses
from ideaw.train.data import load_pools
from ideaw.train.loop import MIN_MARGIN_SAMPLES
from ideaw.train.recipe import Recipe
from ideaw.train.schedule import schedule_at
from ideaw.train.step import StepResult, training_step

from .conftest import THE_PAPERS

EIGHT = 8
"""Segments in the step: one for each of the paper's attacks."""


def _steps(recipe: Recipe, folder: Path, number: int = 2) -> tuple[Ideaw, Discriminator, list[StepResult]]:
    """Steps of the last moment of a run on fresh weights: rows that leave for the codecs are back in the next.

    Only the last one has gradients.
    """
    torch.manual_seed(1)
    model, discriminator = build_dual_stage(recipe.net), Discriminator(4)
    pool, _ = load_pools(folder, MIN_MARGIN_SAMPLES, torch.device("cpu"))
    schedule = schedule_at(recipe, recipe.steps - 1)
    assert schedule.attacked
    results: list[StepResult] = []
    for step in range(number):
        in_flight = results[-1].in_flight if results else None
        with torch.set_grad_enabled(step == number - 1):
            results.append(
                training_step(model, discriminator, pool, recipe, EIGHT, schedule, Draw.at(1, step, "cpu"), in_flight)
            )
    return model, discriminator, results


def _unreached(module: nn.Module) -> list[str]:
    """Parameters without a gradient, or with one that is not finite or zero everywhere."""
    grads = {name: parameter.grad for name, parameter in module.named_parameters()}
    return [name for name, grad in grads.items() if grad is None or not grad.isfinite().all() or not grad.any()]


@pytest.mark.slow
def test_every_part_of_the_network_learns(recipe: Recipe, folder: Path) -> None:
    model, _, (*_, result) = _steps(recipe, folder)
    result.loss.backward()
    assert _unreached(model) == []
    parts = {name.split(".")[0] for name, _ in model.named_parameters()}
    learned = {"message_carriers", "code_carriers"} if recipe.net.carriers == "learned" else set()
    assert parts == {"message_stage", "code_stage", "balance", "llr_scale"} | learned


@pytest.mark.slow
def test_every_slot_of_every_learned_carrier_learns(folder: Path) -> None:
    model, _, (result,) = _steps(THE_PAPERS, folder, 1)
    result.loss.backward()
    for carriers in (model.message_carriers, model.code_carriers):
        for signals in (carriers.write, carriers.read):
            assert signals.grad is not None
            assert signals.grad.any(1).all()


@pytest.mark.slow
def test_the_discriminator_learns_from_its_own_loss_alone(recipe: Recipe, folder: Path) -> None:
    model, discriminator, (result,) = _steps(recipe, folder, 1)
    losses.discriminate(discriminator(result.host), discriminator(result.marked.detach())).backward()
    assert _unreached(discriminator) == []
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.slow
def test_what_is_back_from_real_codecs_teaches(recipe: Recipe, folder: Path) -> None:
    """With nothing but codecs, all rows leave in the first step, and all of the second are back from there."""
    model, _, (first, second) = _steps(replace(recipe, attacks={"mp3": 1.0}), folder)
    assert first.in_flight is not None
    assert len(first.in_flight) == EIGHT
    assert second.in_flight is None
    assert second.metrics["loss"] != first.metrics["loss"]
    second.loss.backward()
    assert _unreached(model) == []


@pytest.mark.slow
def test_a_second_mark_gives_no_gradient_of_its_own(recipe: Recipe, folder: Path) -> None:
    torch.manual_seed(1)
    alone = replace(recipe, attacks={"overmark": 1.0})
    model, overmarker = build_dual_stage(recipe.net), build_dual_stage(recipe.net)
    pool, _ = load_pools(folder, MIN_MARGIN_SAMPLES, torch.device("cpu"))
    schedule = schedule_at(alone, alone.steps - 1)
    training_step(model, None, pool, alone, 2, schedule, Draw.at(1, 0, "cpu"), overmarker=overmarker).loss.backward()
    assert _unreached(model) == []
    assert all(parameter.grad is None for parameter in overmarker.parameters())


@pytest.mark.slow
def test_before_the_attacks_the_balance_block_rests(recipe: Recipe, folder: Path) -> None:
    model = build_dual_stage(recipe.net)
    pool, _ = load_pools(folder, MIN_MARGIN_SAMPLES, torch.device("cpu"))
    result = training_step(model, None, pool, recipe, EIGHT, schedule_at(recipe, 0), Draw.at(1, 0, "cpu"))
    assert result.in_flight is None
    result.loss.backward()
    resting = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert resting == [f"balance.{name}" for name, _ in model.balance.named_parameters()]
