"""Models for comparisons, the paper's own among them, whose carriers are learned or whose graphs take waveforms.

They are measured on segments alone. A search would state p-values that do not hold for them, since these rest on signs
that a key draws.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.engine.network import Network
from ideaw.errors import ModelError
from ideaw.marker import load
from ideaw.models import GRAPHS, ModelFiles, graphs_folder, is_rival, parse_card, read_card_fields
from ideaw.modem.carriers import Carriers, TileBand
from ideaw.modem.channel import BitChannel, KeyChannels
from ideaw.modem.fec import fec_code
from ideaw.modem.locating_code import locating_code
from ideaw.segment_marker import SegmentMarker

CARRIERS_FILE = "carriers.safetensors"
"""The carriers of a model that has learned its own."""

WAVEFORM_GRAPHS = ("mark", "listen")
"""The graphs of a model on waveforms."""


def load_segment_marker(model: str | os.PathLike[str] | None) -> SegmentMarker:
    """A packaged model by name, or the model in a folder, one for comparisons too.

    Raises:
        ModelError: there is no such model, or its card or files do not fit this version.
    """
    if model is not None and (folder := Path(model)).is_dir() and (folder / "card.json").is_file():
        fields = read_card_fields(folder)
        if is_rival(fields):
            card = parse_card(fields, folder)
            files = ModelFiles(card, graphs_folder(folder, folder.resolve().parent, card), str(folder))
            return SegmentMarker(RivalNetwork(files))
    return load(model)


class RivalNetwork(Network):
    """A network with learned carriers, on spectra or on waveforms."""

    @property
    def graph_names(self) -> tuple[str, ...]:
        """The names of its graphs."""
        return WAVEFORM_GRAPHS if self.card.facts.get("waveform_io") else GRAPHS

    @property
    def has_locating_code(self) -> bool:
        """No: what is learned has no signs that a key draws, so no probability of an accident can be stated."""
        return False

    def channels(self, key: bytes) -> KeyChannels:
        """The same for every key, if its carriers are learned."""
        if not self.card.facts.get("learned_carriers"):
            return super().channels(key)
        card = self.card
        message = self._learned_channel("message", card.message_bits, card.message_slots)
        code = self._learned_channel("code", card.code_bits, card.code_slots)
        return KeyChannels(key, message, code, locating_code(card.code_bits, key), card.scrambled_by_code)

    def mark_segments(
        self, host: NDArray[np.float32], message: NDArray[np.float32], code: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Segments and streams of message and locating code → residuals of the same shape."""
        if not self.card.facts.get("waveform_io"):
            return super().mark_segments(host, message, code)
        (residual,) = self.session("mark").run(None, {"host": host, "message": message})
        return np.asarray(residual)

    def extract_streams(self, received: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Segments → the streams of message and locating code."""
        if not self.card.facts.get("waveform_io"):
            return super().extract_streams(received)
        (message,) = self.session("listen").run(None, {"received": received})
        return message, np.zeros_like(message)

    def _learned_channel(self, kind: str, bits: int, slots: int) -> BitChannel:
        shape = (slots, FRAMES_PER_SECOND, self.card.bins)
        where = f"{CARRIERS_FILE} of {self.files.graphs}"
        content = self.files.read(CARRIERS_FILE)
        import safetensors.numpy  # of the extra `bench`, and needed for models with learned carriers alone

        try:
            arrays = safetensors.numpy.load(content)
            write, read = (arrays[f"{kind}.{way}"].astype(np.float32) for way in ("write", "read"))
        except (safetensors.SafetensorError, KeyError) as problem:
            raise ModelError(f"{where} is damaged") from problem
        if write.shape != shape or read.shape != shape:
            raise ModelError(f"{where} does not fit its card")
        flat = slots, shape[1] * shape[2]
        carriers = LearnedCarriers(slots, 1, (TileBand(0, shape[2], 1),), write.reshape(flat), read.reshape(flat))
        return BitChannel(fec_code(bits, slots), carriers)


@dataclass(frozen=True, eq=False)
class LearnedCarriers(Carriers):
    """Carriers that were trained with a network.

    Attributes:
        write: (slots, tiles), what a slot adds to the tiles.
        read: (slots, tiles), what a slot is correlated with.
    """

    write: NDArray[np.float32]
    read: NDArray[np.float32]

    def modulate(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        return values.astype(np.float32) @ self.write

    def template(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        return values.astype(np.float32) @ self.read

    def despread(self, tiles: NDArray[np.float32]) -> NDArray[np.float32]:
        return tiles @ self.read.T
