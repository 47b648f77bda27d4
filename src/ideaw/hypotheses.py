"""Hypotheses besides the mix at its own speed: channels searched apart, and audio of another speed or tempo.

A full search under every hypothesis would cost minutes. They are therefore screened on an excerpt, the loudest seconds:
only a hypothesis under which the excerpt shows a locating code is searched in full. Channels are screened with the
network, speeds and tempos without it (`engine/speed_scan.py`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio.blocks import SOXR_QUALITY, SampleBuffer, mix
from ideaw.audio.grid import HOP_SAMPLES, SAMPLE_RATE
from ideaw.engine.correlate import find_tracks
from ideaw.engine.features import ChunkFeatures
from ideaw.engine.network import Network
from ideaw.engine.response import code_template
from ideaw.engine.significance import CANDIDATE_P
from ideaw.engine.speed_scan import accident_p, line_spectrum, scan_speeds
from ideaw.errors import IdeawError
from ideaw.modem.channel import KeyChannels

Speeds = Literal["none", "near", "all"]

DEFAULT_SPEEDS: Speeds = "all"

SPEED_RATIO = 1.002
"""Ratio of neighbouring speeds: what lies between two is off by half a bin at most, and over the excerpt by a sixth
of a tile."""

SPEED_GRID: dict[Speeds, tuple[float, ...]] = {
    "none": (),
    "near": tuple(SPEED_RATIO**k for k in range(-31, 31) if k),
    "all": tuple(SPEED_RATIO**k for k in range(-112, 113) if k),
}
"""Speeds that are tried where nothing was found: within 6 %, or from 0.8 to 1.25."""

TEMPO_GRID: dict[Speeds, tuple[float, ...]] = {
    "none": (),
    "near": tuple(HOP_SAMPLES / hop for hop in range(235, 267) if hop != HOP_SAMPLES),
    "all": tuple(HOP_SAMPLES / hop for hop in range(200, 314) if hop != HOP_SAMPLES),
}
"""Tempos that are tried besides, at the same pitch and as far: those at which a frame is whole samples after the one
before, 0.4 % apart: the true tempo is within 0.25 % of one of them."""

SCREENED_SECONDS, MAX_EXCERPT_SAMPLES = 10, 4_000_000
"""Seconds that are screened, more than one because codecs leave little in each; fewer where that would exceed
MAX_EXCERPT_SAMPLES, of all channels together."""

MIN_EXCERPT_SECONDS = 1.25
"""Seconds that are screened at least: one whole second of any mark."""

MIN_DIFFERENCE_ENERGY = 1e-4
"""Share of the loudest channel's energy, −40 dB, that must be in some channel and not in the mix to analyse them."""

TINY_ENERGY = 1e-30
"""Least divisor, so that a silent mix does not divide by zero."""


@dataclass(frozen=True)
class Hypothesis:
    """How the mark may lie in the audio: in the mix of all channels (None) or the sum of some, played at a speed, or
    at a tempo without change of pitch."""

    channels: tuple[int, ...] | None = None
    speed: float = 1.0
    tempo: float = 1.0

    def select(self, block: NDArray[np.floating]) -> NDArray[np.floating]:
        """The signals to search in a block `(n, channels)`: its mix `(n, 1)`, or the selected channels."""
        return mix(block)[:, None] if self.channels is None else block[:, self.channels]


ORIGINAL = Hypothesis()
"""The mix as it was made: what is searched first."""


def check_speeds(speeds: str) -> Speeds:
    """The name of a set of speeds, checked.

    Raises:
        IdeawError: there is no such set.
    """
    for known in get_args(Speeds):
        if speeds == known:
            return known  # type: ignore[no-any-return]
    raise IdeawError(f"speeds={speeds!r} is not known; give one of {', '.join(get_args(Speeds))}")


def count_hypotheses(channels: int, speeds: Speeds) -> int:
    """Number of hypotheses: the mix, all channels together and each alone, every speed and tempo."""
    apart = 1 + channels if channels > 1 else 0
    return 1 + apart + len(SPEED_GRID[speeds]) + len(TEMPO_GRID[speeds])


