"""Eight-bit graphs: on a CPU they are three times as fast, and what they mark reads as well.

Weights and hidden values of the convolutions become integers. All channels of a layer share one step, so they are
first brought to like ranges: a factor of a hidden channel in one layer is taken back in the next, which changes
nothing in what the network computes. The ranges are measured on the packaged samples, and those of `read` on the same
played faster and slower, too. Weights are not rounded each by itself: one makes up for what others were off by.
"""

import copy
import dataclasses
import io
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import resources
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)
from torch import Tensor, nn

from ideaw.attacks import batch
from ideaw.audio import files
from ideaw.audio.grid import FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.audio.resample import mix, to_network
from ideaw.nets.blocks import ConvSubnet
from ideaw.nets.model import Ideaw
from ideaw.nets.spectrum import istft, level, stft

Feed = dict[str, NDArray[np.float32]]

PRECISE = {
    "mark": ("code_stage.blocks.0.to_mark.", "code_stage.blocks.1.to_host."),
    "locate": ("blocks.1.to_host.nets.0.middle.", "blocks.1.to_host.nets.0.leave."),
    "read": (),
}
"""Graph → parts of the names of layers that keep their precision.

Those of `mark` each add most noise to the residual if they alone have eight bits: it lies 21 dB below the mark as they
are, 17 if the first has eight bits too, 12 if both have. The two of `locate` take from the host what the code's second
block has added to it: rounded, a third more of the codes' bits are lost in segments after the stretch, none in files.
"""

OUTLIERS = {"mark": 99.97, "locate": 99.8, "read": 99.8}
"""Graph → percentile of the values up to which a range goes: a wider one would make everything else coarser.

An extractor loses less if it cuts off more, since what stands out in attacked audio was not marked; but `locate` with
99.5 loses one of six marks that lie under another, and `read` needs what stands out at other SPEEDS.
"""

SPEEDS = (0.99, 1.01)
"""At which `read` is measured, too. The values by which it makes good a change of speed are wide, and so rare in audio
as it is that they would be cut off: with them two of three bits that were lost 1 % faster are right.
"""

DAMPING = 0.01
"""Share of the mean energy of all inputs that is added to each one's: rounding is then not fitted to chance."""

COPIES = 3
"""How many times as much the audio as it is counts there as the audio at each of these speeds."""

SECONDS = 4
"""Of each sample, that the ranges are measured on."""


def equalise(model: Ideaw) -> None:
    """Bring the hidden channels of every subnet to like ranges, by powers of two, so that weights stay exact."""
    ranges: dict[ConvSubnet, Tensor] = {}
    hooks = [
        layer.register_forward_pre_hook(_watch(ranges, net))
        for net in model.modules()
        if isinstance(net, ConvSubnet)
        for layer in (net.middle, net.leave)
    ]
    feeds(model)
    for hook in hooks:
        hook.remove()
    with torch.no_grad():
        for net, widest in ranges.items():
            factor = torch.exp2(torch.log2(widest / widest.median()).round())
            for layer in (net.enter, net.middle):
                assert layer.bias is not None
                layer.weight.div_(factor[:, None, None, None])
                layer.bias.div_(factor)
            net.band.div_(factor[:, None, None])
            for layer in (net.middle, net.leave):
                layer.weight.mul_(factor[:, None, None])
                layer.weight.copy_(layer.weight.half())  # exact but for the smallest


def _watch(ranges: dict[ConvSubnet, Tensor], net: ConvSubnet) -> Callable[[nn.Module, tuple[Tensor]], None]:
    """Keeps the widest value of every channel that goes into a layer of a subnet."""

    def watch(layer: nn.Module, inputs: tuple[Tensor]) -> None:
        widest = inputs[0].detach().abs().amax((0, 2, 3)).clamp_min(1e-6)
        ranges[net] = torch.maximum(ranges.get(net, widest), widest)

    return watch


@torch.no_grad()
def feeds(model: Ideaw) -> dict[str, Feed]:
    """Graph → inputs as they occur: the packaged samples, marked with random bits and found again.

    They are marked without a headroom, as the extractor has learned to read them. Inputs of `read` are the samples
    COPIES times, then once at each of the SPEEDS.
    """
    audio = torch.from_numpy(np.stack([_sample(name) for name in ("speech.flac", "music.ogg")]))
    spectrum = torch.view_as_real(stft(audio / level(audio)))
    chance = torch.Generator().manual_seed(1)
    streams = []
    for carriers in model.carriers("calibration"):
        slots = 2.0 * torch.randint(2, (SECONDS * len(audio), len(carriers.write)), generator=chance) - 1
        streams.append(carriers.stream(slots, None).reshape(len(audio), SECONDS * FRAMES_PER_SECOND, -1))
    message, code = streams
    free = copy.copy(model)
    free.domain = type(model.domain)(dataclasses.replace(model.config, headroom=None))
    residual = free.mark(spectrum, message, code)
    received = spectrum + residual * (0.01 * spectrum.norm() / residual.norm())
    heard = [model.locate(received)[1:]] * COPIES
    heard += [model.locate(_played(received, speed))[1:] for speed in SPEEDS]
    rest = [torch.cat(parts) for parts in zip(*heard, strict=True)]
    model.read(*rest)
    given = {
        "mark": {"host": spectrum, "message": message, "code": code},
        "locate": {"received": received},
        "read": dict(zip(("host", "side", "found"), rest, strict=True)),
    }
    return {graph: {name: value.numpy() for name, value in inputs.items()} for graph, inputs in given.items()}


