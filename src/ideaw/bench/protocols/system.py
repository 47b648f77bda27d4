"""A watermarking system under test: it marks one clip of every file, each with a message of its own, and searches.

Everything about a clip follows from the seed and its number, so every process makes the same one. The models of ideaw
are here; other systems, in processes of their own, are in `peer_system.py`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ideaw.audio.blocks import to_network_mono
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.corpus import Samples, read_clip
from ideaw.engine.gain import MarkLevel, check_level, describe_level
from ideaw.engine.network import Network
from ideaw.errors import AudioError
from ideaw.keys import PUBLIC, Key
from ideaw.layers import FAST_ALONE
from ideaw.marker import load
from ideaw.payload.message import Content, Message, layout
from ideaw.quality import fidelity

CACHED_CLIPS = 4
"""Marked clips that stay in memory for the next rows."""

QUALITY_MEASURES = {
    "SNR": fidelity.snr,
    "SI-SNR": fidelity.si_snr,
    "PESQ": fidelity.pesq,
    "STOI": fidelity.stoi,
    "ViSQOL": fidelity.visqol,
}
"""Name → measure of marked audio against its host, at 16 kHz mono."""

COST_MEASURES = ("PESQ", "STOI")
"""Measures of attacked audio against the same audio before the attack."""

MAX_DELAY_SECONDS = 0.25
"""Longest delay of an attack that is undone before its cost is measured."""

Bits = tuple[int, ...]


@dataclass(frozen=True)
class Settings:
    """What is measured, and the clips that it marks: a model of ours at a level, or a peer with its weights.

    Clips are `seconds` long, at `rate` Hz; `snr` and `audibility` are in dB, None for what the model's card says.
    """

    paths: tuple[Path, ...]
    rate: int
    seconds: float
    channels: int
    seed: int
    model: str | None = None
    snr: float | None = None
    audibility: float | None = None
    peer: str | None = None
    weights: Path | None = None


@dataclass(frozen=True, eq=False)
class Clip:
    """One clip, `(n, channels)`, before and after it was marked, and what is in it."""

    host: Samples
    marked: Samples
    message: Bits
    sent: Bits
    """The bits that are compared with those that are read."""


@dataclass(frozen=True)
class SearchResult:
    """The result of a search, of any system."""

    found: bool
    """The system's own decision."""
    message: Content | None
    """None where none was found, and () of a system that carries none."""
    read: Bits
    """As many bits as were sent, right or wrong; none where no mark was located."""
    doubt: float
    """From 0 (certainly marked) to 1: a p-value if the system gives one, else 1 − its score."""
    failed: bool = False
    """Whether the search broke down or took too long."""


NO_MARK = SearchResult(False, None, (), 1.0)
"""What is found in audio of which too little is left to be searched."""


