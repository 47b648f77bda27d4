"""A model folder: its graphs do what torch does, and a folder that does not fit says so in one line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from ideaw.audio.grid import BINS, SEGMENT
from ideaw.engine.network import Network
from ideaw.errors import ModelError
from ideaw.nets.model import Ideaw
from ideaw.train.export import load_weights


@pytest.fixture(scope="module")
def model(folder: Path) -> Ideaw:
    return load_weights(folder)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "model"))


def _spectrum(seed: int, frames: int = 21) -> np.ndarray:
    rng = np.random.default_rng(seed)
    parts = rng.standard_normal((2, 2, frames, BINS)).astype(np.float32)
    return parts[0] + 1j * parts[1]


def test_squeezing_is_that_of_torch_and_can_be_undone(network: Network, model: Ideaw) -> None:
    spectrum = _spectrum(0)
    squeezed = network.squeeze(spectrum)
    assert np.array_equal(squeezed, model.squeeze(torch.from_numpy(spectrum)).numpy())
    used = network.card.squeeze * network.card.bands
    back = network.unsqueeze(squeezed)
    assert np.array_equal(back[..., :used], spectrum[..., :used])
    assert not back[..., used:].any()


def test_each_graph_does_what_torch_does(network: Network, model: Ideaw) -> None:
    host, message, code = (_spectrum(seed) for seed in (1, 2, 3))
    with torch.no_grad():
        squeezed = [model.squeeze(torch.from_numpy(stream)) for stream in (host, message, code)]
        residual = model.unsqueeze(model.mark(*squeezed)).numpy()
        theirs, their_host = model.locate(squeezed[0])
        their_message = model.unsqueeze(model.read(their_host)).numpy()
    ours, our_host = network.locate(host)
    # Sums in another order: single precision over twelve nets.
    for mine, other in (
        (network.mark(host, message, code), residual),
        (ours, model.unsqueeze(theirs).numpy()),
        (our_host, their_host.numpy()),
        (network.read(our_host), their_message),
    ):
        assert np.abs(mine - other).max() < 1e-3 * np.abs(other).max()


def test_each_input_of_the_marking_graph_counts(network: Network) -> None:
    streams = [_spectrum(seed) for seed in (1, 2, 3)]
    residual = network.mark(*streams)
    for changed in range(3):
        others = [_spectrum(9) if place == changed else stream for place, stream in enumerate(streams)]
        assert np.abs(network.mark(*others) - residual).max() > 1e-2 * np.abs(residual).max()


def test_carriers_and_card_belong_together(network: Network) -> None:
    assert network.message.write.shape == (network.card.message_bits, SEGMENT)
    assert network.code.read.shape == (network.card.code_bits, SEGMENT)
    assert network.message.write.dtype == network.code.offset.dtype == np.float32


@pytest.mark.parametrize("name", ["card.json", "carriers.safetensors", "mark.onnx", "locate.onnx", "read.onnx"])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(ModelError, match=name):
        Network(copy)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere"):
        Network(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}", '{"name": "46+10"}'])
def test_a_card_that_is_none_is_refused(copy: Path, text: str) -> None:
    (copy / "card.json").write_text(text)
    with pytest.raises(ModelError, match=r"card\.json"):
        Network(copy)


@pytest.mark.parametrize(
    ("entry", "value"), [("message_bits", 22), ("code_bits", 11), ("bands", 900), ("squeeze", "x")]
)
def test_a_card_that_does_not_fit_is_refused(copy: Path, entry: str, value: object) -> None:
    card = json.loads((copy / "card.json").read_text())
    (copy / "card.json").write_text(json.dumps({**card, entry: value}))
    with pytest.raises(ModelError):
        Network(copy)


def test_damaged_files_are_refused(copy: Path) -> None:
    (copy / "locate.onnx").write_bytes(b"no graph")
    damaged = Network(copy)
    with pytest.raises(ModelError, match=r"locate\.onnx"):
        damaged.locate(_spectrum(0))
    (copy / "carriers.safetensors").write_bytes((copy / "carriers.safetensors").read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"carriers\.safetensors"):
        Network(copy)
