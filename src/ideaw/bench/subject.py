"""What is measured: one model that marks one clip of every file, each with a message of its own.

Everything about a clip follows from the seed and its number, so any process makes the same of it.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio import files
from ideaw.audio.rates import QUALITY, mix, to_network
from ideaw.audio.samples import as_float
from ideaw.errors import AudioError
from ideaw.marker import load
from ideaw.payload.keys import Key
from ideaw.payload.message import Message, layout
from ideaw.payload.plan import Plan
from ideaw.quality import fidelity
from ideaw.results import Detection

SIDE_GAIN, SIDE_DELAY = 0.9, 13
"""What makes the second channel of a mono file: a little quieter, and some samples later."""

HELD = 4
"""Marked clips that are kept for the next rows."""

MEASURES = {
    "SNR": fidelity.snr,
    "SI-SNR": fidelity.si_snr,
    "PESQ": fidelity.pesq,
    "STOI": fidelity.stoi,
    "ViSQOL": fidelity.visqol,
}
"""Of marked audio against its host, at 16 kHz mono."""

Samples = NDArray[np.float32]
Bits = tuple[int, ...]


@dataclass(frozen=True)
class Settings:
    """The model, and the clips it marks."""

    paths: tuple[Path, ...]
    rate: int
    seconds: float
    channels: int
    model: str | None
    snr: float | None
    seed: int


@dataclass(frozen=True, eq=False)
class Clip:
    """One clip, `(n, channels)`, before and after it was marked, and what is in it."""

    host: Samples
    marked: Samples
    message: Bits
    sent: NDArray[np.uint8]
    """(message_bits,) of every second: the message and its check."""


class Subject:
    """A model and its clips, on one thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.rate = settings, settings.rate
        self.marker = load(settings.model, threads=1)
        self.clip = lru_cache(HELD)(self._clip)

    def _clip(self, number: int) -> Clip:
        """The clip of the file with this number; `AudioError` if it cannot be marked."""
        host, message = self.host(number), self.message(number)
        sent = Plan.of(Message.of(message), self.marker.message_bits).round[0]
        return Clip(host, self.mark(host, message), message, sent)

    def host(self, number: int) -> Samples:
        """The clip of a file before it is marked."""
        return clip_of(self.settings.paths[number], self.settings.seconds, self.rate, self.settings.channels)

    def message(self, number: int, other: int = 0) -> Bits:
        """Random bits that fill a second: those of a clip, or with `other` some that are not its own."""
        rng = np.random.default_rng([self.settings.seed, number, other])
        return tuple(map(int, rng.integers(0, 2, layout(self.marker.message_bits).payload)))

    def mark(self, host: Samples, message: Bits, key: Key | None = None) -> Samples:
        """A host with a message in it; with the public key, unless another one is given."""
        marker = self.marker if key is None else load(self.settings.model, key=key, threads=1)
        return marker.embed(host, self.rate, message, snr=self.settings.snr)

    def search(self, audio: Samples, key: Key | None = None) -> Detection:
        """What is found; nothing in audio of which too little is left to be searched."""
        try:
            return self.marker.detect(audio, self.rate, keys=None if key is None else [key])
        except AudioError:
            return Detection(False, None, 1.0, [], ())

    def quality(self, number: int) -> dict[str, float]:
        """How far the marked clip is from its host, by every measure that has a value: PESQ needs speech."""
        clip = self.clip(number)
        host, marked = (mixed(audio, self.rate) for audio in (clip.host, clip.marked))
        values = {name: measure(host, marked) for name, measure in MEASURES.items()}
        return {name: value for name, value in values.items() if math.isfinite(value)}


def clip_of(path: Path, seconds: float, rate: int, channels: int) -> Samples:
    """(n, channels) at `rate` Hz: the beginning of a file, again and again if it is short; real stereo of mono."""
    recording = files.read(path)
    samples = as_float(recording.samples)[:, :2].astype(np.float32)
    if channels == 1:
        samples = mix(samples)[:, None].astype(np.float32)
    if recording.rate != rate:
        samples = soxr.resample(samples, recording.rate, rate, QUALITY)
    if samples.shape[1] < channels:
        samples = np.concatenate([samples, SIDE_GAIN * np.roll(samples, SIDE_DELAY, 0)], 1)
    return np.resize(samples, (round(seconds * rate), channels))


def mixed(audio: Samples, rate: int) -> Samples:
    """(n,): the mix of `(n, channels)` at 16 kHz, as it is measured and played."""
    return to_network(mix(audio)[:, None], rate)[0]
