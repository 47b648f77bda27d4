"""From a checkpoint to what is shipped: three ONNX graphs, the weights, and the card's first facts.

The STFT stays outside the graphs (ONNX has no inverse), so they take squeezed spectra with a free number of
frames. Weights are stored in half precision and brought back to single precision when a session loads them.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ideaw.audio.grid import FRAMES
from ideaw.errors import FileError
from ideaw.nets.config import NetConfig
from ideaw.nets.model import Ideaw
from ideaw.nets.cost import multiply_adds, parameters
from ideaw.train import checkpoint
from ideaw.train.recipe import build


class _Graph(nn.Module):
    """One of the network's three functions as a module of its own, for the exporter."""

    def __init__(self, model: Ideaw, function: str) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *streams: Tensor) -> Any:
        return getattr(self.model, self.function)(*streams)


GRAPHS = {
    "mark": (("host", "message", "code"), ("residual",)),
    "locate": (("received",), ("code", "host")),
    "read": (("host",), ("message",)),
}
"""Graph → its inputs and outputs, all (batch, channels, frames, bands)."""


NETWORK, CARRIERS = "network.safetensors", "carriers.safetensors"
"""The weights: of the subnets, with the network's configuration; and of the length regulators, which the engine reads."""


def load_weights(folder: Path) -> Ideaw:
    """The network of a model folder; its weights carry its configuration."""
    try:
        with safe_open(folder / NETWORK, "pt") as file:
            described = file.metadata()
        tensors = load_file(folder / NETWORK) | load_file(folder / CARRIERS)
    except (OSError, SafetensorError) as error:
        raise FileError(f"{folder} is not a model folder: {NETWORK} or {CARRIERS} cannot be read") from error
    model = Ideaw(build(NetConfig, json.loads(described["net"]), str(folder)))
    model.load_state_dict({key: value.float() for key, value in tensors.items()})
    return model.eval()


def save_weights(model: Ideaw, folder: Path) -> None:
    """Half-precision weights with the configuration beside them."""
    tensors = {key: value.detach().half().contiguous() for key, value in model.state_dict().items()}
    carriers = {key: tensors.pop(key) for key in list(tensors) if "_regulators." in key}
    save_file(tensors, folder / NETWORK, metadata={"net": json.dumps(dataclasses.asdict(model.config))})
    save_file(carriers, folder / CARRIERS)


def export_run(run: Path, target: Path, snr: float | None = None) -> None:
    """The averaged weights of a training run as a model folder that `ideaw.load` takes.

    `snr` is the level in dB that marks get unless the user asks for another (None: what it was trained at).
    """
    kept = checkpoint.load(run / "checkpoint")
    if kept is None:
        raise FileError(f"{run} holds no checkpoint: give the folder that `ideaw train` wrote")
    parts, facts = kept
    model = Ideaw(build(NetConfig, facts["recipe"]["net"], str(run)))
    model.load_state_dict(parts["average"])
    recipe = facts["recipe"]
    trained = {"recipe": recipe["name"], "steps": facts["step"], "hours_of_audio": facts["hours_of_audio"]}
    export_model(model, target, snr or recipe["snr"] or 36.0, trained)


def export_model(model: Ideaw, target: Path, snr: float, trained: dict[str, Any]) -> None:
    """Write the model folder: weights, graphs, card."""
    target.mkdir(parents=True, exist_ok=True)
    save_weights(model, target)
    model = load_weights(target)
    config = model.config
    example = torch.randn(2, config.channels, FRAMES + 1, config.bands)
    for name, (inputs, outputs) in GRAPHS.items():
        free = {i: {0: torch.export.Dim("batch"), 2: torch.export.Dim("frames", min=2)} for i in inputs}
        program = torch.onnx.export(
            _Graph(model, name),
            tuple(torch.randn_like(example) for _ in inputs),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=(tuple(free.values()),),
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        (target / f"{name}.onnx").write_bytes(_halved(program.model_proto).SerializeToString())
    card = {
        "name": f"{config.message_bits}+{config.code_bits}",
        "message_bits": config.message_bits,
        "code_bits": config.code_bits,
        "snr": snr,
        "squeeze": config.squeeze,
        "bands": config.bands,
        "parameters": parameters(model),
        "multiply_adds_per_second": multiply_adds(model),
        "trained": trained,
    }
    (target / "card.json").write_text(json.dumps(card, indent=2) + "\n")


def _halved(graph: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph with its large constants in half precision behind a cast, which a session folds at load."""
    casts = []
    for constant in graph.graph.initializer:
        if constant.data_type == TensorProto.FLOAT and np.prod(constant.dims) > 64:
            half = numpy_helper.from_array(numpy_helper.to_array(constant).astype(np.float16), constant.name + "_half")
            casts.append(helper.make_node("Cast", [half.name], [constant.name], to=TensorProto.FLOAT))
            constant.CopyFrom(half)
    nodes = [*casts, *graph.graph.node]
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    return graph
