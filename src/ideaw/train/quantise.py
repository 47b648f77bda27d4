"""Eight-bit graphs by static quantisation: on a CPU they are three times as fast, and what they mark reads as well.

Weights and hidden activations of the convolutions become integers. All channels of a layer share one step, so they are
first brought to like ranges (cross-layer equalisation): a factor of a hidden channel in one layer is taken back in the
next, which changes nothing in what the network computes. Ranges are calibrated on the packaged samples, and those of
`read` on the same played faster and slower, too. Weights are rounded by GPTQ: each makes up for the errors of others.
"""

import copy
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
from msgspec.structs import replace
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
from ideaw.attacks.draw import Draw
from ideaw.audio.blocks import to_network_mono
from ideaw.audio.grid import FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.audio.read import read_audio
from ideaw.nets.blocks import ConvSubnet
from ideaw.nets.level import level
from ideaw.nets.model import Ideaw
from ideaw.nets.stft import istft, stft

GraphInputs = dict[str, NDArray[np.float32]]
"""Input of a graph → its values."""

FLOAT_LAYERS = {
    "mark": ("code_stage.blocks.0.to_mark.", "code_stage.blocks.1.to_host."),
    "locate": ("blocks.1.to_host.nets.0.middle.", "blocks.1.to_host.nets.0.leave."),
    "read": (),
}
"""Graph → parts of the names of layers that stay in floating point.

Those of `mark` each add most noise to the residual if they alone have eight bits: it lies 21 dB below the mark as they
are, 17 if the first has eight bits too, 12 if both have. The two of `locate` take from the host what the code's second
block has added to it: rounded, a third more of the codes' bits are lost in segments after the stretch, none in files.
"""

RANGE_PERCENTILE = {"mark": 99.97, "locate": 99.8, "read": 99.8}
"""Graph → percentile of the activations up to which a range goes: a wider one would make everything else coarser.

An extractor loses less if it clips more, since outliers of attacked audio were not marked; but `locate` with 99.5 loses
one of six marks that lie under another, and `read` needs the outliers at CALIBRATION_SPEEDS.
"""

CALIBRATION_SPEEDS = (0.99, 1.01)
"""Speeds at which `read` is calibrated, too. The activations by which it makes good a change of speed are wide, and so
rare at unit speed that they would be clipped: with them two of three bits that were lost 1 % faster are right.
"""

UNIT_SPEED_COPIES = 3
"""How many times the audio at unit speed counts in the calibration of `read`, for once at each other speed."""

CALIBRATION_SECONDS = 4
"""Seconds of each packaged sample that ranges are calibrated on."""

CALIBRATION_MARK_GAIN = 0.01
"""Amplitude of the mark relative to the host in the calibration audio: an SNR of 40 dB."""

GPTQ_DAMPING = 0.01
"""Share of the mean input energy that is added to the diagonal of the Gram matrix, against overfitting."""


def equalise_ranges(model: Ideaw) -> None:
    """Bring the hidden channels of every subnet to like ranges, by powers of two, so that weights stay exact."""
    ranges: dict[ConvSubnet, Tensor] = {}
    hooks = [
        layer.register_forward_pre_hook(_range_hook(ranges, net))
        for net in model.modules()
        if isinstance(net, ConvSubnet)
        for layer in (net.middle, net.leave)
    ]
    calibration_inputs(model)
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


def _range_hook(ranges: dict[ConvSubnet, Tensor], net: ConvSubnet) -> Callable[[nn.Module, tuple[Tensor]], None]:
    """A hook that records in `ranges` the largest magnitude of every channel that goes into a layer of a subnet."""

    def record(layer: nn.Module, inputs: tuple[Tensor]) -> None:
        widest = inputs[0].detach().abs().amax((0, 2, 3)).clamp_min(1e-6)
        ranges[net] = torch.maximum(ranges.get(net, widest), widest)

    return record


