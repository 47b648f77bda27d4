"""From a checkpoint to a model folder: ONNX graphs, the weights, and the card's first facts.

The STFT stays outside the graphs (ONNX has no inverse), so they take spectra with a free number of frames. Weights are
stored in half precision and brought back to single precision when a session loads them.
"""

import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import torch
from msgspec.structs import replace
from onnx import TensorProto, helper, numpy_helper
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ideaw.audio.grid import FRAMES_PER_SECOND, NUM_BINS, SEGMENT_SAMPLES
from ideaw.audio.hearing import AUDIBILITY_MEANING, DEFAULT_AUDIBILITY_DB
from ideaw.errors import FileError, IdeawError
from ideaw.models import RESPONSE_FILE
from ideaw.modem.fec import FORMAT_VERSION, usual_slots
from ideaw.nets.build import AnyNet, build_network
from ideaw.nets.config import NetConfig
from ideaw.nets.cost import count_multiply_adds, count_parameters
from ideaw.nets.model import Ideaw
from ideaw.nets.rivals.wavelet import WaveletNet
from ideaw.train import checkpoint, quantise
from ideaw.train.recipe import convert_fields
from ideaw.train.response import has_response, measure_response

GraphPorts = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of a graph's inputs and of its outputs."""

SPECTRUM_GRAPH_PORTS: dict[str, GraphPorts] = {
    "mark": (("host", "message", "code"), ("residual",)),
    "locate": (("received",), ("code", "host", "side", "found")),
    "read": (("host", "side", "found"), ("message",)),
}
"""Graph → its ports. The shipped graphs have these names: `side` is the conditioning, `found` the squeezed code."""

WAVEFORM_GRAPH_PORTS: dict[str, GraphPorts] = {
    "mark": (("host", "message"), ("residual",)),
    "listen": (("received",), ("message",)),
}
"""Graph → its ports, of a network that takes segments of audio."""

WEIGHTS_FILE = "network.safetensors"
"""The weights, with the network's configuration in the metadata."""

EXPORTED_CARRIERS_FILE = "carriers.safetensors"
"""Learned carriers as the engine reads them."""


class _ExportedFunction(nn.Module):
    """One of the network's functions as a module of its own, for the exporter."""

    def __init__(self, model: AnyNet, function: str) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *streams: Tensor) -> Any:
        return getattr(self.model, self.function)(*streams)


def load_weights(folder: Path) -> AnyNet:
    """The network of a model folder, in single precision and ready to evaluate.

    Raises:
        FileError: If the folder holds no readable weights.
    """
    try:
        with safe_open(folder / WEIGHTS_FILE, "pt") as file:
            metadata = file.metadata()
        tensors = load_file(folder / WEIGHTS_FILE)
    except (OSError, SafetensorError) as error:
        raise FileError(f"{folder} is not a model folder: {WEIGHTS_FILE} cannot be read") from error
    model = build_network(convert_fields(NetConfig, json.loads(metadata["net"]), str(folder)))
    model.load_state_dict({key: value.float() for key, value in tensors.items()})
    return model.eval()


def save_weights(model: AnyNet, folder: Path) -> None:
    """Half-precision weights with the configuration beside them."""
    tensors = {key: value.detach().half().contiguous() for key, value in model.state_dict().items()}
    save_file(tensors, folder / WEIGHTS_FILE, metadata={"net": json.dumps(msgspec.to_builtins(model.config))})


