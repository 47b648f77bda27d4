"""From a run to a model folder: quiet, whole, readable, and its graphs do what torch does."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from ideaw.engine.network import Network
from ideaw.errors import FileError
from ideaw.nets.cost import multiply_adds, parameters
from ideaw.nets.model import Ideaw
from ideaw.train import checkpoint
from ideaw.train.export import export_run, load_weights, save_weights
from ideaw.train.loop import train

from .conftest import OURS

EXPORT = """
import sys
from pathlib import Path

from ideaw.train.export import export_run

export_run(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@dataclass(frozen=True)
class Exported:
    run: Path
    target: Path
    said: str


@pytest.fixture(scope="module")
def exported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A run of one step and its export, made in a process of its own so that all it prints is seen."""
    run, target = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("models") / "new"
    train(OURS, folder, run, stop_after=1, validate_on=4)
    command = [sys.executable, "-c", EXPORT, str(run), str(target)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=environment)
    return Exported(run, target, done.stdout + done.stderr)


def test_nothing_is_printed(exported: Exported) -> None:
    assert exported.said == ""


def test_the_folder_holds_six_files_that_everyone_may_read(exported: Exported) -> None:
    modes = {path.name: oct(path.stat().st_mode)[-3:] for path in exported.target.iterdir()}
    files = "card.json", "carriers.safetensors", "locate.onnx", "mark.onnx", "network.safetensors", "read.onnx"
    assert modes == dict.fromkeys(files, "644")


def test_the_card_has_the_runs_numbers(exported: Exported) -> None:
    kept = checkpoint.load(exported.run / "checkpoint")
    assert kept is not None
    model = Ideaw(OURS.net)
    assert json.loads((exported.target / "card.json").read_text()) == {
        "name": "6+3",
        "message_bits": 6,
        "code_bits": 3,
        "snr": 30.0,
        "squeeze": 24,
        "bands": 20,
        "context": OURS.net.context,
        "parameters": parameters(model),
        "multiply_adds_per_second": multiply_adds(model),
        "trained": {
            "recipe": "ours",
            "steps": 1,
            "batch": kept[1]["recipe"]["batch"],
            "hours_of_audio": kept[1]["hours_of_audio"],
        },
    }


def test_the_weights_are_the_runs_average(exported: Exported) -> None:
    kept = checkpoint.load(exported.run / "checkpoint")
    assert kept is not None
    shipped = load_weights(exported.target).state_dict()
    assert sorted(shipped) == sorted(kept[0]["average"])
    assert all(torch.equal(value, kept[0]["average"][name].half().float()) for name, value in shipped.items())


@pytest.mark.parametrize(("batch", "frames"), [(1, 64), (3, 17), (2, 200)])
def test_each_graph_does_what_torch_does(exported: Exported, batch: int, frames: int) -> None:
    model = load_weights(exported.target)
    streams = torch.randn(
        3, batch, OURS.net.channels, frames, OURS.net.bands, generator=torch.Generator().manual_seed(1)
    )
    with torch.no_grad():
        code, host = model.locate(streams[0])
        expected = {"mark": [model.mark(*streams)], "locate": [code, host], "read": [model.read(streams[0])]}
    inputs = {"mark": dict(zip(("host", "message", "code"), streams.numpy(), strict=True))}
    inputs |= {"locate": {"received": streams[0].numpy()}, "read": {"host": streams[0].numpy()}}
    for name, outputs in expected.items():
        session = onnxruntime.InferenceSession(exported.target / f"{name}.onnx")
        for ours, theirs in zip(session.run(None, inputs[name]), outputs, strict=True):
            # The same single-precision weights, summed in another order.
            assert np.abs(ours - theirs.numpy()).max() < 1e-4 * theirs.abs().max()


def test_the_engine_takes_the_folder(exported: Exported) -> None:
    network = Network(exported.target)
    assert (network.card.message_bits, network.card.code_bits, network.card.snr) == (6, 3, 30.0)


def test_weights_come_back_in_half_precision_with_their_configuration(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = Ideaw(OURS.net)
    save_weights(model, tmp_path)
    back = load_weights(tmp_path)
    assert back.config == OURS.net
    assert not back.training
    for name, value in back.state_dict().items():
        assert torch.equal(value, model.state_dict()[name].half().float())


def test_what_is_no_run_or_no_model_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no checkpoint"):
        export_run(tmp_path, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(FileError, match="not a model folder"):
        load_weights(tmp_path)
    (tmp_path / "network.safetensors").write_bytes(b"not weights")
    with pytest.raises(FileError, match="not a model folder"):
        load_weights(tmp_path)
