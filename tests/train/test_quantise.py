"""Eight bits: the network that is made equalised computes the same, and what its graphs mark reads as well."""

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND, NUM_BINS, SEGMENT_SAMPLES
from ideaw.engine.network import Network
from ideaw.engine.segments import embed_segments, extract_segments
from ideaw.marker import DEFAULT_MODEL, model_folder
from ideaw.nets.blocks import ConvSubnet
from ideaw.nets.model import Ideaw
from ideaw.train import export, quantise
from ideaw.train.export import load_weights

from .conftest import OURS


@pytest.fixture(autouse=True, scope="module")
def _one_second() -> Iterator[None]:
    """Of each sample is enough here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantise, "CALIBRATION_SECONDS", 1)
        yield


@pytest.fixture(scope="module")
def model() -> Ideaw:
    """The shipped network: ranges of an untrained one say nothing."""
    return load_weights(Path(str(model_folder(DEFAULT_MODEL))))


@pytest.fixture(scope="module")
def equalised(model: Ideaw) -> Ideaw:
    made = copy.deepcopy(model)
    quantise.equalise_ranges(made)
    return made


@pytest.fixture(scope="module")
def made() -> Path:
    """The shipped model folder, whose graphs have eight bits."""
    return Path(str(model_folder(DEFAULT_MODEL)))


def _apart(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


# Even ranges


def test_the_ranges_are_measured_on_what_occurs(model: Ideaw) -> None:
    inputs_of = quantise.calibration_inputs(model)
    assert set(inputs_of) == {"mark", "locate", "read"}
    frames = quantise.CALIBRATION_SECONDS * FRAMES_PER_SECOND
    assert inputs_of["mark"]["host"].shape == inputs_of["locate"]["received"].shape == (2, frames, NUM_BINS, 2)
    assert set(np.unique(inputs_of["mark"]["message"])) == set(np.unique(inputs_of["mark"]["code"])) == {-1, 1}
    added = inputs_of["locate"]["received"] - inputs_of["mark"]["host"]
    assert np.linalg.norm(added) == pytest.approx(0.01 * np.linalg.norm(inputs_of["mark"]["host"]), rel=1e-3)  # 40 dB
    readings = 2 * (quantise.UNIT_SPEED_COPIES + len(quantise.CALIBRATION_SPEEDS))
    assert {len(each) for each in inputs_of["read"].values()} == {readings}
    again = quantise.calibration_inputs(model)
    assert all(
        np.array_equal(inputs_of[graph][name], again[graph][name]) for graph in inputs_of for name in inputs_of[graph]
    )


@torch.no_grad()
def test_an_even_network_computes_the_same(model: Ideaw, equalised: Ideaw) -> None:
    changed = [
        not torch.equal(one.enter.weight, other.enter.weight)
        for one, other in zip(model.modules(), equalised.modules(), strict=True)
        if isinstance(one, ConvSubnet) and isinstance(other, ConvSubnet)
    ]
    assert changed
    assert all(changed)
    for graph, inputs in quantise.calibration_inputs(model).items():
        given = [torch.from_numpy(each) for each in inputs.values()]
        ours, theirs = (getattr(each, graph)(*given) for each in (equalised, model))
        for one, other in zip(
            *((given,) if isinstance(given, torch.Tensor) else given for given in (ours, theirs)), strict=True
        ):
            # But for weights so small that half precision has no name for them.
            assert _apart(one, other) < 2e-3


def test_hidden_channels_of_an_even_network_are_alike(model: Ideaw, equalised: Ideaw) -> None:
    spreads = []
    for each in (model, equalised):
        ranges: dict[ConvSubnet, torch.Tensor] = {}
        nets = [net for net in each.modules() if isinstance(net, ConvSubnet)]
        hooks = [
            layer.register_forward_pre_hook(quantise._range_hook(ranges, net))
            for net in nets
            for layer in (net.middle, net.leave)
        ]
        quantise.calibration_inputs(each)
        for hook in hooks:
            hook.remove()
        assert len(ranges) == len(nets)
        spreads.append(np.median([float(torch.log2(widest).std()) for widest in ranges.values()]))
    assert spreads[1] < 0.5
    assert spreads[1] < 0.7 * spreads[0]


# Graphs


def _operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize(("name", "layers", "kept"), [("mark", 30, 6), ("locate", 12, 2), ("read", 24, 0)])
def test_layers_have_eight_bits_unless_they_must_be_precise(made: Path, name: str, layers: int, kept: int) -> None:
    nodes = onnx.load(made / f"{name}.onnx").graph.node
    weights = [node.input[1] for node in nodes if node.op_type == "Conv"]
    precise = {weight for weight in weights if not weight.endswith("_DequantizeLinear_Output")}
    assert (len(weights), len(precise)) == (layers, kept)
    assert precise == {weight for weight in weights if any(layer in weight for layer in quantise.FLOAT_LAYERS[name])}
    assert all(any(layer in weight for weight in precise) for layer in quantise.FLOAT_LAYERS[name])


@pytest.mark.parametrize("name", quantise.FLOAT_LAYERS)
def test_only_convolutions_get_their_inputs_in_eight_bits(made: Path, name: str) -> None:
    nodes = onnx.load(made / f"{name}.onnx").graph.node
    sources = {output: node for node in nodes for output in node.output}
    for node in nodes:
        for given in node.input:
            source = sources.get(given)
            if node.op_type != "Conv" and source is not None and source.op_type == "DequantizeLinear":
                # What a convolution gives out is rounded; what goes on beside it is not.
                assert sources[sources[source.input[0]].input[0]].op_type == "Conv"


@torch.no_grad()
def test_what_is_marked_in_eight_bits_is_the_mark_in_a_little_noise(made: Path) -> None:
    network, model = Network(made), load_weights(made)
    inputs = quantise.calibration_inputs(model)["mark"]
    theirs = model.mark(*map(torch.from_numpy, inputs.values())).numpy()
    host = np.ascontiguousarray(inputs["host"]).view(np.complex64)[..., 0]
    ours = network.mark(host, inputs["message"], inputs["code"])
    pairs = np.stack([ours.real, ours.imag], -1)
    assert 0 < np.linalg.norm(pairs - theirs) < 0.3 * np.linalg.norm(theirs)


@torch.no_grad()
def test_the_code_keeps_its_evidence_in_eight_bits(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantise, "CALIBRATION_SECONDS", 4)  # in one, chance alone is some per cent of it
    model = load_weights(made)
    received = quantise.calibration_inputs(model)["locate"]["received"]
    noise = torch.randn(received.shape, generator=torch.Generator().manual_seed(2)).numpy()
    received = received + noise * (0.04 * np.linalg.norm(received) / np.linalg.norm(noise))  # 28 dB below
    spectra = np.ascontiguousarray(received).view(np.complex64)[..., 0]
    streams = model.locate(torch.from_numpy(received))[0].numpy(), Network(made).locate(spectra)[0]
    written = quantise.calibration_inputs(model)["mark"]["code"]
    exact, ours = (float((stream * written).mean() / (stream * written).std()) for stream in streams)
    assert exact > 0.05
    assert ours > 0.97 * exact


@torch.no_grad()
@pytest.mark.parametrize("at", range(len(quantise.CALIBRATION_SPEEDS)))
def test_a_message_keeps_its_evidence_in_eight_bits_if_it_is_played_faster_or_slower(made: Path, at: int) -> None:
    model = load_weights(made)
    inputs_of = quantise.calibration_inputs(model)
    first = 2 * (quantise.UNIT_SPEED_COPIES + at)
    state = [each[first : first + 2] for each in inputs_of["read"].values()]
    host, side, found = state
    streams = model.read(*map(torch.from_numpy, state)).numpy(), Network(made).read((host, side, found))
    written = inputs_of["mark"]["message"]
    exact, ours = (float((stream * written).mean() / (stream * written).std()) for stream in streams)
    assert exact > 0.05
    assert ours > 0.95 * exact


@torch.no_grad()
def test_weights_make_up_for_what_others_were_off_by(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    weight = chance.standard_normal((8, 6, 3, 5)).astype(np.float32)
    # Inputs that go along with each other, as those of a network do.
    channels = chance.standard_normal((6, 3)) @ chance.standard_normal((3, 40 * 20)) + 0.1 * chance.standard_normal(800)
    feed = {"x": channels.reshape(1, 6, 40, 20).astype(np.float32)}
    layer = torch.nn.Conv2d(6, 8, (3, 5), padding=(2, 2), dilation=(2, 1), bias=False)
    layer.weight.copy_(torch.from_numpy(weight))
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[2, 2, 2, 2], dilations=[2, 1])
    sizes = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, channels, 40, 20])
        for name, channels in (("x", 6), ("y", 8))
    ]
    made = onnx.helper.make_graph(
        [node], "one layer", sizes[:1], sizes[1:], [onnx.numpy_helper.from_array(weight, "w")]
    )
    opset = onnx.helper.make_opsetid("", 18)

    def off() -> float:
        graph = onnx.helper.make_model(made, opset_imports=[opset], ir_version=10)
        tensors = {tensor.name: tensor for tensor in quantise.quantise_graph(graph, "read", feed).graph.initializer}
        whole, step = (onnx.numpy_helper.to_array(tensors[f"w_{part}"]) for part in ("quantized", "scale"))
        assert np.abs(whole).max() <= 64  # more would be too much for processors without VNNI
        rounded = copy.deepcopy(layer)
        rounded.weight.copy_(torch.from_numpy(whole * step[:, None, None, None]))
        return _apart(*(each(torch.from_numpy(feed["x"])) for each in (rounded, layer)))

    together = off()
    monkeypatch.setattr(quantise, "_round_gptq", lambda *_: None)
    assert together < 0.6 * off()


def test_an_export_has_eight_bits_where_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        export, "SPECTRUM_GRAPH_PORTS", {"read": export.SPECTRUM_GRAPH_PORTS["read"]}
    )  # one is enough, and takes its time
    torch.manual_seed(5)
    export.export_model(Ideaw(OURS.net), tmp_path / "new", 38.0, {}, eight_bit=True)
    assert "QuantizeLinear" in _operators(tmp_path / "new" / "read.onnx")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "card.json",
        "network.safetensors",
        "read.onnx",
    ]
    model = load_weights(tmp_path / "new")
    inputs = quantise.calibration_inputs(model)["read"]
    (ours,) = onnxruntime.InferenceSession(tmp_path / "new" / "read.onnx").run(None, inputs)
    with torch.no_grad():
        theirs = model.read(*map(torch.from_numpy, inputs.values()))
    assert 0 < _apart(torch.from_numpy(ours), theirs) < 0.1


def test_eight_bits_are_shipped_and_read_as_they_were_written(speech: NDArray[np.float32]) -> None:
    network = Network(Path(str(model_folder(DEFAULT_MODEL))))
    segments, rng = speech[2 * SEGMENT_SAMPLES :].reshape(4, SEGMENT_SAMPLES), np.random.default_rng(0)
    message, code = (rng.integers(0, 2, (4, bits)) for bits in (network.card.message_bits, network.card.code_bits))
    marked = embed_segments(network, segments, message, code, 38.0)
    for logits, written in zip(extract_segments(network, marked), (message, code), strict=True):
        assert np.array_equal(logits > 0, written > 0)