def export_run(
    run: Path,
    target: Path,
    snr: float | None = None,
    shaping: float | None = None,
    headroom: float | None = None,
    eight_bit: bool = False,
    mean_with: Path | None = None,
) -> None:
    """The averaged weights of a training run as a model folder that `ideaw.load` takes.

    Args:
        run: The folder that training wrote.
        target: The model folder to write.
        snr: dB that marks of segments get unless the user asks for another; None: the recipe's.
        shaping: Power of the host's envelope that residuals follow; None: the recipe's.
        headroom: dB above the host's masking curve that residuals may reach; None: the recipe's.
        eight_bit: Whether the graphs are quantised: smaller and faster.
        mean_with: A model folder: the weights become the mean of its and the run's, which may be better than both if
            the run began with them.

    Raises:
        FileError: If the run holds no checkpoint or `mean_with` no weights.
        IdeawError: If a value is out of range or does not fit the network.
    """
    saved = checkpoint.load(run / "checkpoint")
    if saved is None:
        raise FileError(f"{run} holds no checkpoint: give the folder that `ideaw train` wrote")
    parts, facts = saved
    recipe = facts["recipe"]
    config = convert_fields(NetConfig, recipe["net"], str(run))
    if shaping is not None:
        if config.domain != "magnitude" or not 0 <= shaping <= 2:
            raise IdeawError("shaping is a power of 0 to 2, of a network that works on magnitudes")
        config = replace(config, shaping=shaping)
    if headroom is not None:
        if config.domain != "magnitude" or not 0 <= headroom <= 100:
            raise IdeawError("headroom is 0 to 100 dB, of a network that works on magnitudes")
        config = replace(config, headroom=headroom)
    model = build_network(config)
    model.load_state_dict(parts["average"])
    if mean_with is not None:
        _average_with(model, load_weights(mean_with))
    trained = {
        "recipe": recipe["name"],
        "steps": facts["step"],
        "batch": recipe["batch"],
        "hours_of_audio": facts["hours_of_audio"],
    }
    default_snr = recipe["snr"] if snr is None else snr
    if default_snr is None or not 0 <= default_snr <= 100:
        raise IdeawError("say with an SNR of 0 to 100 dB how strong the marks of this model are to be")
    export_model(model, target, default_snr, trained, eight_bit)


@torch.no_grad()
def _average_with(model: AnyNet, second: AnyNet) -> None:
    """Make every weight the mean of its own and that of a second network of the same sizes."""
    weights, second_weights = model.state_dict(), second.state_dict()
    sizes, second_sizes = ({name: w.shape for name, w in state.items()} for state in (weights, second_weights))
    if sizes != second_sizes:
        raise IdeawError("only networks of the same sizes have a mean")
    model.load_state_dict({name: (weight + second_weights[name]) / 2 for name, weight in weights.items()})