@torch.no_grad()
def calibration_inputs(model: Ideaw) -> dict[str, GraphInputs]:
    """Graph → typical inputs: the packaged samples, marked with random bits and located again.

    They are marked without a headroom, as the extractor has learned to read them. Inputs of `read` are the samples
    UNIT_SPEED_COPIES times, then once at each of the CALIBRATION_SPEEDS.
    """
    audio = torch.from_numpy(np.stack([_sample(name) for name in ("speech.flac", "music.ogg")]))
    spectrum = torch.view_as_real(stft(audio / level(audio)))
    generator = torch.Generator().manual_seed(1)
    streams = []
    for carriers in model.carriers("calibration"):
        rows = CALIBRATION_SECONDS * len(audio)
        slots = 2.0 * torch.randint(2, (rows, len(carriers.write)), generator=generator) - 1
        streams.append(carriers.stream(slots, None).reshape(len(audio), CALIBRATION_SECONDS * FRAMES_PER_SECOND, -1))
    message, code = streams
    unbounded = copy.copy(model)
    unbounded.domain = type(model.domain)(replace(model.config, headroom=None))
    residual = unbounded.mark(spectrum, message, code)
    received = spectrum + residual * (CALIBRATION_MARK_GAIN * spectrum.norm() / residual.norm())
    states = [model.locate(received)[1:]] * UNIT_SPEED_COPIES
    states += [model.locate(_change_speed(received, speed))[1:] for speed in CALIBRATION_SPEEDS]
    state = [torch.cat(tensors) for tensors in zip(*states, strict=True)]
    model.read(*state)  # for the hooks of `equalise_ranges`
    inputs = {
        "mark": {"host": spectrum, "message": message, "code": code},
        "locate": {"received": received},
        "read": dict(zip(("host", "side", "found"), state, strict=True)),
    }
    return {graph: {name: value.numpy() for name, value in tensors.items()} for graph, tensors in inputs.items()}


def _change_speed(spectrum: Tensor, speed: float) -> Tensor:
    """(batch, frames, NUM_BINS, 2), played so many times as fast."""
    audio = istft(torch.view_as_complex(spectrum))
    return torch.view_as_real(stft(batch.speed(audio, Draw.at(0, 0, audio.device), speed)))


def quantise_graph(graph: onnx.ModelProto, name: str, inputs: GraphInputs) -> onnx.ModelProto:
    """A graph with its convolutions in eight bits.

    Args:
        graph: In floating point.
        name: Which of FLOAT_LAYERS and RANGE_PERCENTILE apply.
        inputs: What it is calibrated on.
    """
    convolutions = [node for node in graph.graph.node if node.op_type == "Conv"]
    if not convolutions:
        return graph
    excluded = [node.name for node in convolutions if any(layer in node.input[1] for layer in FLOAT_LAYERS[name])]
    # Without the advice to prepare the graph first: it is made from a network that knows its shapes.
    with tempfile.TemporaryDirectory() as folder, errors_only(None), redirect_stdout(io.StringIO()):
        source, target = Path(folder) / "source.onnx", Path(folder) / "target.onnx"
        separated = _duplicate_conv_inputs(graph)
        onnx.save(separated, source)
        quantize_static(
            source,
            target,
            _SingleBatchReader(inputs),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv"],
            nodes_to_exclude=excluded,
            per_channel=True,
            reduce_range=True,  # processors without VNNI would saturate
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.Percentile,
            extra_options={"CalibPercentile": RANGE_PERCENTILE[name]},
        )
        quantised = onnx.load(target)
    _round_gptq(quantised, separated, inputs)
    return quantised


