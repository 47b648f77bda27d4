"""From a checkpoint to a model folder: ONNX graphs, the weights, and the card's first facts.

The STFT stays outside the graphs (ONNX has no inverse), so they take spectra with a free number of frames. Weights are
stored in half precision and brought back to single precision when a session loads them.
"""

import dataclasses
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ideaw.audio.grid import FRAMES_PER_SECOND, NUM_BINS, SEGMENT_SAMPLES
from ideaw.errors import FileError, IdeawError
from ideaw.modem.fec import VERSION, usual_slots
from ideaw.nets.config import NetConfig
from ideaw.nets.cost import multiply_adds, parameters
from ideaw.nets.kinds import AnyNet, make
from ideaw.nets.wavelet import Wavelet
from ideaw.train import checkpoint, quantise
from ideaw.train.recipe import build


class _Graph(nn.Module):
    """One of the network's functions as a module of its own, for the exporter."""

    def __init__(self, model: AnyNet, function: str) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *streams: Tensor) -> Any:
        return getattr(self.model, self.function)(*streams)


Ends = tuple[tuple[str, ...], tuple[str, ...]]

GRAPHS: dict[str, Ends] = {
    "mark": (("host", "message", "code"), ("residual",)),
    "locate": (("received",), ("code", "host", "side", "found")),
    "read": (("host", "side", "found"), ("message",)),
}
"""Graph → its inputs and outputs."""

WHOLE: dict[str, Ends] = {"mark": (("host", "message"), ("residual",)), "listen": (("received",), ("message",))}
"""The same of a network that takes whole segments of audio."""

NETWORK, CARRIERS = "network.safetensors", "carriers.safetensors"
"""The weights with the network's configuration; and learned carriers as the engine reads them."""


def load_weights(folder: Path) -> AnyNet:
    """The network of a model folder; its weights carry its configuration."""
    try:
        with safe_open(folder / NETWORK, "pt") as file:
            described = file.metadata()
        tensors = load_file(folder / NETWORK)
    except (OSError, SafetensorError) as error:
        raise FileError(f"{folder} is not a model folder: {NETWORK} cannot be read") from error
    model = make(build(NetConfig, json.loads(described["net"]), str(folder)))
    model.load_state_dict({key: value.float() for key, value in tensors.items()})
    return model.eval()


