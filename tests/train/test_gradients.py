"""One attacked step reaches every trainable number: stages, length regulators, balance block, discriminator."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from ideaw.attacks.batch import Draw
from ideaw.nets.discriminator import Discriminator
from ideaw.nets.model import Ideaw
from ideaw.train import losses
from ideaw.train.data import load_pools
from ideaw.train.loop import MARGIN
from ideaw.train.recipe import Recipe
from ideaw.train.step import Outcome, moment, take

EIGHT = 8
"""Segments in the step: one for each of the paper's attacks."""


def _step(recipe: Recipe, folder: Path) -> tuple[Ideaw, Discriminator, Outcome]:
    """The last step of a run on fresh weights, with attacks on all of the batch."""
    torch.manual_seed(1)
    model, critic = Ideaw(recipe.net), Discriminator(4)
    pool, _ = load_pools(folder, MARGIN, torch.device("cpu"))
    now = moment(recipe, recipe.steps - 1)
    assert now.attacked
    return model, critic, take(model, critic, pool, recipe, EIGHT, now, Draw.at(1, 0, "cpu"))


def _unreached(module: nn.Module) -> list[str]:
    """Parameters without a gradient, or with one that is not finite or zero everywhere."""
    grads = {name: parameter.grad for name, parameter in module.named_parameters()}
    return [name for name, grad in grads.items() if grad is None or not grad.isfinite().all() or not grad.any()]


def test_every_part_of_the_network_learns(recipe: Recipe, folder: Path) -> None:
    model, _, outcome = _step(recipe, folder)
    outcome.loss.backward()
    assert _unreached(model) == []
    parts = {name.split(".")[0] for name, _ in model.named_parameters()}
    assert parts == {"message_stage", "code_stage", "balance", "message_regulators", "code_regulators"}


def test_every_bit_of_every_length_regulator_learns(recipe: Recipe, folder: Path) -> None:
    model, _, outcome = _step(recipe, folder)
    outcome.loss.backward()
    for regulators in (model.message_regulators, model.code_regulators):
        for matrix in (regulators.write, regulators.read):
            assert matrix.grad is not None
            assert matrix.grad.any(1).all()


def test_the_discriminator_learns_from_its_own_loss_alone(recipe: Recipe, folder: Path) -> None:
    model, critic, outcome = _step(recipe, folder)
    losses.discriminate(critic(outcome.host), critic(outcome.marked.detach())).backward()
    assert _unreached(critic) == []
    assert all(parameter.grad is None for parameter in model.parameters())


def test_attacks_alone_teach_through_real_codecs(recipe: Recipe, folder: Path) -> None:
    model, _, outcome = _step(replace(recipe, attacks={"mp3": 1.0}), folder)
    outcome.loss.backward()
    assert _unreached(model) == []


def test_before_the_attacks_the_balance_block_rests(recipe: Recipe, folder: Path) -> None:
    model, _, outcome = _step(recipe, folder)
    outcome.loss.backward()
    model.zero_grad(set_to_none=True)
    pool, _ = load_pools(folder, MARGIN, torch.device("cpu"))
    take(model, None, pool, recipe, EIGHT, moment(recipe, 0), Draw.at(1, 0, "cpu")).loss.backward()
    resting = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert resting == [f"balance.{name}" for name, _ in model.balance.named_parameters()]
