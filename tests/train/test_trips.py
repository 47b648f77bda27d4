"""Rows leave for real codecs in one step and are back in the next, as what those codecs made of them."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ideaw.attacks.batch import CODEC_STRENGTHS, TRAINING, Draw
from ideaw.attacks.codecs import mp3, opus
from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.nets.model import Ideaw
from ideaw.train import step
from ideaw.train.data import Pool, load_pools
from ideaw.train.loop import MARGIN
from ideaw.train.recipe import Recipe
from ideaw.train.step import Batch, Moment, Outcome, Trip, moment, take

from .conftest import OURS

CPU = torch.device("cpu")
CODED = replace(OURS, attacks={"noise": 0.25, "mp3": 0.25, "opus": 0.125, "polarity": 0.25})


@pytest.fixture(scope="module")
def pool(folder: Path) -> Pool:
    return load_pools(folder, MARGIN, CPU)[0]


@pytest.fixture(scope="module")
def model() -> Ideaw:
    torch.manual_seed(1)
    return Ideaw(OURS.net)


def _now(recipe: Recipe) -> Moment:
    return moment(recipe, recipe.steps - 1)


@torch.no_grad()
def _take(model: Ideaw, pool: Pool, recipe: Recipe, number: int, at: int, back: Trip | None = None) -> Outcome:
    return take(model, None, pool, recipe, number, _now(recipe), Draw.at(1, at, CPU), back)


def _rows(batch: Batch) -> dict[str, Tensor]:
    return {f.name: getattr(batch, f.name) for f in fields(batch)}


def test_the_last_rows_leave_as_many_as_the_codecs_share(model: Ideaw, pool: Pool) -> None:
    outcome = _take(model, pool, CODED, 8, 0)
    trip = outcome.trip
    assert trip is not None
    assert len(trip) == 3
    assert torch.equal(trip.marked[:, MARGIN : MARGIN + SEGMENT_SAMPLES], outcome.marked[5:])
    assert torch.equal(trip.batch.placed[:, MARGIN : MARGIN + SEGMENT_SAMPLES], outcome.host[5:])


def test_what_is_heard_is_what_the_codecs_make_of_what_was_sent(model: Ideaw, pool: Pool) -> None:
    trip = _take(model, pool, CODED, 8, 0).trip
    assert trip is not None
    heard = trip.heard().numpy()
    candidates = {"mp3": (mp3, CODEC_STRENGTHS["mp3"]), "opus": (opus, CODEC_STRENGTHS["opus"])}
    for sent, came, name in zip(trip.marked.numpy(), heard, ("mp3", "mp3", "opus"), strict=True):
        codec, strengths = candidates[name]
        assert any(np.array_equal(codec(sent, 16_000, strength), came) for strength in strengths)
    assert torch.equal(trip.error(), torch.from_numpy(heard) - trip.marked)


def test_in_the_next_step_they_come_first_and_are_marked_anew(
    model: Ideaw, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []
    cut = step._cut

    def spy(around: Tensor, begin: Tensor) -> Tensor:
        seen.append(around)
        return cut(around, begin)

    trip = _take(model, pool, CODED, 8, 0).trip
    assert trip is not None
    monkeypatch.setattr(step, "_cut", spy)
    outcome = _take(model, pool, CODED, 8, 1, trip)
    assert outcome.host.shape == (8, SEGMENT_SAMPLES)
    assert torch.equal(outcome.host[:3], trip.batch.placed[:, MARGIN : MARGIN + SEGMENT_SAMPLES])
    # The weights are still the same, so marked anew is marked as before, and what is read is what the codecs gave.
    assert torch.allclose(outcome.marked[:3], trip.marked[:, MARGIN : MARGIN + SEGMENT_SAMPLES], atol=1e-6)
    assert torch.allclose(seen[0][:3], trip.heard(), atol=1e-6)
    # Then noise on two rows and polarity on two; the last is read as it is.
    untouched = (seen[0][:, MARGIN : MARGIN + SEGMENT_SAMPLES] - outcome.marked).abs().amax(1) < 1e-7
    assert untouched.tolist() == [False] * 7 + [True]
    assert torch.equal(seen[0][5:7, MARGIN : MARGIN + SEGMENT_SAMPLES], -outcome.marked[5:7])


def test_a_trip_comes_back_from_its_tensors(model: Ideaw, pool: Pool) -> None:
    trip = _take(model, pool, CODED, 8, 0).trip
    assert trip is not None
    tensors = {name: tensor.clone() for name, tensor in trip.tensors().items()}
    back = Trip.of(tensors, CPU)
    assert all(torch.equal(ours, _rows(trip.batch)[name]) for name, ours in _rows(back.batch).items())
    assert torch.equal(back.marked, trip.marked)
    assert torch.equal(back.heard(), trip.heard())
    one, other = (_take(model, pool, CODED, 8, 1, way) for way in (trip, back))
    assert torch.equal(one.loss, other.loss)


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_every_attack_finds_rows_however_the_shares_are_rounded(model: Ideaw, pool: Pool, number: int) -> None:
    """With all rows attacked, those that are back and this step's own may be one more than there are."""
    full = replace(OURS, attacks={"mp3": 0.3, "noise": 0.3, "lowpass": 0.2, "stretch": 0.2})
    trip = None
    for at in range(12):
        outcome = _take(model, pool, full, number, at, trip)
        trip = outcome.trip
        assert len(outcome.host) == number
        assert outcome.loss.isfinite()
        assert trip is None or len(trip) <= number


def test_marked_audio_that_is_not_finite_is_kept_from_the_codecs(pool: Pool) -> None:
    model = Ideaw(OURS.net)
    with torch.no_grad():
        model.message_stage.blocks[0].to_host.nets[0].leave.bias.fill_(float("nan"))  # type: ignore[union-attr]
    outcome = _take(model, pool, CODED, 8, 0)
    assert not outcome.loss.isfinite()
    assert outcome.trip is not None
    assert outcome.trip.heard().isfinite().all()


def test_codecs_are_trained_at_the_strengths_of_their_layers() -> None:
    assert set(step.CODECS) == set(CODEC_STRENGTHS)
    for name, strengths in CODEC_STRENGTHS.items():
        (given,) = TRAINING[name].keywords.values()  # type: ignore[attr-defined]
        assert given == strengths
