"""From a checkpoint to what is shipped: three ONNX graphs, the weights, and the card's first facts.

The STFT stays outside the graphs (ONNX has no inverse), so they take squeezed spectra with a free number of
frames. Weights are stored in half precision and brought back to single precision when a session loads them.
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

from ideaw.audio.grid import FRAMES
from ideaw.errors import FileError, IdeawError
from ideaw.nets.config import NetConfig
from ideaw.nets.cost import multiply_adds, parameters
from ideaw.nets.model import Ideaw
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
"""The weights: of the subnets, with the network's configuration; of the length regulators, which the engine reads."""


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
    trained = {
        "recipe": recipe["name"],
        "steps": facts["step"],
        "batch": recipe["batch"],
        "hours_of_audio": facts["hours_of_audio"],
    }
    level = recipe["snr"] if snr is None else snr
    if level is None or not 0 <= level <= 100:
        raise IdeawError("say with an SNR of 0 to 100 dB how strong the marks of this model are to be")
    export_model(model, target, level, trained)


def export_model(model: Ideaw, target: Path, snr: float, trained: dict[str, Any]) -> None:
    """Write the model folder: weights, graphs, card. Its files appear once all of them are made."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target) as made:
        folder = Path(made)
        save_weights(model, folder)
        model = load_weights(folder)
        for name in GRAPHS:
            (folder / f"{name}.onnx").write_bytes(_graph(model, name).SerializeToString())
        card = _card(model, snr, trained)
        (folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", "utf-8")
        for path in folder.iterdir():
            path.chmod(0o644)
            os.replace(path, target / path.name)


def _card(model: Ideaw, snr: float, trained: dict[str, Any]) -> dict[str, Any]:
    """What the model says about itself."""
    config = model.config
    return {
        "name": f"{config.message_bits}+{config.code_bits}",
        "message_bits": config.message_bits,
        "code_bits": config.code_bits,
        "snr": snr,
        "squeeze": config.squeeze,
        "bands": config.bands,
        "context": config.context,
        "parameters": parameters(model),
        "multiply_adds_per_second": multiply_adds(model),
        "trained": trained,
    }


def _graph(model: Ideaw, name: str) -> onnx.ModelProto:
    """One of the network's functions as ONNX, for any batch and number of frames."""
    inputs, outputs = GRAPHS[name]
    example = (2, model.config.channels, FRAMES + 1, model.config.bands)
    free = {0: torch.export.Dim("batch"), 2: torch.export.Dim("frames", min=2)}
    with _quietly():
        program = torch.onnx.export(
            _Graph(model, name).eval(),
            tuple(torch.randn(example) for _ in inputs),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=(tuple(free for _ in inputs),),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return _halved(program.model_proto)


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
        if constant.data_type == TensorProto.FLOAT and np.array_equal(values.astype(np.float16), values):
            half = numpy_helper.from_array(values.astype(np.float16), constant.name + "_half")
            casts.append(helper.make_node("Cast", [half.name], [constant.name], to=TensorProto.FLOAT))
            constant.CopyFrom(half)
    nodes = [*casts, *graph.graph.node]
    for part in (*nodes, *graph.graph.value_info, *graph.graph.input, *graph.graph.output, graph.graph, graph):
        del part.metadata_props[:]  # stack traces, with the folders of the machine that exported
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    return graph