class LoudestExcerpt:
    """The loudest seconds of `(n, channels)` audio that arrives in blocks, from one of its quarter seconds on."""

    def __init__(self, rate: int, seconds: float) -> None:
        self._quarter, self._count = rate // 4, round(4 * seconds)
        self._loose = SampleBuffer()
        self._recent: list[tuple[float, NDArray[Any]]] = []
        """The last quarter seconds, with their energies."""
        self._loudest: list[NDArray[Any]] = []
        self._energy = -1.0

    @property
    def samples(self) -> NDArray[np.floating]:
        """(n, channels), at its own rate; all there are, if these are fewer."""
        pieces = self._loudest or [*(quarter for _, quarter in self._recent), self._loose.get(0, self._loose.end)]
        return np.concatenate([piece for piece in pieces if len(piece)] or [np.empty((0, 1))])

    def tap(self, blocks: Iterable[NDArray[np.floating]]) -> Iterator[NDArray[np.floating]]:
        """The same blocks; the excerpt is collected on the way."""
        for block in blocks:
            self.push(block)
            yield block

    def push(self, block: NDArray[np.floating]) -> None:
        """Go on with `(n, channels)` samples."""
        self._loose.append(block)
        settled = self._loose.pop(len(self._loose) // self._quarter * self._quarter)
        for quarter in settled.reshape(-1, self._quarter, block.shape[1]):
            self._recent = [*self._recent, (float(np.vdot(quarter, quarter)), quarter.copy())][-self._count :]
            energy = sum(energy for energy, _ in self._recent)
            if len(self._recent) == self._count and energy > self._energy:
                self._energy, self._loudest = energy, [samples for _, samples in self._recent]


def excerpt_for(rate: int, channels: int) -> LoudestExcerpt:
    """What collects the excerpt that is screened."""
    seconds = min(SCREENED_SECONDS, MAX_EXCERPT_SAMPLES // (rate * channels))
    return LoudestExcerpt(rate, max(MIN_EXCERPT_SECONDS, seconds))


@dataclass(frozen=True)
class Screening:
    """Screens hypotheses on an excerpt `(n, channels)` at `rate` Hz: which of them deserve a full search."""

    network: Network
    keys: Sequence[KeyChannels]
    excerpt: NDArray[np.floating]
    rate: int
    speeds: Speeds

    def hypotheses(self, apart: bool = True) -> Iterator[Hypothesis]:
        """The hypotheses that deserve a full search, besides the mix at its own speed.

        Args:
            apart: whether channels at their own speed are among them.
        """
        if not self.excerpt.any():
            return
        resampled = soxr.resample(self.excerpt.astype(np.float32), self.rate, SAMPLE_RATE, quality=SOXR_QUALITY)
        differ = differ_from_mix(self.excerpt)
        if apart and differ:
            best, p = self._best_channels(resampled)
            if p < CANDIDATE_P:
                yield Hypothesis(best)
        if self.speeds != "none" and self.network.response is not None:
            channels = tuple(range(self.excerpt.shape[1])) if differ else None
            hypothesis, p = self._best_playback(resampled, channels, self.network.response)
            if hypothesis != Hypothesis(channels) and p < CANDIDATE_P:
                yield hypothesis

    def _best_channels(self, audio: NDArray[np.float32]) -> tuple[tuple[int, ...], float]:
        """The channels of `(n, channels)` at 16 kHz that most likely hold a locating code, all or one, and the p-value.

        Channels are strongly correlated, so this screening does not correct for their number; the detector's
        `TrialCounter` does.
        """
        every = tuple(range(audio.shape[1]))
        features = ChunkFeatures(self.network, audio)
        options = (every, *((channel,) for channel in every))
        log_p = {option: self._least_log_p(features.codes[list(option)].sum(0)) for option in options}
        best = min(options, key=log_p.__getitem__)
        return best, min(1.0, len(self.keys) * math.exp(log_p[best]))

    def _best_playback(
        self, audio: NDArray[np.floating], channels: tuple[int, ...] | None, response: NDArray[np.float32]
    ) -> tuple[Hypothesis, float]:
        """The speed or tempo at which `(n, channels)` at 16 kHz were most likely played, and the p-value of that.

        The original is among them: where a mark fits best as it was made, its neighbours are not worth a search.
        """
        speeds, tempos = (1.0, *SPEED_GRID[self.speeds]), TEMPO_GRID[self.speeds]
        played = [*((speed, 1.0) for speed in speeds), *((1.0, tempo) for tempo in tempos)]
        templates = [code_template(response, keyed.code_stream) for keyed in self.keys]
        spectrum = line_spectrum(Hypothesis(channels).select(audio).astype(np.float32))
        scores = scan_speeds(spectrum, templates, speeds, tempos)
        best = int(scores.max(1).argmax())
        return Hypothesis(channels, *played[best]), accident_p(float(scores.max()), scores.size)

    def _least_log_p(self, stream: NDArray[np.float32]) -> float:
        """The least `log_p` of any key's locating code in (hops, freq_tiles) of a stream."""
        tracks = (track for channels in self.keys for track in find_tracks(stream, channels))
        return min((track.log_p for track in tracks), default=0.0)


def differ_from_mix(audio: NDArray[np.floating]) -> bool:
    """Whether any of `(n, channels)` holds what their mix does not."""
    if audio.shape[1] == 1:
        return False
    mixed = mix(audio)
    energy, shared = np.square(audio.T).sum(-1), np.square(mixed @ audio) / max(float(mixed @ mixed), TINY_ENERGY)
    return bool((energy - shared > MIN_DIFFERENCE_ENERGY * energy.max()).any())
