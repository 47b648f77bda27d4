"""Other speeds, tempos and pitches, tried on an excerpt: tiles shorter or longer, bands higher or lower.

Playing audio faster moves both; changing its tempo or its pitch moves one of them. A hypothesis is a pair of the two.
Evidence is measured in bands at the pitch and then stretched to the tempo.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ideaw.deep.bands import measuring_bands
from ideaw.deep.evidence import evidence

TEMPO_RATIO = 1.005
"""Ratio of neighbouring tempos of the grid: over an excerpt of 20 s a tile is displaced by half of itself at most."""

TEMPO_REFINEMENTS = (0.9985, 1.0, 1.0015)
"""Factors that are tried around the best tempo of the grid."""

TEMPO_STEPS = {"none": 0, "near": 12, "all": 44}
"""Name of a set of speeds → steps of the grid on either side: up to 6 %, and from 0.8 to 1.25."""

SAME_PITCH_STEPS = 4
"""Steps within which tempo and speed need not be told apart: bands are displaced by a tenth at most."""

PITCH_QUARTERTONES = (-4, -3, -2, -1, 1, 2, 3, 4)
"""Pitches at the original tempo, in quarter tones."""

EXCERPT_SECONDS = 20
"""Seconds that are searched."""


@dataclass(frozen=True)
class Playback:
    """How the audio was played: so many times as fast, and as high."""

    tempo: float = 1.0
    pitch: float = 1.0


@cache
def playbacks(speeds: str) -> tuple[Playback, ...]:
    """All that are tried besides the original, without refinements."""
    tried = []
    for step in range(-TEMPO_STEPS[speeds], TEMPO_STEPS[speeds] + 1):
        tempo = TEMPO_RATIO**step
        if 0 < abs(step) <= SAME_PITCH_STEPS:
            tried.append(Playback(tempo, tempo**0.5))
        elif step:
            tried += [Playback(tempo, tempo), Playback(tempo, 1.0)]
    if speeds != "none":
        tried += [Playback(1.0, 2 ** (quarters / 24)) for quarters in PITCH_QUARTERTONES]
    return tuple(tried)


def count_playbacks(speeds: str) -> int:
    """Number of all that could be tried, with refinements: the audio decides which are."""
    return len(playbacks(speeds)) * (1 + len(TEMPO_REFINEMENTS))


def evidence_of(
    power: NDArray[np.float32], tried: tuple[Playback, ...]
) -> Iterator[tuple[Playback, NDArray[np.float32]]]:
    """Evidence (frames at the original tempo, bands) under each playback, of powers (frames, CELL_BINS)."""
    by_pitch: dict[float, NDArray[np.float32]] = {}
    for playback in tried:
        if playback.pitch not in by_pitch:
            by_pitch = {playback.pitch: evidence(power @ measuring_bands(playback.pitch))}
        yield playback, _at_tempo(by_pitch[playback.pitch], playback.tempo)


def _at_tempo(values: NDArray[np.float32], tempo: float) -> NDArray[np.float32]:
    """(frames, bands) of audio played `tempo` times as fast, at the frames that they had before; linear between two."""
    moments = np.arange(int((len(values) - 1) * tempo)) / tempo
    left = moments.astype(np.int64)
    share = (moments - left)[:, None].astype(np.float32)
    return np.asarray(values[left] * (1 - share) + values[np.minimum(left + 1, len(values) - 1)] * share)
