"""Other speeds, tempos and pitches, tried on an excerpt: tiles shorter or longer, bands higher or lower.

Playing audio faster moves both; changing its tempo or its pitch moves one of them. A hypothesis is a pair of the two.
Evidence is measured once in bands at each pitch of a grid, and read at the places where each tempo puts the tiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import log

import numpy as np
from numpy.typing import NDArray

from ideaw.deep.bands import NUM_MEL_BANDS, measuring_bands
from ideaw.deep.decode import fold
from ideaw.deep.evidence import evidence, linear_evidence
from ideaw.deep.signs import PERIOD_TILES, TILE_CELLS

TEMPO_RATIO = 1.006
"""Ratio of neighbouring tempos of the grid: over 20 s a tile is displaced by 30 ms at most, at both ends."""

TEMPO_REFINEMENTS = (0.9976, 0.9988, 1.0, 1.0012, 1.0024)
"""Factors that are tried around a tempo of the grid that deserves it."""

TEMPO_STEPS = {"none": 0, "near": 10, "all": 37}
"""Name of a set of speeds → steps of the grid on either side: up to 6 %, and from 0.8 to 1.25."""

SAME_PITCH_STEPS = 5
"""Steps within which tempo and speed need not be told apart: bands are displaced by an eighth at most."""

QUARTERTONE = 2 ** (1 / 24)
"""Ratio of neighbouring pitches of the grid: bands are displaced by an eighth at most."""

PITCH_QUARTERTONES = (-4, -3, -2, -1, 1, 2, 3, 4)
"""Pitches at the original tempo, in quarter tones."""

EXCERPT_SECONDS = 20
"""Seconds that are searched."""


@dataclass(frozen=True)
class Playback:
    """How the audio was played: so many times as fast, and so many quarter tones higher."""

    tempo: float = 1.0
    quartertones: int = 0

    @property
    def keeps_pitch(self) -> bool:
        """Whether the tempo alone was changed, by so much that it can be told from a change of speed."""
        return self.quartertones == 0 and _quartertones_of(self.tempo) != 0


@cache
def playbacks(speeds: str) -> tuple[Playback, ...]:
    """All that are tried besides the original, without refinements."""
    tried = []
    for step in range(-TEMPO_STEPS[speeds], TEMPO_STEPS[speeds] + 1):
        tempo = TEMPO_RATIO**step
        played = Playback(tempo, _quartertones_of(tempo))
        if 0 < abs(step) <= SAME_PITCH_STEPS:
            tried.append(played)
        elif step:
            tried += [played, Playback(tempo)]
    if speeds != "none":
        tried += [Playback(1.0, quartertones) for quartertones in PITCH_QUARTERTONES]
    return tuple(tried)


def _quartertones_of(speed: float) -> int:
    """By how much audio is higher that is played so many times as fast."""
    return round(log(speed) / log(QUARTERTONE))


def count_playbacks(speeds: str) -> int:
    """Number of all that could be tested: the audio decides which are."""
    return len(playbacks(speeds)) * len(TEMPO_REFINEMENTS)


class PlayedExcerpt:
    """Evidence of an excerpt under any playback; its middle is where tempos agree.

    Args:
        power: (frames, CELL_BINS) of the excerpt.
    """

    def __init__(self, power: NDArray[np.float32]) -> None:
        self._power = power
        self._middle = len(power) // 2
        self._evidence: dict[tuple[int, bool], NDArray[np.float32]] = {}
        self._folded: dict[tuple[Playback, bool], NDArray[np.float32]] = {}

    def tiles(self, tried: Sequence[Playback], phases: Sequence[int]) -> NDArray[np.float32]:
        """(PERIOD_TILES, NUM_MEL_BANDS, playbacks · phases) folded evidence of tiles centred on frames 5 · n + phase,
        to the nearest frame."""
        return np.concatenate([self._tiles(playback, np.array(phases)) for playback in tried], -1)

    def folded(self, playback: Playback, linear: bool = False) -> NDArray[np.float32]:
        """(PERIOD_CELLS, NUM_MEL_BANDS) folded evidence, or linear evidence, at every frame, linear between two."""
        if (playback, linear) not in self._folded:
            self._folded[playback, linear] = self._at_tempo(self._at_pitch(playback.quartertones, linear), playback)
        return self._folded[playback, linear]

    def _at_tempo(self, values: NDArray[np.float32], playback: Playback) -> NDArray[np.float32]:
        first, stop = self._span(playback.tempo)
        moments = self._middle + (np.arange(first, stop) - self._middle) / playback.tempo
        left = np.clip(moments.astype(np.int64), 0, len(values) - 2)
        share = np.clip(moments - left, 0, 1)[:, None].astype(np.float32)
        return fold(values[left] * (1 - share) + values[left + 1] * share, first)

    def _tiles(self, playback: Playback, phases: NDArray[np.int64]) -> NDArray[np.float32]:
        values = self._at_pitch(playback.quartertones, linear=True)
        first, stop = self._span(playback.tempo)
        start = first // TILE_CELLS // PERIOD_TILES * PERIOD_TILES
        periods = -(-(stop - start * TILE_CELLS) // (PERIOD_TILES * TILE_CELLS))
        numbers = start + np.arange(periods * PERIOD_TILES)
        moments = self._middle + (numbers[:, None] * TILE_CELLS + phases - self._middle) / playback.tempo
        nearest = np.rint(moments).astype(np.int64)
        nearest[(nearest < 0) | (nearest >= len(values))] = len(values)  # where there is nothing
        read = np.concatenate([values, np.zeros((1, NUM_MEL_BANDS), np.float32)])[nearest]
        summed = read.reshape(periods, PERIOD_TILES, len(phases), NUM_MEL_BANDS).sum(0)
        return np.asarray(summed.swapaxes(1, 2))

    def _span(self, tempo: float) -> tuple[int, int]:
        """First frame, and that after the last, at the original tempo."""
        frames = len(self._power)
        return self._middle - int(self._middle * tempo), self._middle + int((frames - 1 - self._middle) * tempo) + 1

    def _at_pitch(self, quartertones: int, linear: bool) -> NDArray[np.float32]:
        """(frames, NUM_MEL_BANDS) evidence in bands at a pitch."""
        if (quartertones, linear) not in self._evidence:
            power = self._power @ measuring_bands(QUARTERTONE**quartertones)
            self._evidence[quartertones, linear] = linear_evidence(power) if linear else evidence(power)
        return self._evidence[quartertones, linear]
