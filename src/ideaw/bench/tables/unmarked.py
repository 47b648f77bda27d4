"""False alarms: audio without marks, as it is and attacked, searched for the marks of many keys.

That a mark counts as found at one chance in a million cannot be seen in as many files. What can be seen is that
p-values are honest as far down as there are searches: no more than one in ten is below 0.1, one in a hundred below
0.01, and so on. Below that the bound (Hoeffding's) is calculated; `checked_to` says where that begins.
"""

import heapq
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ideaw.attacks import catalogue
from ideaw.audio.buffer import Progress
from ideaw.audio.clips import clips_under
from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.bench.statistics import wilson
from ideaw.detector import HOURS, SURE
from ideaw.errors import FileError
from ideaw.keys import PUBLIC, Key
from ideaw.marker import load

KEYS = 7
"""Random keys that are looked for besides the public one, fresh ones for every clip."""

LEVELS = tuple(10.0**-k for k in range(1, 7))
"""p-values of which the share below is counted."""

EXPECTED = 10
"""Searches below a level that chance alone allows for, from which on the level counts as checked."""

SMALLEST = 5
"""p-values that are kept."""

ATTACKS = tuple(name for name in catalogue.ATTACKS if name != "overmark")
"""Of which one, at random, is made on each clip; the one that marks is left out."""


@dataclass(frozen=True)
class Level:
    """How many searches gave a p-value below one; `interval` is of 95 %, in shares."""

    p_value: float
    below: int
    share: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Table:
    """What `ideaw bench unmarked` measured."""

    model: str
    clips: int
    searches: int
    """Each for all keys at once."""
    keys: int
    hours: float
    """Of audio that were searched."""
    found: int
    messages: list[str]
    """What was found, if anything was."""
    highest: float
    """The highest chance of a false alarm in one search that fits what was seen, at 95 %."""
    allowed: float
    """What is promised for a file …"""
    allowed_hours: int
    """… and the hours in which one is allowed."""
    checked_to: float | None
    """The lowest level at which shares were seen often enough to be checked; below, they are calculated."""
    levels: list[Level]
    smallest: list[float]


def run(
    data: Path,
    model: str | None = None,
    hours: float | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> Table:
    """Search the audio files under `data`, those in tar packs too, and an attacked copy of each; at most `hours`."""
    marker = load(model)
    p_values: list[float] = []
    messages: list[str] = []
    clips, seconds = 0, 0.0
    for number, (_, clip) in enumerate(clips_under(data)):
        if hours is not None and seconds >= 3600 * hours:
            break
        if len(clip) < 2 * SEGMENT_SAMPLES or not clip.any():
            continue
        rng = np.random.default_rng([seed, number])
        keys = [PUBLIC, *(Key(rng.bytes(16)) for _ in range(KEYS))]
        plain = clip.astype(np.float32) / 32768
        attack = str(rng.choice(ATTACKS))
        for audio in (plain, catalogue.run(attack, plain, SAMPLE_RATE, int(rng.integers(1 << 31)))):
            answer = marker.detect(audio, SAMPLE_RATE, keys=keys)
            p_values.append(answer.p_value)
            messages += [str(answer)] if answer.found else []
            seconds += len(audio) / SAMPLE_RATE
        clips += 1
        if progress and hours is not None:
            progress(min(1.0, seconds / 3600 / hours))
    if not clips:
        raise FileError(f"{data} holds no audio files of two seconds or more, and no tar packs of them")
    levels = [_level(level, p_values) for level in LEVELS]
    return Table(
        marker.card.name,
        clips,
        len(p_values),
        1 + KEYS,
        seconds / 3600,
        len(messages),
        messages,
        wilson(len(messages), len(p_values))[1],
        SURE,
        HOURS,
        min((level for level in LEVELS if level * len(p_values) >= EXPECTED), default=None),
        levels,
        heapq.nsmallest(SMALLEST, p_values),
    )


def _level(level: float, p_values: list[float]) -> Level:
    below, searches = sum(p < level for p in p_values), len(p_values)
    return Level(level, below, below / searches, wilson(below, searches))
