"""Models that can be loaded: the packaged ones by name, others by the path of a trusted folder.

A model folder holds a card (`card.json`) and the ONNX graphs, or names the packaged or neighbouring folder that holds
them: one network serves payloads of several lengths. ONNX Runtime executes graphs as code, so a folder must come from
somebody you trust; the packaged graphs are pinned by their hashes.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ideaw.audio.grid import NUM_BINS
from ideaw.audio.hearing import DEFAULT_AUDIBILITY_DB, MAX_AUDIBILITY_DB, MIN_AUDIBILITY_DB
from ideaw.audio.samples import MIN_SECONDS
from ideaw.errors import ModelError
from ideaw.modem.carriers import MESSAGE_TILE_FRAMES, TILE_BINS, tile_bands
from ideaw.modem.fec import FORMAT_VERSION, fec_exists

DEFAULT_MODEL = "46+10"

GRAPHS = ("mark", "locate", "read")
"""The ONNX graphs of a model: embedder, stage 2 backwards (locating code), stage 1 backwards (message)."""

RESPONSE_FILE = "response.npy"
"""What the locating code does to log-magnitudes (`engine/response.py`); a model without it is searched at its own speed
only."""

MAX_CONTEXT_FRAMES = 1_024
"""Receptive field to each side, in STFT frames (16 s), beyond which a card is refused."""

PACKAGED_SHA256 = {
    "mark.onnx": "0792f1de3cad72923261cce616443796bb560933ec5a1fd53e3d08501c394072",
    "locate.onnx": "f6c5f8b46c5ea542410aa870ead29edadc89e9b98cfb7466e1d13a7a13c0032f",
    "read.onnx": "3ecc65a7c77989ad261b6f1ea076ac53b2168563eb63585fce85f7a2a5c241d2",
    RESPONSE_FILE: "e8a9d89498ab825e9bcd1f33754ac2a27b6d530ed6483d207669986b95b2696c",
}
"""SHA-256 of what is packaged with the card: what is executed is what was released."""

_Count = Annotated[int, Meta(ge=0, le=1 << 16)]
_Frames = Annotated[int, Meta(ge=0, le=MAX_CONTEXT_FRAMES)]
_FolderName = Annotated[str, Meta(pattern=r"^[^/\\]+$")]


@dataclass(frozen=True)
class Card:
    """What a model says about itself: `card.json` of its folder."""

    name: str
    network: _FolderName
    """The folder beside this one that holds the graphs."""
    message_bits: Annotated[int, Meta(gt=0, le=1 << 12)]
    """Payload bits in one second, check included."""
    code_bits: _Count
    """Bits of the locating code; 0: a single-stage network, which reads only segments whose place is known."""
    message_slots: Annotated[int, Meta(gt=0, le=1 << 16)]
    """Coded bits that carry the payload of one second."""
    code_slots: _Count
    """Coded bits that carry the locating code in one second."""
    format_version: int
    """Of carriers and error correction: a mark is read by the version that it was made with."""
    snr: Annotated[float, Meta(ge=0, le=100)]
    """SNR in dB that the marks of single segments keep unless the caller asks for another: the paper's level."""
    bins: Annotated[int, Meta(gt=0, le=2 * NUM_BINS)]
    """Numbers in one frame of a watermark stream."""
    context: Mapping[str, _Frames]
    """Graph → its receptive field to each side, in STFT frames."""
    scrambled_by_code: bool
    """Whether the locating code scrambles the message's slots, so that these carry the code's bits a second time."""
    audibility: Annotated[float, Meta(ge=MIN_AUDIBILITY_DB, le=MAX_AUDIBILITY_DB)] = DEFAULT_AUDIBILITY_DB
    """Noise to mask in dB to which hearing sets every second of audio unless the caller asks for another level: the
    mean over frames and bands, so 0 is as loud as what the audio masks, and less is quieter."""
    min_seconds: Annotated[float, Meta(ge=MIN_SECONDS, le=60)] = 1.0
    """Length in seconds below which audio is refused."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Everything else on the card, which the engine does not need: training, measurements, limits."""


@dataclass(frozen=True)
class ModelFiles:
    """Where a model lies: its card, the folder of its graphs, and whether these are the packaged ones."""

    card: Card
    graphs: Path | Traversable
    source: str
    """The packaged name or the path by which it can be found again."""
    packaged: bool = False

    def has(self, name: str) -> bool:
        """Whether the graphs' folder holds a file."""
        return self.graphs.joinpath(name).is_file()

    def read(self, name: str) -> bytes:
        """The bytes of one file of the graphs' folder.

        Raises:
            ModelError: the file is missing, or a packaged graph is not the one that was released.
        """
        try:
            content = self.graphs.joinpath(name).read_bytes()
        except OSError:
            raise ModelError(f"{self.graphs} is not a complete model folder: {name} is missing") from None
        if self.packaged and hashlib.sha256(content).hexdigest() != PACKAGED_SHA256[name]:
            raise ModelError(f"{name} of the packaged model is not the released one; install ideaw again")
        return content


