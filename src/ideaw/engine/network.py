"""A model folder as the engine uses it: the three graphs, the carriers of the bits, and the card.

A session is made when it is first needed, since a detector that finds no code never reads a message,
and ONNX Runtime itself is imported only then.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import BINS, SEGMENT
from ideaw.errors import ModelError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


CARRIERS = "carriers.safetensors"
"""The length regulators of a model, as the export wrote them."""


@dataclass(frozen=True)
class Card:
    """What a model says about itself. `facts` is everything that the engine does not need: sizes, training, results."""

    name: str
    message_bits: int
    code_bits: int
    snr: float
    """SNR in dB that marks keep unless the user asks for another."""
    squeeze: int
    bands: int
    context: int
    """Frames to each side of a moment that the network can see."""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Carriers:
    """The length regulators of message or code: `write` and `read` `(bits, SEGMENT)`, `offset` `(bits,)`."""

    write: NDArray[np.float32]
    read: NDArray[np.float32]
    offset: NDArray[np.float32]

    def to_signal(self, bits: NDArray[np.floating]) -> NDArray[np.float32]:
        """(…, bits) of −1 and +1 → (…, SEGMENT)."""
        return bits.astype(np.float32) @ self.write

    def to_bits(self, signal: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, SEGMENT) → logits (…, bits), positive for 1."""
        return signal @ self.read.T + self.offset


class Network:
    """One model, from its folder; `threads` is how many ONNX Runtime may use (None: all cores)."""

    def __init__(self, folder: Path | Traversable, threads: int | None = None) -> None:
        self._folder, self._threads = folder, threads
        if not folder.is_dir():
            raise ModelError(f"{folder} is not a model folder: it does not exist or is no directory")
        self.card = _card(folder)
        self.message = _carriers(folder, "message", self.card.message_bits)
        self.code = _carriers(folder, "code", self.card.code_bits)
        for name in ("mark", "locate", "read"):
            if not folder.joinpath(f"{name}.onnx").is_file():
                raise ModelError(f"{folder} is not a complete model folder: {name}.onnx is missing")

    # On complex spectra (batch, frames, BINS), with any number of frames.

    def mark(
        self, host: NDArray[np.complex64], message: NDArray[np.complex64], code: NDArray[np.complex64]
    ) -> NDArray[np.complex64]:
        """Spectra of the host and of the signals of message and code → the residual that marks the host."""
        streams = {"host": host, "message": message, "code": code}
        (residual,) = self._run(self._mark, {name: self.squeeze(stream) for name, stream in streams.items()})
        return self.unsqueeze(residual)

    def locate(self, received: NDArray[np.complex64]) -> tuple[NDArray[np.complex64], NDArray[np.float32]]:
        """What was received → the code's spectrum, and the host stream (still squeezed) that `read` goes on with."""
        code, host = self._run(self._locate, {"received": self.squeeze(received)})
        return self.unsqueeze(code), host

    def read(self, host: NDArray[np.float32]) -> NDArray[np.complex64]:
        """The host stream from `locate` → the message's spectrum."""
        (message,) = self._run(self._read, {"host": host})
        return self.unsqueeze(message)

    def squeeze(self, spectrum: NDArray[np.complex64]) -> NDArray[np.float32]:
        """(batch, frames, BINS) complex → (batch, channels, frames, bands): neighbouring bins become channels."""
        batch, frames, _ = spectrum.shape
        used = spectrum[..., : self.card.bands * self.card.squeeze]
        bands = used.reshape(batch, frames, self.card.bands, self.card.squeeze).transpose(0, 3, 1, 2)
        return np.concatenate([bands.real, bands.imag], 1).astype(np.float32, copy=False)

    def unsqueeze(self, squeezed: NDArray[np.float32]) -> NDArray[np.complex64]:
        """The way back; bins that no band holds are 0."""
        batch, _, frames, _ = squeezed.shape
        real, imaginary = np.split(squeezed.transpose(0, 2, 3, 1), 2, -1)
        spectrum = np.zeros((batch, frames, BINS), np.complex64)
        used = self.card.bands * self.card.squeeze
        spectrum[..., :used] = (real + 1j * imaginary).reshape(batch, frames, used)
        return spectrum

    @cached_property
    def _mark(self) -> "InferenceSession":
        return self._session("mark")

    @cached_property
    def _locate(self) -> "InferenceSession":
        return self._session("locate")

    @cached_property
    def _read(self) -> "InferenceSession":
        return self._session("read")

    def _session(self, name: str) -> "InferenceSession":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        options.intra_op_num_threads = self._threads or 0
        try:
            graph = self._folder.joinpath(f"{name}.onnx").read_bytes()
            return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # ONNX Runtime has no base class of its own for a graph that it cannot load
            raise ModelError(f"{name}.onnx of {self._folder} is damaged or of another version") from problem

    def _run(self, session: "InferenceSession", streams: dict[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        return session.run(None, streams)


def _card(folder: Path | Traversable) -> Card:
    try:
        given = json.loads(folder.joinpath("card.json").read_text(encoding="utf-8"))
        known = {entry.name: given.pop(entry.name) for entry in fields(Card) if entry.name != "facts"}
        card = Card(**known, facts=given)
        whole = (card.message_bits, card.code_bits, card.squeeze, card.bands, card.context)
        fits = all(type(number) is int for number in whole) and 0 < card.squeeze * card.bands <= BINS
        fits = fits and card.message_bits > 0 < card.code_bits and isinstance(card.snr, int | float)
    except OSError:
        raise ModelError(f"{folder} is not a model folder: card.json is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ModelError(f"card.json of {folder} is not the card of a model of this version") from problem
    if not fits:
        raise ModelError(f"card.json of {folder} describes a model that this version cannot run")
    return card


def _carriers(folder: Path | Traversable, kind: str, bits: int) -> Carriers:
    try:
        arrays = _safetensors(folder.joinpath(CARRIERS).read_bytes())
        loaded = {way: arrays[f"{kind}_regulators.{way}"] for way in ("write", "read", "offset")}
    except OSError:
        raise ModelError(f"{folder} is not a complete model folder: {CARRIERS} is missing") from None
    except (ValueError, KeyError, TypeError) as problem:
        raise ModelError(f"{CARRIERS} of {folder} is damaged") from problem
    if loaded["write"].shape != (bits, SEGMENT) or loaded["read"].shape != (bits, SEGMENT):
        raise ModelError(f"{CARRIERS} of {folder} does not fit its card: {bits} {kind} bits are expected")
    return Carriers(**loaded)


def _safetensors(content: bytes) -> dict[str, NDArray[np.float32]]:
    """The half-precision arrays of a safetensors file: eight bytes of length, a JSON header, the numbers."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    numbers = memoryview(content)[8 + size :]
    return {
        name: np.frombuffer(numbers[slice(*entry["data_offsets"])], np.float16)
        .reshape(entry["shape"])
        .astype(np.float32)
        for name, entry in header.items()
        if name != "__metadata__"
    }