def _round_gptq(quantised: onnx.ModelProto, graph: onnx.ModelProto, inputs: GraphInputs) -> None:
    """Round the weights of a quantised graph by GPTQ: the outputs of a convolution shall be right, not each weight.

    One weight after the other is rounded, those of the strongest inputs first, and its error is compensated by those
    to come, as far as their inputs correlate with its own.

    Args:
        quantised: Changed in place.
        graph: The same in floating point.
        inputs: What the correlations are measured on.
    """
    tensors = {tensor.name: tensor for tensor in quantised.graph.initializer}
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
    for name, gram in _input_grams(graph, weights, inputs).items():
        if f"{name}_quantized" not in tensors or not gram.any():
            continue  # stays in floating point, or has nothing to do
        stored = tensors[f"{name}_quantized"]
        nearest, step = (numpy_helper.to_array(tensors[f"{name}_{part}"]) for part in ("quantized", "scale"))
        target = weights[name].reshape(len(step), -1) / step[:, None].astype(np.float64)
        order = np.argsort(-np.diag(gram))
        damped = gram + GPTQ_DAMPING * np.diag(gram).mean() * np.eye(len(gram))
        factor = np.linalg.cholesky(np.linalg.inv(damped[np.ix_(order, order)])).T
        rounded, largest = np.empty_like(target), np.abs(nearest).max()
        for row, column in enumerate(order):
            rounded[:, column] = np.rint(target[:, column]).clip(-largest, largest)
            error = (target[:, column] - rounded[:, column]) / factor[row, row]
            target[:, order[row + 1 :]] -= error[:, None] * factor[row, row + 1 :]
        stored.CopyFrom(numpy_helper.from_array(rounded.reshape(nearest.shape).astype(nearest.dtype), stored.name))


def _input_grams(
    graph: onnx.ModelProto, weights: dict[str, NDArray[np.float32]], inputs: GraphInputs
) -> dict[str, NDArray[np.float64]]:
    """Weight of a convolution → Gram matrix (patch, patch) of the patches that it is multiplied with."""
    probed = onnx.ModelProto()
    probed.CopyFrom(graph)
    convolutions = [node for node in graph.graph.node if node.op_type == "Conv"]
    names = [node.input[0] for node in convolutions]
    probed.graph.output.extend(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names)
    session = onnxruntime.InferenceSession(probed.SerializeToString(), providers=["CPUExecutionProvider"])
    grams: dict[str, NDArray[np.float64]] = {}
    for item in range(len(next(iter(inputs.values())))):
        activations = session.run(names, {name: value[item : item + 1] for name, value in inputs.items()})
        for node, values in zip(convolutions, activations, strict=True):
            patches = _patches(node, torch.from_numpy(values), weights[node.input[1]].shape[2:])
            grams[node.input[1]] = grams.get(node.input[1], 0) + (patches @ patches.T).double().numpy()
    return grams


def _patches(node: onnx.NodeProto, values: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """(1, channels, height, width) input of a convolution → (patch, places), as im2col has it."""
    options = {option.name: helper.get_attribute_value(option) for option in node.attribute}
    above, left, below, right = options["pads"]
    padded = nn.functional.pad(values, (left, right, above, below))
    return nn.functional.unfold(padded, kernel, dilation=tuple(options["dilations"]))[0]


def _duplicate_conv_inputs(graph: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with a copy of its input for every convolution, so that nothing else gets it in eight bits.

    A session leaves the copies out again.
    """
    separated = onnx.ModelProto()
    separated.CopyFrom(graph)
    del separated.graph.node[:]
    for node in graph.graph.node:
        if node.op_type == "Conv":
            duplicate = helper.make_node("Identity", [node.input[0]], [f"{node.name}_input"], f"{node.name}_copy")
            node.input[0] = duplicate.output[0]
            separated.graph.node.append(duplicate)
        separated.graph.node.append(node)
    return separated


class _SingleBatchReader(CalibrationDataReader):  # type: ignore[misc]
    """One batch to calibrate ranges on."""

    def __init__(self, inputs: GraphInputs) -> None:
        self._batches: Iterator[GraphInputs] = iter([inputs])

    def get_next(self) -> GraphInputs | None:
        return next(self._batches, None)


@contextmanager
def errors_only(logger_name: str | None) -> Iterator[None]:
    """Nothing below an error from a logger (None: the root)."""
    logger = logging.getLogger(logger_name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _sample(name: str) -> NDArray[np.float32]:
    """The first seconds of a packaged sample, mono at the network's rate, (CALIBRATION_SECONDS · SEGMENT_SAMPLES,)."""
    with resources.as_file(resources.files("ideaw").joinpath("samples", name)) as path:
        recording = read_audio(path)
    mono = to_network_mono(recording.samples, recording.rate)
    return np.resize(mono, CALIBRATION_SECONDS * SEGMENT_SAMPLES)