def export_model(model: AnyNet, target: Path, snr: float, trained: dict[str, Any], eight_bit: bool = False) -> None:
    """Write a model folder: weights, graphs, card. Its files appear once all of them are made.

    Args:
        model: The network.
        target: The folder.
        snr: dB that marks of segments get unless the user asks for another.
        trained: What the card says about the training.
        eight_bit: Whether the graphs are quantised.

    Raises:
        IdeawError: If the network has no eight-bit form.
    """
    if eight_bit and isinstance(model, WaveletNet):
        raise IdeawError("a network on wavelets has no form of eight bits")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target) as temporary:
        folder = Path(temporary)
        save_weights(model, folder)
        model = load_weights(folder)
        if model.config.carriers == "learned":
            _save_carriers(model, folder)
        inputs = {}
        if eight_bit:
            assert not isinstance(model, WaveletNet)
            quantise.equalise_ranges(model)
            inputs = quantise.calibration_inputs(model)
        for name in WAVEFORM_GRAPH_PORTS if isinstance(model, WaveletNet) else SPECTRUM_GRAPH_PORTS:
            graph = _export_graph(model, name)
            if eight_bit:
                graph = quantise.quantise_graph(graph, name, inputs[name])
            (folder / f"{name}.onnx").write_bytes(_store_in_half(graph).SerializeToString())
        if isinstance(model, Ideaw) and has_response(model.config):
            np.save(folder / RESPONSE_FILE, measure_response(model))
        card = _make_card(model, snr, trained)
        (folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", "utf-8")
        for path in folder.iterdir():
            path.chmod(0o644)
            os.replace(path, target / path.name)


@torch.no_grad()
def _save_carriers(model: AnyNet, folder: Path) -> None:
    by_watermark = dict(zip(("message", "code"), model.carriers(), strict=True))
    maps = {
        f"{watermark}.{direction}": getattr(carriers, direction)
        for watermark, carriers in by_watermark.items()
        for direction in ("write", "read")
    }
    save_file({name: tensor.half().contiguous() for name, tensor in maps.items()}, folder / EXPORTED_CARRIERS_FILE)


def _make_card(model: AnyNet, snr: float, trained: dict[str, Any]) -> dict[str, Any]:
    """What the model says about itself."""
    config = model.config
    name = f"{config.message_bits}+{config.code_bits}"
    learned = config.carriers == "learned"
    return {
        "name": name,
        "network": name,
        "message_bits": config.message_bits,
        "code_bits": config.code_bits,
        # A network carries any drawing of tiles, so those of a user need not have the slots of the training.
        "message_slots": config.message_slots if learned else usual_slots(config.message_bits),
        "code_slots": config.code_slots if learned else usual_slots(config.code_bits),
        "format_version": FORMAT_VERSION,
        "snr": snr,
        "audibility": DEFAULT_AUDIBILITY_DB,
        "audibility_means": AUDIBILITY_MEANING,
        "bins": model.stream_width,
        "context": config.context,
        "scrambled_by_code": False,
        "learned_carriers": learned,
        "waveform_io": isinstance(model, WaveletNet),
        "shaping": config.shaping,
        "headroom": config.headroom,
        "parameters": count_parameters(model),
        "multiply_adds_per_second": count_multiply_adds(model),
        "trained": trained,
    }


def _export_graph(model: AnyNet, name: str) -> onnx.ModelProto:
    """One of the network's functions as ONNX, for any batch and (on spectra) number of frames."""
    batch, frames = torch.export.Dim("batch"), torch.export.Dim("frames", min=2)
    shapes: dict[str, tuple[int, ...]]
    if isinstance(model, WaveletNet):
        inputs, outputs = WAVEFORM_GRAPH_PORTS[name]
        shapes = dict.fromkeys(("host", "received"), (2, SEGMENT_SAMPLES))
        shapes |= {"message": (2, FRAMES_PER_SECOND, model.stream_width)}
        dynamic = {port: {0: batch} for port in inputs}
    else:
        inputs, outputs = SPECTRUM_GRAPH_PORTS[name]
        config, conditions = model.config, model.domain.condition_channels
        spectrum, stream = (2, FRAMES_PER_SECOND + 1, NUM_BINS, 2), (2, FRAMES_PER_SECOND + 1, model.stream_width)
        squeezed = (2, config.channels, FRAMES_PER_SECOND + 1, config.bands)
        shapes = {"message": stream, "code": stream, "side": (2, conditions, *squeezed[2:]), "found": squeezed}
        shapes |= {"host": squeezed if name == "read" else spectrum, "received": spectrum}
        dynamic = {port: {0: batch, 2 if name == "read" else 1: frames} for port in inputs}
    # Without the exporter's remarks about packages that it misses and names that it drops: none is about the model.
    with quantise.errors_only("torch.onnx"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            _ExportedFunction(model, name).eval(),
            tuple(torch.randn(shapes[port]) for port in inputs),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=(tuple(dynamic[port] for port in inputs),),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


def _store_in_half(graph: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph with the constants that half precision holds exactly stored so, behind a cast.

    Those are the weights, which were rounded before; a session folds the casts when it loads the graph.
    """
    casts = []
    for constant in graph.graph.initializer:
        values = numpy_helper.to_array(constant)
        with np.errstate(over="ignore"):
            short = values.astype(np.float16)
        if constant.data_type == TensorProto.FLOAT and np.array_equal(short, values):
            half = numpy_helper.from_array(short, constant.name + "_half")
            casts.append(helper.make_node("Cast", [half.name], [constant.name], to=TensorProto.FLOAT))
            constant.CopyFrom(half)
    nodes = [*casts, *graph.graph.node]
    for part in (*nodes, *graph.graph.value_info, *graph.graph.input, *graph.graph.output, graph.graph, graph):
        del part.metadata_props[:]  # stack traces, with the folders of the machine that exported
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    return graph
