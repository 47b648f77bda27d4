"""The networks of ablations and baselines: each trains, goes on, is exported, and is measured like the one we ship."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.bench.rivals import load_segment_marker
from ideaw.bench.tables import segments
from ideaw.errors import IdeawError, ModelError
from ideaw.train import checkpoint
from ideaw.train.export import export_run
from ideaw.train.loop import train
from ideaw.train.recipe import Losses, Recipe

from .conftest import OURS

pytestmark = pytest.mark.slow

SINGLE_STAGE = {"code_bits": 0, "code_slots": 0, "code_blocks": 0}

VARIANTS = {
    "discriminator": replace(OURS, losses=Losses(identify=0.1)),
    "no balance block": replace(OURS, net=replace(OURS.net, balance_blocks=0)),
    "single stage": replace(OURS, net=replace(OURS.net, message_bits=9, message_slots=12, **SINGLE_STAGE)),  # type: ignore[arg-type]
    "shifted": replace(
        OURS,
        net=replace(OURS.net, balance_blocks=0, carriers="learned", **SINGLE_STAGE),  # type: ignore[arg-type]
        jitter=1600,
        jitter_ramp=0.0,
        attacks={"mp3": 0.25, "echo": 0.25},
    ),
    "on wavelets": replace(
        OURS,
        net=replace(OURS.net, domain="wavelet", message_slots=6, carriers="learned", **SINGLE_STAGE),  # type: ignore[arg-type]
        attacks={"mp3": 0.25, "rerecord": 0.5},
    ),
}


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Recipe:
    return VARIANTS[request.param]


@pytest.fixture(scope="module")
def run(variant: Recipe, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped on its way, with attacks and rows at the codecs, and went on."""
    out = tmp_path_factory.mktemp("run")
    for stop in (3, None):
        train(variant, folder, out, log_every=1, validate_on=2, stop_after=stop)
    return out


@pytest.fixture(scope="module")
def model(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("model")
    export_run(run, target, snr=20.0)
    return target


def test_it_goes_on_where_it_was_stopped(variant: Recipe, run: Path, folder: Path, tmp_path: Path) -> None:
    train(variant, folder, tmp_path, validate_on=2)
    uninterrupted, stopped = (checkpoint.load(out / "checkpoint") for out in (tmp_path, run))
    assert uninterrupted
    assert stopped
    assert sorted(uninterrupted[0]) == sorted(stopped[0])
    assert ("discriminator" in uninterrupted[0]) == (variant.losses.identify > 0)
    for part, tensors in uninterrupted[0].items():
        assert all(torch.equal(tensor, stopped[0][part][name]) for name, tensor in tensors.items())


def test_it_logs_the_code_only_if_it_has_one(variant: Recipe, run: Path) -> None:
    first = json.loads((run / "log.jsonl").read_text().splitlines()[0])
    assert first["loss"] > 0
    assert ("code" in first) == (variant.net.code_bits > 0)


def test_it_is_measured_on_segments(variant: Recipe, model: Path, folder: Path) -> None:
    table = segments.run(folder, str(model), snr=10.0, limit=4)
    assert table.model == f"{variant.net.message_bits}+{variant.net.code_bits}"
    assert table.lowest_snr >= 10
    assert len(load_segment_marker(model).weights_id) == 16
    assert table.rows[0].accuracy > 85  # untrained, but at 10 dB it reads


def test_on_wavelets_there_are_no_eight_bits_and_one_stage(folder: Path, tmp_path: Path) -> None:
    wavelets = VARIANTS["on wavelets"]
    train(wavelets, folder, tmp_path / "run", minutes=0.0, validate_on=2)
    with pytest.raises(IdeawError, match="no form of eight bits"):
        export_run(tmp_path / "run", tmp_path / "model", eight_bit=True)
    assert not (tmp_path / "model").exists()
    with pytest.raises(IdeawError, match="one stage"):
        train(replace(wavelets, net=replace(OURS.net, domain="wavelet")), folder, tmp_path / "two stages")


def test_a_single_stage_reads_segments_and_finds_nothing(
    tmp_path: Path, folder: Path, speech: NDArray[np.float32]
) -> None:
    train(VARIANTS["single stage"], folder, tmp_path / "run", minutes=0.0, validate_on=2)
    export_run(tmp_path / "run", tmp_path / "model", eight_bit=True)
    marker = ideaw.load(tmp_path / "model")
    assert (marker.message_bits, marker.code_bits) == (9, 0)
    bits = np.random.default_rng(1).integers(0, 2, (6, 9))
    audio = speech.reshape(-1, SEGMENT_SAMPLES)
    message, code = marker.extract_segment(marker.embed_segment(audio, bits, np.empty((6, 0), int), snr=10.0))
    assert ((message > 0) == bits).mean() > 0.85
    assert code.shape == (6, 0)
    for call in (lambda: marker.embed(speech, SAMPLE_RATE, [1]), lambda: marker.detect(speech, SAMPLE_RATE)):
        with pytest.raises(ModelError, match=r"9\+0 has no locating code"):
            call()
