"""A model folder as the engine uses it: the three graphs, the carriers of the bits, and the card.

A session is made when it is first needed, since a detector that finds no code never reads a message,
and ONNX Runtime itself is imported only then. Audio is cut into parts, and each thread has its own, with all that goes
on around the graphs: threads that share the work of one part wait for each other at every layer.
"""

import copy
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND, NUM_BINS
from ideaw.errors import ModelError
from ideaw.keys import PUBLIC
from ideaw.modem.carriers import (
    CODE_TILE_FRAMES,
    MESSAGE_TILE_FRAMES,
    TILE_BINS,
    Carriers,
    LearnedCarriers,
    TileBand,
    TileFrames,
    keyed_carriers,
    tile_bands,
)
from ideaw.modem.fec import FORMAT_VERSION, FecCode, fec_code, fec_exists
from ideaw.modem.locating_code import scrambler

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

GRAPHS = ("mark", "locate", "read")

CARRIERS = "carriers.safetensors"
"""The carriers of a model that has learned its own."""

MOST_AT_ONCE = 4
"""Parts that are worked on at the same time: this bounds memory. Threads beyond that share the work of one."""

ALONE = FRAMES_PER_SECOND
"""Hops that a thread works on at least: parts have to be seen with what is around them."""

Item = TypeVar("Item")
Result = TypeVar("Result")

Rest = tuple[NDArray[np.float32], ...]
"""What `locate` leaves for `read`: (batch, channels, frames, bands) each, in the order of REST."""

REST = ("host", "side", "found")
"""The last outputs of `locate`, which are the inputs of `read`."""


@dataclass(frozen=True)
class Card:
    """What a model says about itself. `facts` is everything that the engine does not need: sizes, training, results."""

    name: str
    network: str
    """The folder beside this one that holds the graphs: one network serves messages of several lengths."""
    message_bits: int
    code_bits: int
    """0: a single-stage network, which has no locating code and reads only segments whose place is known."""
    message_slots: int
    code_slots: int
    version: int
    """Of codes and carriers: `FORMAT_VERSION` is the one that this program has."""
    snr: float
    """SNR in dB that marks keep unless the user asks for another."""
    bins: int
    """Numbers in a frame of a watermark stream."""
    context: Mapping[str, int]
    """Graph → frames to each side of a moment that it can see."""
    code_twice: bool
    """Whether the message's slots say the code's bits too: where messages are short, they have room for them."""
    learned: bool
    """Whether the carriers come with the model; else they are drawn from a key."""
    whole: bool
    """Whether its graphs take whole segments of audio instead of spectra: so do rivals that we measure."""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def graphs(self) -> tuple[str, ...]:
        """The names of its graphs."""
        return ("mark", "listen") if self.whole else GRAPHS


@dataclass(frozen=True)
class Slots:
    """How some bits travel: an error-correcting code spreads them over slots, and carriers these over a second."""

    code: FecCode
    carriers: Carriers

    def values(self, bits: NDArray[np.integer | np.bool_]) -> NDArray[np.float32]:
        """(…, bits) zeros and ones → (…, slots) of −1 and +1."""
        return 2 * self.code.encode(bits).astype(np.float32) - 1