class WatermarkSystem(ABC):
    """A system and its clips. It goes to another process as its settings, of which it is made anew there."""

    title: str
    """The system with its model or version, as reports name it."""
    bits: int
    """Bits of a message; 0: it only tells that a mark is there."""
    carried: int
    """Bits that are compared in every clip."""
    level: MarkLevel = (None, None)
    """How strong its marks are, as far as that was asked for."""
    keyed: bool = False
    """Whether marks have keys."""
    p_values: bool = False
    """Whether doubts are p-values, which bound the false-alarm rate by themselves."""
    network: Network | None = None
    """Extractor and embedder of ideaw, if these are the system's own."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.rate = settings, settings.rate
        self.clip = lru_cache(CACHED_CLIPS)(self._mark_clip)

    def __reduce__(self) -> tuple[type["WatermarkSystem"], tuple[Settings]]:
        return type(self), (self.settings,)

    @abstractmethod
    def configuration(self) -> dict[str, str | float | None]:
        """What tells this system from every other one."""

    @abstractmethod
    def mark(self, host: Samples, message: Bits, key: Key | None = None) -> Samples:
        """`(n, channels)` with a message in it, and a key where there are keys; `AudioError` if that cannot be."""

    @abstractmethod
    def search(self, audio: Samples, key: Key | None = None) -> SearchResult:
        """What is found in `(n, channels)`."""

    def close(self) -> None:
        """Give back what it holds; it can be asked again."""
        self.clip.cache_clear()

    def sent(self, message: Bits) -> Bits:
        """The bits that stand for a message in the audio."""
        return message

    def _mark_clip(self, number: int) -> Clip:
        """The clip of the file with this number; `AudioError` if it cannot be marked."""
        host, message = self.host(number), self.message(number)
        return Clip(host, self.mark(host, message), message, self.sent(message))

    def host(self, number: int) -> Samples:
        """The clip of a file before it is marked."""
        return read_clip(self.settings.paths[number], self.settings.seconds, self.rate, self.settings.channels)

    def message(self, number: int, draw: int = 0) -> Bits:
        """Random bits: those of a clip, or with another `draw` some that are not its own."""
        rng = np.random.default_rng([self.settings.seed, number, draw])
        return tuple(map(int, rng.integers(0, 2, self.bits)))

    def quality(self, number: int) -> dict[str, float]:
        """How far the marked clip is from its host, by every measure that has a value: PESQ needs speech."""
        clip = self.clip(number)
        host, marked = (to_network_mono(audio, self.rate) for audio in (clip.host, clip.marked))
        values = {name: measure(host, marked) for name, measure in QUALITY_MEASURES.items()}
        return {name: value for name, value in values.items() if math.isfinite(value)}

    def cost(self, before: Samples, after: Samples) -> dict[str, float]:
        """What an attack makes of audio, with its delay undone, by every measure that has a value; nothing where the
        length changes, since then nothing lies above each other."""
        if len(before) != len(after):
            return {}
        host, attacked = (to_network_mono(audio, self.rate) for audio in (before, after))
        host, attacked = fidelity.align(host, attacked, round(MAX_DELAY_SECONDS * SAMPLE_RATE))
        values = {name: QUALITY_MEASURES[name](host, attacked) for name in COST_MEASURES if attacked.any()}
        return {name: value for name, value in values.items() if math.isfinite(value)}


class IdeawSystem(WatermarkSystem):
    """A model of ideaw on one thread; a message fills a second, and the bits of one second are compared."""

    keyed, p_values = True, True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._marker = load(settings.model, threads=1)
        self.network = self._marker.network
        self._frames = self.network.channels(PUBLIC).short
        self.bits = layout(self._marker.message_bits).content_bits
        self.carried = len(self.sent((0,) * self.bits))
        self.title = f"ideaw {self._marker.card.name}"
        self.level = check_level(settings.snr, settings.audibility, self._marker.card.audibility)

    def configuration(self) -> dict[str, str | float | None]:
        return {"system": self.title, "weights": self._marker.weights_id, "level": describe_level(*self.level)}

    def sent(self, message: Bits) -> Bits:
        """The bits that a second carries: of most models kind, content and check, enciphered."""
        word = self._frames.symbols(Message.of(message).encode(self._marker.message_bits))
        return tuple(int(llr > 0) for llr in self._frames.decode(word)[1])

    def mark(self, host: Samples, message: Bits, key: Key | None = None) -> Samples:
        """With the public key, unless another one is given."""
        marker = self._marker if key is None else load(self.settings.model, key=key, threads=1)
        marked: Samples = marker.embed(
            host, self.rate, message, snr=self.level[0], audibility=self.level[1], layers=FAST_ALONE
        )
        return marked

    def search(self, audio: Samples, key: Key | None = None) -> SearchResult:
        try:
            detection = self._marker.detect(audio, self.rate, keys=None if key is None else [key], layers=FAST_ALONE)
        except AudioError:
            return NO_MARK
        bits = tuple(int(llr > 0) for llr in detection.bit_confidence)
        return SearchResult(detection.found, detection.message, bits, detection.p_value)