def save_weights(model: AnyNet, folder: Path) -> None:
    """Half-precision weights with the configuration beside them."""
    tensors = {key: value.detach().half().contiguous() for key, value in model.state_dict().items()}
    save_file(tensors, folder / NETWORK, metadata={"net": json.dumps(dataclasses.asdict(model.config))})


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

    `snr` is the level in dB that marks get unless the user asks for another, `shaping` the power of the envelope
    that residuals follow and `headroom` how far above the masking curve they may be (None: what it was trained at),
    `eight_bit` makes the graphs smaller and faster. `mean_with` is a model folder: the weights become the mean of its
    and the run's, which may be better than both if the run began with them.
    """
    kept = checkpoint.load(run / "checkpoint")
    if kept is None:
        raise FileError(f"{run} holds no checkpoint: give the folder that `ideaw train` wrote")
    parts, facts = kept
    recipe = facts["recipe"]
    config = build(NetConfig, recipe["net"], str(run))
    if shaping is not None:
        if config.domain != "magnitude" or not 0 <= shaping <= 2:
            raise IdeawError("shaping is a power of 0 to 2, of a network that works on magnitudes")
        config = dataclasses.replace(config, shaping=shaping)
    if headroom is not None:
        if config.domain != "magnitude" or not 0 <= headroom <= 100:
            raise IdeawError("headroom is 0 to 100 dB, of a network that works on magnitudes")
        config = dataclasses.replace(config, headroom=headroom)
    model = make(config)
    model.load_state_dict(parts["average"])
    if mean_with is not None:
        _move_half_way(model, load_weights(mean_with))
    trained = {
        "recipe": recipe["name"],
        "steps": facts["step"],
        "batch": recipe["batch"],
        "hours_of_audio": facts["hours_of_audio"],
    }
    level = recipe["snr"] if snr is None else snr
    if level is None or not 0 <= level <= 100:
        raise IdeawError("say with an SNR of 0 to 100 dB how strong the marks of this model are to be")
    export_model(model, target, level, trained, eight_bit)


@torch.no_grad()
def _move_half_way(model: AnyNet, other: AnyNet) -> None:
    """Make every weight the mean of its own and that of another network of the same sizes."""
    theirs = other.state_dict()
    ours = model.state_dict()
    if {name: weight.shape for name, weight in ours.items()} != {name: weight.shape for name, weight in theirs.items()}:
        raise IdeawError("only networks of the same sizes have a mean")
    model.load_state_dict({name: (weight + theirs[name]) / 2 for name, weight in ours.items()})


def export_model(model: AnyNet, target: Path, snr: float, trained: dict[str, Any], eight_bit: bool = False) -> None:
    """Write the model folder: weights, graphs, card. Its files appear once all of them are made."""
    if eight_bit and isinstance(model, Wavelet):
        raise IdeawError("a network on wavelets has no form of eight bits")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target) as made:
        folder = Path(made)
        save_weights(model, folder)
        model = load_weights(folder)
        if model.config.carriers == "learned":
            _save_carriers(model, folder)
        feeds = {}
        if eight_bit:
            assert not isinstance(model, Wavelet)
            quantise.equalise(model)
            feeds = quantise.feeds(model)
        for name in WHOLE if isinstance(model, Wavelet) else GRAPHS:
            graph = _graph(model, name)
            if eight_bit:
                graph = quantise.eight_bit(graph, name, feeds[name])
            (folder / f"{name}.onnx").write_bytes(_halved(graph).SerializeToString())
        card = _card(model, snr, trained)
        (folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", "utf-8")
        for path in folder.iterdir():
            path.chmod(0o644)
            os.replace(path, target / path.name)


@torch.no_grad()
def _save_carriers(model: AnyNet, folder: Path) -> None:
    kinds = dict(zip(("message", "code"), model.carriers(), strict=True))
    pairs = {f"{kind}.{way}": getattr(found, way) for kind, found in kinds.items() for way in ("write", "read")}
    save_file({name: maps.half().contiguous() for name, maps in pairs.items()}, folder / CARRIERS)


def _card(model: AnyNet, snr: float, trained: dict[str, Any]) -> dict[str, Any]:
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
        "version": VERSION,
        "snr": snr,
        "bins": model.width,
        "context": config.context,
        "code_twice": False,
        "learned": learned,
        "whole": isinstance(model, Wavelet),
        "shaping": config.shaping,
        "headroom": config.headroom,
        "parameters": parameters(model),
        "multiply_adds_per_second": multiply_adds(model),
        "trained": trained,
    }


def _graph(model: AnyNet, name: str) -> onnx.ModelProto:
    """One of the network's functions as ONNX, for any batch and (but of whole segments) number of frames."""
    batch, frames = torch.export.Dim("batch"), torch.export.Dim("frames", min=2)
    if isinstance(model, Wavelet):
        inputs, outputs = WHOLE[name]
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("host", "received"), (2, SEGMENT_SAMPLES))
        shapes |= {"message": (2, FRAMES_PER_SECOND, model.width)}
        free = {of: {0: batch} for of in inputs}
    else:
        inputs, outputs = GRAPHS[name]
        config, side = model.config, model.domain.side
        spectrum, stream = (2, FRAMES_PER_SECOND + 1, NUM_BINS, 2), (2, FRAMES_PER_SECOND + 1, model.width)
        folded = (2, config.channels, FRAMES_PER_SECOND + 1, config.bands)
        shapes = {"message": stream, "code": stream, "side": (2, side, *folded[2:]), "found": folded}
        shapes |= {"host": folded if name == "read" else spectrum, "received": spectrum}
        free = {of: {0: batch, 2 if name == "read" else 1: frames} for of in inputs}
    with _quietly():
        program = torch.onnx.export(
            _Graph(model, name).eval(),
            tuple(torch.randn(shapes[of]) for of in inputs),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=(tuple(free[of] for of in inputs),),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the exporter's remarks about packages that it misses and names that it drops: none is about the model."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _halved(graph: onnx.ModelProto) -> onnx.ModelProto:
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