class Network:
    """One model, from its folder, with the carriers of the public key.

    `threads` is how many ONNX Runtime may use (None: all cores), `beside` where the folder lies that the card names
    as its network (None: beside this one, which only a path can tell).
    """

    key: bytes
    message: Slots
    code: Slots

    def __init__(
        self, folder: Path | Traversable, threads: int | None = None, beside: Path | Traversable | None = None
    ) -> None:
        if not folder.is_dir():
            raise ModelError(f"{folder} is not a model folder: it does not exist or is no directory")
        self.card = _card(folder)
        if beside is None and isinstance(folder, Path):
            beside = folder.resolve().parent
        self._folder = _graphs(folder, beside, self.card)
        self._threads = threads or cores()
        self.at_once = min(self._threads, MOST_AT_ONCE)
        """How many parts `each` works on at the same time."""
        self._sessions: dict[str, InferenceSession] = {}
        self._loading = Lock()
        self._draw(PUBLIC)

    @property
    def weights(self) -> str:
        """Which graphs these are: the first digits of the SHA-256 over them."""
        graphs = (self._folder.joinpath(f"{name}.onnx").read_bytes() for name in self.card.graphs)
        return hashlib.sha256(b"".join(graphs)).hexdigest()[:16]

    def with_key(self, key: bytes) -> "Network":
        """The same network with the carriers of another key (unless they are learned); both share the graphs."""
        if key == self.key:
            return self
        other = copy.copy(self)
        other._draw(key)
        return other

    def mask(self, code: NDArray[np.integer]) -> NDArray[np.float32]:
        """(…, code_bits) → (…, message_slots) of −1 and +1: what the code makes of the message's slots."""
        if self.card.code_twice:
            return scrambler(code, self.message.code.generator)
        return np.ones((*code.shape[:-1], self.card.message_slots), np.float32)

    # On segments (batch, SEGMENT) of level 1: what a network has that takes them whole.

    def mark_whole(self, host: NDArray[np.float32], message: NDArray[np.float32]) -> NDArray[np.float32]:
        """Host and the stream of the message → the residual that marks the host."""
        (residual,) = self._session("mark").run(None, {"host": host, "message": message})
        return residual

    def listen(self, received: NDArray[np.float32]) -> NDArray[np.float32]:
        """What was received → the message's stream."""
        (message,) = self._session("listen").run(None, {"received": received})
        return message

    # On complex spectra (batch, frames, NUM_BINS) and streams (batch, frames, bins), with any number of frames.

    def mark(
        self, host: NDArray[np.complex64], message: NDArray[np.float32], code: NDArray[np.float32]
    ) -> NDArray[np.complex64]:
        """Spectrum of the host and streams of message and code → the residual that marks the host."""
        (residual,) = self._session("mark").run(None, {"host": _pairs(host), "message": message, "code": code})
        return np.ascontiguousarray(residual).view(np.complex64)[..., 0]

    def locate(self, received: NDArray[np.complex64]) -> tuple[NDArray[np.float32], Rest]:
        """What was received → the code's stream, and what `read` goes on with."""
        code, *rest = self._session("locate").run(None, {"received": _pairs(received)})
        return code, tuple(rest)

    def read(self, rest: Rest) -> NDArray[np.float32]:
        """What `locate` has left → the message's stream."""
        (message,) = self._session("read").run(None, dict(zip(REST, rest, strict=True)))
        return message

    def each(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """What `work` makes of each of some items, on several threads."""
        if self.at_once == 1 or len(items) == 1:
            return list(map(work, items))
        with ThreadPoolExecutor(self.at_once) as pool:
            return list(pool.map(work, items))

    def parts(self, first: int, last: int, longest: int) -> list[tuple[int, int]]:
        """The hops from `first` to `last` in like parts of `longest` at most, which is ALONE or more.

        All threads of `each` have as many of them, unless there is too little for that.
        """
        hops = last - first
        rounds = -(-hops // (longest * self.at_once))
        count = max(min(rounds * self.at_once, hops // ALONE), 1) if hops else 0
        return list(pairwise(np.linspace(first, last, count + 1).round().astype(int).tolist()))

    def _draw(self, key: bytes) -> None:
        self.key = key
        self.message = self._slots("message", self.card.message_bits, self.card.message_slots, MESSAGE_TILE_FRAMES)
        self.code = self._slots("code", self.card.code_bits, self.card.code_slots, CODE_TILE_FRAMES)

    def _slots(self, kind: str, bits: int, slots: int, lengths: TileFrames) -> Slots:
        carriers: Carriers
        if self.card.learned:
            carriers = _learned(self._folder, kind, (slots, FRAMES_PER_SECOND, self.card.bins))
        else:
            label = f"carriers of the {kind} of {self.card.message_bits}+{self.card.code_bits}"
            carriers = keyed_carriers(slots, self.card.bins, self.key, label.encode(), lengths)
        return Slots(fec_code(bits, slots), carriers)

    def _session(self, name: str) -> "InferenceSession":
        with self._loading:
            if name not in self._sessions:
                self._sessions[name] = self._load(name)
            return self._sessions[name]

    def _load(self, name: str) -> "InferenceSession":
        # From 1.29 on it would otherwise keep an identifier of this machine and report to its maker.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        options.enable_mem_pattern = False  # one for every length of a part would be half of all memory
        options.intra_op_num_threads = self._threads // self.at_once
        try:
            graph = self._folder.joinpath(f"{name}.onnx").read_bytes()
            session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # ONNX Runtime has no base class of its own for a graph that it cannot load
            raise ModelError(f"{name}.onnx of {self._folder} is damaged or of another version") from problem
        left = {"locate": session.get_outputs()[1:], "read": session.get_inputs()}.get(name)
        if left is not None and tuple(end.name for end in left) != REST:
            raise ModelError(f"{name}.onnx of {self._folder} is of another version: export the model again")
        ends = (*session.get_inputs(), *session.get_outputs())
        if {end.shape[-1] for end in ends if end.name in ("message", "code")} != {self.card.bins}:
            raise ModelError(f"{name}.onnx of {self._folder} does not fit the card of {self.card.name}")
        return session


def cores() -> int:
    """Cores that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pairs(spectrum: NDArray[np.complex64]) -> NDArray[np.float32]:
    """(…) complex → (…, 2)."""
    return np.ascontiguousarray(spectrum)[..., None].view(np.float32)


def _card(folder: Path | Traversable) -> Card:
    try:
        given = json.loads(folder.joinpath("card.json").read_text(encoding="utf-8"))
        known = {entry.name: given.pop(entry.name) for entry in fields(Card) if entry.name != "facts"}
        card = Card(**known, facts=given)
        if card.version != FORMAT_VERSION:
            raise ModelError(f"{folder} is a model for another version of this program: export it again")
        sizes = (card.message_bits, card.message_slots, card.bins)
        fits = all(type(number) is int and number > 0 for number in sizes) and card.bins <= 2 * NUM_BINS
        contexts = [card.context[graph] for graph in GRAPHS]
        fits = fits and all(type(frames) is int and frames >= 0 for frames in contexts)
        fits = fits and type(card.code_bits) is type(card.code_slots) is int
        fits = fits and fec_exists(card.message_bits, card.message_slots) and fec_exists(card.code_bits, card.code_slots)
        tiles = sum(band.tiles for band in tile_bands(card.bins, MESSAGE_TILE_FRAMES))
        fits = fits and (card.learned or max(card.message_slots, card.code_slots) <= tiles)
        fits = fits and type(card.snr) in (int, float) and 0 <= card.snr <= 100
        fits = fits and all(isinstance(yes, bool) for yes in (card.code_twice, card.learned, card.whole))
        fits = fits and (card.code_bits == 0 or not card.whole)
        fits = fits and (card.learned or card.bins % TILE_BINS == 0)
        fits = fits and isinstance(card.name, str) and isinstance(card.network, str)
        fits = fits and not {"/", "\\"} & set(card.network)
    except OSError:
        raise ModelError(f"{folder} is not a model folder: card.json is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ModelError(f"card.json of {folder} is not the card of a model of this version") from problem
    if not fits:
        raise ModelError(f"card.json of {folder} describes a model that this version cannot run")
    return card


def _graphs(folder: Path | Traversable, beside: Path | Traversable | None, card: Card) -> Path | Traversable:
    """Where the graphs lie: in the folder itself, or in the one beside it that the card names."""
    place = folder if card.network == card.name or beside is None else beside.joinpath(card.network)
    if not place.is_dir():
        raise ModelError(f"{folder} needs the network of the model folder {card.network}, which is not beside it")
    for name in card.graphs:
        if not place.joinpath(f"{name}.onnx").is_file():
            raise ModelError(f"{place} is not a complete model folder: {name}.onnx is missing")
    return place


def _learned(folder: Path | Traversable, kind: str, shape: tuple[int, int, int]) -> LearnedCarriers:
    try:
        arrays = _safetensors(folder.joinpath(CARRIERS).read_bytes())
        write, read = (arrays[f"{kind}.{way}"] for way in ("write", "read"))
    except OSError:
        raise ModelError(f"{folder} is not a complete model folder: {CARRIERS} is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ModelError(f"{CARRIERS} of {folder} is damaged") from problem
    if write.shape != shape or read.shape != shape:
        raise ModelError(f"{CARRIERS} of {folder} does not fit its card")
    flat = shape[0], shape[1] * shape[2]
    return LearnedCarriers(shape[0], 1, (TileBand(0, shape[2], 1),), write.reshape(flat), read.reshape(flat))


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
