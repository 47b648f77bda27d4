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
from ideaw.keys import PUBLIC
from ideaw.models import DEFAULT_MODEL, find_model, model_folder
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


def _apart(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


# Even ranges


@pytest.mark.slow
def test_the_ranges_are_measured_on_what_occurs(model: Ideaw) -> None:
    inputs_of = quantise.calibration_inputs(model)
    assert set(inputs_of) == {"mark", "locate", "read"}
    frames = quantise.CALIBRATION_SECONDS * FRAMES_PER_SECOND
    assert inputs_of["mark"]["host"].shape == inputs_of["locate"]["received"].shape == (2, frames, NUM_BINS, 2)
    assert set(np.unique(inputs_of["mark"]["message"])) == set(np.unique(inputs_of["mark"]["code"])) == {-1, 1}
    added = inputs_of["locate"]["received"] - inputs_of["mark"]["host"]
    assert np.linalg.norm(added) == pytest.approx(0.01 * np.linalg.norm(inputs_of["mark"]["host"]), rel=1e-3)  # 40 dB
    readings = 2 * (quantise.UNIT_SPEED_COPIES + len(quantise.CALIBRATION_SPEEDS))
    assert {len(values) for values in inputs_of["read"].values()} == {readings}
    again = quantise.calibration_inputs(model)
    assert all(
        np.array_equal(inputs_of[graph][name], again[graph][name]) for graph in inputs_of for name in inputs_of[graph]
    )


@pytest.mark.slow
@torch.no_grad()
def test_an_even_network_computes_the_same(model: Ideaw, equalised: Ideaw) -> None:
    changed = [
        not torch.equal(before.enter.weight, after.enter.weight)
        for before, after in zip(model.modules(), equalised.modules(), strict=True)
        if isinstance(before, ConvSubnet) and isinstance(after, ConvSubnet)
    ]
    assert changed
    assert all(changed)
    for graph, inputs in quantise.calibration_inputs(model).items():
        given = [torch.from_numpy(values) for values in inputs.values()]
        actual, expected = (getattr(net, graph)(*given) for net in (equalised, model))
        for after, before in zip(
            *((result,) if isinstance(result, torch.Tensor) else result for result in (actual, expected)), strict=True
        ):
            # But for weights so small that half precision has no name for them.
            assert _apart(after, before) < 2e-3


@pytest.mark.slow
def test_hidden_channels_of_an_even_network_are_alike(model: Ideaw, equalised: Ideaw) -> None:
    spreads = []
    for network in (model, equalised):
        ranges: dict[ConvSubnet, torch.Tensor] = {}
        nets = [net for net in network.modules() if isinstance(net, ConvSubnet)]
        hooks = [
            layer.register_forward_pre_hook(quantise._range_hook(ranges, net))
            for net in nets
            for layer in (net.middle, net.leave)
        ]
        quantise.calibration_inputs(network)
        for hook in hooks:
            hook.remove()
        assert len(ranges) == len(nets)
        spreads.append(np.median([float(torch.log2(widest).std()) for widest in ranges.values()]))
    assert spreads[1] < 0.5
    assert spreads[1] < 0.7 * spreads[0]


# Graphs


def _operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("name", quantise.FLOAT_LAYERS)
def test_layers_have_eight_bits_unless_they_must_be_precise(made: Path, name: str) -> None:
    nodes = onnx.load(made / f"{name}.onnx").graph.node
    weights = [node.input[1] for node in nodes if node.op_type == "Conv"]
    precise = {weight for weight in weights if not weight.endswith("_DequantizeLinear_Output")}
    assert len(precise) < len(weights)
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


@pytest.mark.slow
@torch.no_grad()
def test_what_is_marked_in_eight_bits_is_the_mark_in_a_little_noise(made: Path) -> None:
    network, model = Network(find_model(made)), load_weights(made)
    inputs = quantise.calibration_inputs(model)["mark"]
    expected = model.mark(*map(torch.from_numpy, inputs.values())).numpy()
    host = np.ascontiguousarray(inputs["host"]).view(np.complex64)[..., 0]
    actual = network.mark(host, inputs["message"], inputs["code"])
    pairs = np.stack([actual.real, actual.imag], -1)
    assert 0 < np.linalg.norm(pairs - expected) < 0.3 * np.linalg.norm(expected)


@pytest.mark.slow
@torch.no_grad()
def test_the_code_keeps_its_evidence_in_eight_bits(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantise, "CALIBRATION_SECONDS", 4)  # in one, rng alone is some per cent of it
    model = load_weights(made)
    received = quantise.calibration_inputs(model)["locate"]["received"]
    noise = torch.randn(received.shape, generator=torch.Generator().manual_seed(2)).numpy()
    received = received + noise * (0.04 * np.linalg.norm(received) / np.linalg.norm(noise))  # 28 dB below
    spectra = np.ascontiguousarray(received).view(np.complex64)[..., 0]
    streams = model.locate(torch.from_numpy(received))[0].numpy(), Network(find_model(made)).locate(spectra)[0]
    written = quantise.calibration_inputs(model)["mark"]["code"]
    exact, quantised = (float((stream * written).mean() / (stream * written).std()) for stream in streams)
    assert exact > 0.05
    assert quantised > 0.97 * exact


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("at", range(len(quantise.CALIBRATION_SPEEDS)))
def test_a_message_keeps_its_evidence_in_eight_bits_if_it_is_played_faster_or_slower(made: Path, at: int) -> None:
    model = load_weights(made)
    inputs_of = quantise.calibration_inputs(model)
    first = 2 * (quantise.UNIT_SPEED_COPIES + at)
    state = [values[first : first + 2] for values in inputs_of["read"].values()]
    host, condition, code = state
    streams = model.read(*map(torch.from_numpy, state)).numpy(), Network(find_model(made)).read((host, condition, code))
    written = inputs_of["mark"]["message"]
    exact, quantised = (float((stream * written).mean() / (stream * written).std()) for stream in streams)
    assert exact > 0.05
    assert quantised > 0.95 * exact


@torch.no_grad()
def test_weights_make_up_for_what_others_were_off_by(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    weight = rng.standard_normal((8, 6, 3, 5)).astype(np.float32)
    # Inputs that go along with each other, as those of a network do.
    channels = rng.standard_normal((6, 3)) @ rng.standard_normal((3, 40 * 20)) + 0.1 * rng.standard_normal(800)
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
        integers, step = (onnx.numpy_helper.to_array(tensors[f"w_{part}"]) for part in ("quantized", "scale"))
        assert np.abs(integers).max() <= 64  # more would be too much for processors without VNNI
        rounded = copy.deepcopy(layer)
        rounded.weight.copy_(torch.from_numpy(integers * step[:, None, None, None]))
        return _apart(*(conv(torch.from_numpy(feed["x"])) for conv in (rounded, layer)))

    together = off()
    monkeypatch.setattr(quantise, "_round_gptq", lambda *_: None)
    assert together < 0.6 * off()


@pytest.mark.slow
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
        "response.npy",
    ]
    model = load_weights(tmp_path / "new")
    inputs = quantise.calibration_inputs(model)["read"]
    (actual,) = onnxruntime.InferenceSession(tmp_path / "new" / "read.onnx").run(None, inputs)
    with torch.no_grad():
        expected = model.read(*map(torch.from_numpy, inputs.values()))
    assert 0 < _apart(torch.from_numpy(actual), expected) < 0.1


@pytest.mark.slow
def test_eight_bits_are_shipped_and_read_as_they_were_written(speech: NDArray[np.float32]) -> None:
    network = Network(find_model(None))
    channels = network.channels(PUBLIC)
    segments, rng = speech[2 * SEGMENT_SAMPLES :].reshape(4, SEGMENT_SAMPLES), np.random.default_rng(0)
    message, code = (rng.integers(0, 2, (4, bits)) for bits in (network.card.message_bits, network.card.code_bits))
    marked = embed_segments(network, channels, segments, message, code, 38.0)
    for llrs, written in zip(extract_segments(network, channels, marked), (message, code), strict=True):
        assert np.array_equal(llrs > 0, written > 0)