def model_names() -> list[str]:
    """The names of the packaged models."""
    return sorted(entry.name for entry in _packaged().iterdir() if entry.joinpath("card.json").is_file())


def model_folder(name: str) -> Traversable:
    """Where a packaged model lies."""
    return _packaged().joinpath(name)


def find_model(model: str | os.PathLike[str] | None) -> ModelFiles:
    """The model of a packaged name (None: the default) or in the folder at a path.

    Raises:
        ModelError: there is no such model, or its card or graphs do not fit this version.
    """
    name = DEFAULT_MODEL if model is None else os.fspath(model)
    if name in model_names():
        return _open(model_folder(name), _packaged(), name, packaged=True)
    if Path(name).is_dir():
        return _open(Path(name), Path(name).resolve().parent, name)
    raise ModelError(
        f'there is no model "{name}"; packaged: {", ".join(model_names())}; or give the path of a model folder'
    )


def graphs_folder(folder: Path | Traversable, beside: Path | Traversable, card: Card) -> Path | Traversable:
    """The folder of a model's graphs: its own, or the one in `beside` that its card names."""
    graphs = folder if card.network == card.name else beside.joinpath(card.network)
    if not graphs.is_dir():
        raise ModelError(f"{folder} needs the network of the model folder {card.network}, which is not beside it")
    return graphs


def read_card_fields(folder: Path | Traversable) -> dict[str, Any]:
    """The fields of `card.json`, not yet checked.

    Raises:
        ModelError: there is no card, or it is not a JSON object.
    """
    try:
        given = json.loads(folder.joinpath("card.json").read_text(encoding="utf-8"))
    except OSError:
        raise ModelError(f"{folder} is not a model folder: card.json is missing") from None
    except ValueError as problem:
        raise ModelError(f"card.json of {folder} is not JSON") from problem
    if not isinstance(given, dict):
        raise ModelError(f"card.json of {folder} is not the card of a model")
    return given


def parse_card(given: dict[str, Any], folder: Path | Traversable) -> Card:
    """A card from its fields; those that the engine does not know are its `facts`.

    Raises:
        ModelError: a field is missing, of a wrong type or out of range (it is named), or of another format.
    """
    known = {entry.name for entry in fields(Card)} - {"facts"}
    if given.get("format_version", FORMAT_VERSION) != FORMAT_VERSION:
        raise ModelError(f"{folder} is a model of another format version: export it again")
    required = {name: value for name, value in given.items() if name in known}
    facts = {name: value for name, value in given.items() if name not in known}
    try:
        card: Card = msgspec.convert(required | {"facts": facts}, Card)
    except msgspec.ValidationError as problem:
        raise ModelError(f"card.json of {folder} does not fit this version: {problem}") from problem
    if (wrong := _misfit(card)) is not None:
        raise ModelError(f"card.json of {folder} describes a model that this version cannot run: {wrong}")
    return card


def _open(folder: Path | Traversable, beside: Path | Traversable, source: str, packaged: bool = False) -> ModelFiles:
    given = read_card_fields(folder)
    if is_rival(given):
        raise ModelError(f"{folder} is a model for comparisons: measure it with ideaw bench segments --model")
    card = parse_card(given, folder)
    graphs = graphs_folder(folder, beside, card)
    for name in GRAPHS:
        if not graphs.joinpath(f"{name}.onnx").is_file():
            raise ModelError(f"{graphs} is not a complete model folder: {name}.onnx is missing")
    return ModelFiles(card, graphs, source, packaged)


def is_rival(card_fields: Mapping[str, Any]) -> bool:
    """Whether a card is of a model for comparisons, whose carriers are learned or whose graphs take waveforms."""
    return bool(card_fields.get("learned_carriers") or card_fields.get("waveform_io"))


def _misfit(card: Card) -> str | None:
    """What of a well-formed card contradicts itself; None if nothing does."""
    if card.network in (".", ".."):
        return "network is not the name of a folder"
    if missing := [graph for graph in GRAPHS if graph not in card.context]:
        return f"context lacks {', '.join(missing)}"
    for kind, bits, slots in (
        ("message", card.message_bits, card.message_slots),
        ("code", card.code_bits, card.code_slots),
    ):
        if not fec_exists(bits, slots):
            return f"there is no code of {bits} bits in {slots} {kind} slots"
    if is_rival(card.facts):
        return None
    if card.bins % TILE_BINS:
        return f"bins are not a multiple of {TILE_BINS}"
    tiles = sum(band.tiles for band in tile_bands(card.bins, MESSAGE_TILE_FRAMES))
    return None if max(card.message_slots, card.code_slots) <= tiles else f"there are more slots than {tiles} tiles"


def _packaged() -> Traversable:
    return resources.files("ideaw").joinpath("weights")
