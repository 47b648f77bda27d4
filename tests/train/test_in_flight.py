"""Rows leave for real codecs in one step and return in the next, as what those codecs made of them."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from torch import Tensor

from ideaw.attacks.batch import CODEC_STRENGTHS, TRAINING
from ideaw.attacks.codecs import mp3, opus
from ideaw.attacks.draw import Draw
from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.nets.model import Ideaw
from ideaw.train import step
from ideaw.train.data import SegmentPool, load_pools
from ideaw.train.in_flight import CODEC_ATTACKS, Batch, InFlightCodecs
from ideaw.train.loop import MIN_MARGIN_SAMPLES
from ideaw.train.recipe import Recipe
from ideaw.train.schedule import StepSchedule, schedule_at
from ideaw.train.step import StepResult, training_step

from .conftest import OURS

CPU = torch.device("cpu")
SEGMENT = slice(MIN_MARGIN_SAMPLES, MIN_MARGIN_SAMPLES + SEGMENT_SAMPLES)
CODED = replace(OURS, attacks={"noise": 0.25, "mp3": 0.25, "opus": 0.125, "polarity": 0.25})


@pytest.fixture(scope="module")
def pool(folder: Path) -> SegmentPool:
    return load_pools(folder, MIN_MARGIN_SAMPLES, CPU)[0]


@pytest.fixture(scope="module")
def model() -> Ideaw:
    torch.manual_seed(1)
    return Ideaw(OURS.net)


def _schedule(recipe: Recipe) -> StepSchedule:
    return schedule_at(recipe, recipe.steps - 1)


@torch.no_grad()
def _step(
    model: Ideaw, pool: SegmentPool, recipe: Recipe, rows: int, at: int, returning: InFlightCodecs | None = None
) -> StepResult:
    return training_step(model, None, pool, recipe, rows, _schedule(recipe), Draw.at(1, at, CPU), returning)


def _rows(batch: Batch) -> dict[str, Tensor]:
    return {f.name: getattr(batch, f.name) for f in fields(batch)}


def test_the_last_rows_leave_as_many_as_the_codecs_share(model: Ideaw, pool: SegmentPool) -> None:
    result = _step(model, pool, CODED, 8, 0)
    in_flight = result.in_flight
    assert in_flight is not None
    assert len(in_flight) == 3
    assert torch.equal(in_flight.marked[:, SEGMENT], result.marked[5:])
    assert torch.equal(in_flight.batch.padded[:, SEGMENT], result.host[5:])


@pytest.mark.slow
def test_what_is_decoded_is_what_the_codecs_make_of_what_was_sent(model: Ideaw, pool: SegmentPool) -> None:
    in_flight = _step(model, pool, CODED, 8, 0).in_flight
    assert in_flight is not None
    decoded = in_flight.decoded().numpy()
    candidates = {"mp3": (mp3, CODEC_STRENGTHS["mp3"]), "opus": (opus, CODEC_STRENGTHS["opus"])}
    for sent, returned, name in zip(in_flight.marked.numpy(), decoded, ("mp3", "mp3", "opus"), strict=True):
        codec, strengths = candidates[name]
        assert any(np.array_equal(codec(sent, 16_000, strength), returned) for strength in strengths)
    assert torch.equal(in_flight.error(), torch.from_numpy(decoded) - in_flight.marked)


@pytest.mark.slow
def test_in_the_next_step_they_come_first_and_are_marked_anew(
    model: Ideaw, pool: SegmentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacked: list[Tensor] = []
    cut = step._cut_segments

    def spy(padded: Tensor, start: Tensor) -> Tensor:
        attacked.append(padded)
        return cut(padded, start)

    in_flight = _step(model, pool, CODED, 8, 0).in_flight
    assert in_flight is not None
    monkeypatch.setattr(step, "_cut_segments", spy)
    result = _step(model, pool, CODED, 8, 1, in_flight)
    assert result.host.shape == (8, SEGMENT_SAMPLES)
    assert torch.equal(result.host[:3], in_flight.batch.padded[:, SEGMENT])
    # The weights are still the same, so marked anew is marked as before, and what is read is what the codecs gave.
    assert torch.allclose(result.marked[:3], in_flight.marked[:, SEGMENT], atol=1e-6)
    assert torch.allclose(attacked[0][:3], in_flight.decoded(), atol=1e-6)
    # Then noise on two rows and polarity on two; the last is read as it is.
    untouched = (attacked[0][:, SEGMENT] - result.marked).abs().amax(1) < 1e-7
    assert untouched.tolist() == [False] * 7 + [True]
    assert torch.equal(attacked[0][5:7, SEGMENT], -result.marked[5:7])


def test_rows_in_flight_come_back_from_their_tensors(model: Ideaw, pool: SegmentPool) -> None:
    in_flight = _step(model, pool, CODED, 8, 0).in_flight
    assert in_flight is not None
    tensors = {name: tensor.clone() for name, tensor in in_flight.tensors().items()}
    restored = InFlightCodecs.from_tensors(tensors, CPU)
    assert all(torch.equal(rows, _rows(in_flight.batch)[name]) for name, rows in _rows(restored.batch).items())
    assert torch.equal(restored.marked, in_flight.marked)
    assert torch.equal(restored.decoded(), in_flight.decoded())
    results = [_step(model, pool, CODED, 8, 1, returning) for returning in (in_flight, restored)]
    assert torch.equal(results[0].loss, results[1].loss)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_every_attack_finds_rows_however_the_shares_are_rounded(model: Ideaw, pool: SegmentPool, rows: int) -> None:
    """With all rows attacked, those that return and this step's own may be one more than there are."""
    full = replace(OURS, attacks={"mp3": 0.3, "noise": 0.3, "lowpass": 0.2, "stretch": 0.2})
    in_flight = None
    for at in range(12):
        result = _step(model, pool, full, rows, at, in_flight)
        in_flight = result.in_flight
        assert len(result.host) == rows
        assert result.loss.isfinite()
        assert in_flight is None or len(in_flight) <= rows


def test_marked_audio_that_is_not_finite_is_not_sent_to_the_codecs(pool: SegmentPool) -> None:
    model = Ideaw(OURS.net)
    with torch.no_grad():
        model.message_stage.blocks[0].to_host.nets[0].leave.bias.fill_(float("nan"))  # type: ignore[union-attr]
    result = _step(model, pool, CODED, 8, 0)
    assert not result.loss.isfinite()
    assert result.in_flight is not None
    assert result.in_flight.decoded().isfinite().all()


def test_codecs_are_trained_at_the_strengths_of_their_layers() -> None:
    assert set(CODEC_ATTACKS) == set(CODEC_STRENGTHS)
    for name, strengths in CODEC_STRENGTHS.items():
        (given,) = TRAINING[name].keywords.values()  # type: ignore[attr-defined]
        assert given == strengths
