"""Hypotheses besides the mix at its own speed: channels searched apart, and audio played faster or slower.

A full search under every hypothesis would cost minutes. They are therefore screened on an excerpt, the loudest seconds:
only a hypothesis under which the excerpt shows a locating code is searched in full.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio.blocks import SOXR_QUALITY, SampleBuffer, mix
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.engine.correlate import find_tracks
from ideaw.engine.features import ChunkFeatures
from ideaw.engine.network import Network
from ideaw.engine.significance import CANDIDATE_P
from ideaw.errors import IdeawError
from ideaw.modem.channel import KeyChannels

Speeds = Literal["none", "near", "all"]

SPEED_RATIO = 1.008
"""Ratio of neighbouring speeds: a faint mark under few, pure tones is found up to 0.4 % off its true speed, one under
noise and speech up to 1 % (E70)."""

SPEED_GRID: dict[Speeds, tuple[float, ...]] = {
    "none": (),
    "near": tuple(SPEED_RATIO**k for k in range(-8, 8) if k),
    "all": tuple(SPEED_RATIO**k for k in range(-28, 29) if k),
}
"""Speeds that are tried where nothing was found: within 6 %, or from 0.8 to 1.25."""

SPEED_REFINEMENTS = tuple(1 + k / 500 for k in (-6, -5, -3, -2, -1, 1, 2, 3, 5, 6))
"""Factors that are tried around the best speed of the grid, besides its neighbours: evidence peaks within 0.2 % of the
true speed and then falls to a plateau, on which the next speed but one may look better than the nearest."""

SPEED_EXCERPT_SECONDS = 1.25
"""Seconds that are analysed at every speed: at least one whole second of any mark."""

CHANNEL_EXCERPT_SECONDS, MAX_EXCERPT_SAMPLES = 10, 4_000_000
"""Seconds whose channels are analysed apart, more than one because codecs leave little in each; fewer where that would
exceed MAX_EXCERPT_SAMPLES, of all channels together."""

MIN_DIFFERENCE_ENERGY = 1e-4
"""Share of the loudest channel's energy, −40 dB, that must be in some channel and not in the mix to analyse them."""

TINY_ENERGY = 1e-30
"""Least divisor, so that a silent mix does not divide by zero."""


@dataclass(frozen=True)
class Hypothesis:
    """How the mark may lie in the audio: in the mix of all channels (None) or the sum of some, played at a speed."""

    channels: tuple[int, ...] | None = None
    speed: float = 1.0

    def select(self, block: NDArray[np.floating]) -> NDArray[np.floating]:
        """The signals to search in a block `(n, channels)`: its mix `(n, 1)`, or the selected channels."""
        return mix(block)[:, None] if self.channels is None else block[:, self.channels]


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
    """Number of hypotheses: the mix, all channels together and each alone, and every speed with its refinements."""
    apart = 1 + channels if channels > 1 else 0
    return 1 + apart + len(SPEED_GRID[speeds]) * (1 + len(SPEED_REFINEMENTS))


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
    """What collects an excerpt that is long enough to analyse channels apart."""
    seconds = min(CHANNEL_EXCERPT_SECONDS, MAX_EXCERPT_SAMPLES // (rate * channels))
    return LoudestExcerpt(rate, max(SPEED_EXCERPT_SECONDS, seconds))


@dataclass(frozen=True)
class Screening:
    """Screens hypotheses on an excerpt `(n, channels)` at `rate` Hz: which of them deserve a full search."""

    network: Network
    keys: Sequence[KeyChannels]
    excerpt: NDArray[np.floating]
    rate: int
    speeds: Speeds

    def hypotheses(self) -> Iterator[Hypothesis]:
        """The hypotheses that deserve a full search, besides the mix at its own speed."""
        if not self.excerpt.any():
            return
        apart = differ_from_mix(self.excerpt)
        if apart:
            best, p = self._best_channels()
            if p < CANDIDATE_P:
                yield Hypothesis(best)
        if self.speeds != "none":
            channels = tuple(range(self.excerpt.shape[1])) if apart else None
            speed, p = self._best_speed(Hypothesis(channels).select(self.excerpt))
            if p < CANDIDATE_P:
                yield Hypothesis(channels, speed)

    def _best_channels(self) -> tuple[tuple[int, ...], float]:
        """The channels that most likely hold a locating code, all or one, and the p-value of that.

        Channels are strongly correlated, so this screening does not correct for their number; the detector's
        `TrialCounter` does.
        """
        every = tuple(range(self.excerpt.shape[1]))
        features = ChunkFeatures(self.network, self._at_speed(self.excerpt))
        options = (every, *((channel,) for channel in every))
        log_p = {option: self._least_log_p(features.codes[list(option)].sum(0)) for option in options}
        best = min(options, key=log_p.__getitem__)
        return best, self._probability(log_p[best])

    def _best_speed(self, audio: NDArray[np.floating]) -> tuple[float, float]:
        """The speed at which `(n, channels)` were most likely played, and the p-value of that."""
        loudest = LoudestExcerpt(self.rate, SPEED_EXCERPT_SECONDS)
        loudest.push(audio)
        log_p = self._log_p_at(SPEED_GRID[self.speeds], loudest.samples)
        coarse = min(log_p, key=log_p.__getitem__)
        if self._probability(log_p[coarse], len(log_p)) < 1:
            log_p |= self._log_p_at([coarse * factor for factor in SPEED_REFINEMENTS], loudest.samples)
        best = min(log_p, key=log_p.__getitem__)
        return best, self._probability(log_p[best], len(log_p))

    def _log_p_at(self, speeds: Sequence[float], audio: NDArray[np.floating]) -> dict[float, float]:
        """The least `log_p` of `(n, channels)` at each speed; they are heard side by side, as if they were channels."""
        versions = [self._at_speed(audio, speed) for speed in speeds]
        longest = max(map(len, versions))
        together = np.concatenate([np.pad(played, ((0, longest - len(played)), (0, 0))) for played in versions], 1)
        codes = ChunkFeatures(self.network, together).codes
        streams = codes.reshape(len(versions), -1, *codes.shape[1:]).sum(1)
        return dict(zip(speeds, map(self._least_log_p, streams), strict=True))

    def _at_speed(self, audio: NDArray[np.floating], speed: float = 1.0) -> NDArray[np.float32]:
        """`(n, channels)` resampled to 16 kHz with a playback speed of `speed` undone."""
        resampled = soxr.resample(audio.astype(np.float32), self.rate / speed, SAMPLE_RATE, quality=SOXR_QUALITY)
        return np.asarray(resampled)

    def _least_log_p(self, stream: NDArray[np.float32]) -> float:
        """The least `log_p` of any key's locating code in (hops, freq_tiles) of a stream."""
        tracks = (track for channels in self.keys for track in find_tracks(stream, channels))
        return min((track.log_p for track in tracks), default=0.0)

    def _probability(self, log_p: float, tried: int = 1) -> float:
        """Union bound over the keys and the number of attempts `tried`."""
        return min(1.0, tried * len(self.keys) * math.exp(log_p))


def differ_from_mix(audio: NDArray[np.floating]) -> bool:
    """Whether any of `(n, channels)` holds what their mix does not."""
    if audio.shape[1] == 1:
        return False
    mixed = mix(audio)
    energy, shared = np.square(audio.T).sum(-1), np.square(mixed @ audio) / max(float(mixed @ mixed), TINY_ENERGY)
    return bool((energy - shared > MIN_DIFFERENCE_ENERGY * energy.max()).any())