def _played(spectrum: Tensor, speed: float) -> Tensor:
    """(batch, frames, BINS, 2), played so many times as fast."""
    audio = istft(torch.view_as_complex(spectrum))
    return torch.view_as_real(stft(batch.speed(audio, batch.Draw.at(0, 0, audio.device), speed)))


def eight_bit(graph: onnx.ModelProto, name: str, feed: Feed) -> onnx.ModelProto:
    """The graph with its convolutions in eight bits."""
    convolutions = [node for node in graph.graph.node if node.op_type == "Conv"]
    if not convolutions:
        return graph
    precise = [node.name for node in convolutions if any(layer in node.input[1] for layer in PRECISE[name])]
    with tempfile.TemporaryDirectory() as folder, _quietly(), redirect_stdout(io.StringIO()):
        source, target = Path(folder) / "source.onnx", Path(folder) / "target.onnx"
        apart = _inputs_apart(graph)
        onnx.save(apart, source)
        quantize_static(
            source,
            target,
            _Once(feed),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv"],
            nodes_to_exclude=precise,
            per_channel=True,
            reduce_range=True,  # processors without VNNI would saturate
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.Percentile,
            extra_options={"CalibPercentile": OUTLIERS[name]},
        )
        rounded = onnx.load(target)
    _round_together(rounded, apart, feed)
    return rounded


def _round_together(rounded: onnx.ModelProto, graph: onnx.ModelProto, feed: Feed) -> None:
    """Round the weights of the graph anew: what comes out of a convolution shall be right, not each weight (GPTQ).

    One weight after the other is rounded, those of the strongest inputs first, and what it is off by is taken back by
    those to come, as far as their inputs go along with its own.
    """
    steps = {tensor.name: tensor for tensor in rounded.graph.initializer}
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
    for name, products in _input_products(graph, weights, feed).items():
        if f"{name}_quantized" not in steps or not products.any():
            continue  # keeps its precision, or has nothing to do
        stored = steps[f"{name}_quantized"]
        nearest, step = (numpy_helper.to_array(steps[f"{name}_{part}"]) for part in ("quantized", "scale"))
        wanted = weights[name].reshape(len(step), -1) / step[:, None].astype(np.float64)
        order = np.argsort(-np.diag(products))
        damped = products + DAMPING * np.diag(products).mean() * np.eye(len(products))
        shares = np.linalg.cholesky(np.linalg.inv(damped[np.ix_(order, order)])).T
        together, most = np.empty_like(wanted), np.abs(nearest).max()
        for place, column in enumerate(order):
            together[:, column] = np.rint(wanted[:, column]).clip(-most, most)
            off = (wanted[:, column] - together[:, column]) / shares[place, place]
            wanted[:, order[place + 1 :]] -= off[:, None] * shares[place, place + 1 :]
        stored.CopyFrom(numpy_helper.from_array(together.reshape(nearest.shape).astype(nearest.dtype), stored.name))


def _input_products(
    graph: onnx.ModelProto, weights: dict[str, NDArray[np.float32]], feed: Feed
) -> dict[str, NDArray[np.float64]]:
    """Weight of a convolution → (inputs, inputs): products of what it multiplies at a place, added up over all."""
    watched = onnx.ModelProto()
    watched.CopyFrom(graph)
    convolutions = [node for node in graph.graph.node if node.op_type == "Conv"]
    inputs = [node.input[0] for node in convolutions]
    watched.graph.output.extend(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in inputs)
    session = onnxruntime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    products: dict[str, NDArray[np.float64]] = {}
    for item in range(len(next(iter(feed.values())))):
        given = session.run(inputs, {name: value[item : item + 1] for name, value in feed.items()})
        for node, values in zip(convolutions, given, strict=True):
            places = _multiplied(node, torch.from_numpy(values), weights[node.input[1]].shape[2:])
            products[node.input[1]] = products.get(node.input[1], 0) + (places @ places.T).double().numpy()
    return products


def _multiplied(node: onnx.NodeProto, values: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """(1, channels, height, width) that a convolution is given → (inputs, places): what it multiplies at each."""
    options = {option.name: helper.get_attribute_value(option) for option in node.attribute}
    above, left, below, right = options["pads"]
    padded = nn.functional.pad(values, (left, right, above, below))
    return nn.functional.unfold(padded, kernel, dilation=tuple(options["dilations"]))[0]


def _inputs_apart(graph: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with an input for every convolution that nothing else uses, so that nothing else has it in eight bits.

    A session leaves the copies out again.
    """
    apart = onnx.ModelProto()
    apart.CopyFrom(graph)
    del apart.graph.node[:]
    for node in graph.graph.node:
        if node.op_type == "Conv":
            apart_from_it = helper.make_node("Identity", [node.input[0]], [f"{node.name}_input"], f"{node.name}_copy")
            node.input[0] = apart_from_it.output[0]
            apart.graph.node.append(apart_from_it)
        apart.graph.node.append(node)
    return apart


class _Once(CalibrationDataReader):
    """One batch to measure ranges on."""

    def __init__(self, feed: Feed) -> None:
        self._feeds: Iterator[Feed] = iter([feed])

    def get_next(self) -> Feed | None:
        return next(self._feeds, None)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the advice to prepare the graph first: it is made from a network that knows its shapes."""
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _sample(name: str) -> NDArray[np.float32]:
    """The first seconds of a packaged sample, as the network hears them."""
    with resources.as_file(resources.files("ideaw").joinpath("samples", name)) as path:
        recording = files.read(path)
    mono = to_network(mix(recording.samples)[:, None], recording.rate)[0]
    return np.resize(mono, SECONDS * SEGMENT_SAMPLES)
