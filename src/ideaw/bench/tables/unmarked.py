"""False alarms: audio without marks, as it is and attacked, searched for the marks of many keys.

A significance level of one in a million cannot be checked on as many files. What can be checked is that p-values are
conservative as far down as there are searches: at most one in ten is below 0.1, one in a hundred below 0.01, and so
on. Below that the bound is calculated; `checked_to` says where that begins.
"""

import heapq
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ideaw.attacks import catalogue
from ideaw.audio.blocks import Progress
from ideaw.audio.clips import clips_under
from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.bench.statistics import wilson_interval
from ideaw.engine.significance import FALSE_ALARM_HOURS, FILE_P
from ideaw.errors import FileError
from ideaw.keys import PUBLIC, Key
from ideaw.marker import load

NUM_RANDOM_KEYS = 7
"""Random keys that are looked for besides the public one, fresh ones for every clip."""

P_LEVELS = tuple(10.0**-k for k in range(1, 7))
"""p-values of which the share below is counted."""

MIN_EXPECTED_BELOW = 10
"""Expected number of searches below a level by chance from which on the level counts as checked."""

NUM_SMALLEST = 5
"""Number of smallest p-values that are reported."""

UNMARKED_ATTACKS = tuple(name for name in catalogue.ATTACKS if name not in {"overmark"} | catalogue.OTHERS_PARTS)
"""Attacks of which one, at random, is applied to each clip; the one that marks is left out."""


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
    """Number of searches, each for all keys at once."""
    keys: int
    hours: float
    """Hours of audio that were searched."""
    found: int
    messages: list[str]
    """The false alarms, as text."""
    highest: float
    """The highest chance of a false alarm in one search that fits what was seen, at 95 %."""
    allowed: float
    """Bound on the false-alarm rate of a file (FILE_P) …"""
    allowed_hours: int
    """… and hours of audio in which one false alarm is allowed (FALSE_ALARM_HOURS)."""
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
    """Search the audio files under `data`, those in tar packs too, and an attacked copy of each.

    Args:
        data: A folder of audio files or tar packs.
        model: A packaged model or a model folder; None for the default.
        hours: Stop after so many hours of audio.
        progress: Called with the share that is done, where `hours` is given.
        seed: Of keys and attacks.
    """
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
        keys = [PUBLIC, *(Key(rng.bytes(16)) for _ in range(NUM_RANDOM_KEYS))]
        plain = clip.astype(np.float32) / 32768
        attack = str(rng.choice(UNMARKED_ATTACKS))
        for audio in (plain, catalogue.run(attack, plain, SAMPLE_RATE, int(rng.integers(1 << 31)))):
            detection = marker.detect(audio, SAMPLE_RATE, keys=keys)
            p_values.append(detection.p_value)
            messages += [str(detection)] if detection.found else []
            seconds += len(audio) / SAMPLE_RATE
        clips += 1
        if progress and hours is not None:
            progress(min(1.0, seconds / 3600 / hours))
    if not clips:
        raise FileError(f"{data} holds no audio files of two seconds or more, and no tar packs of them")
    levels = [_level(level, p_values) for level in P_LEVELS]
    return Table(
        marker.card.name,
        clips,
        len(p_values),
        1 + NUM_RANDOM_KEYS,
        seconds / 3600,
        len(messages),
        messages,
        wilson_interval(len(messages), len(p_values))[1],
        FILE_P,
        FALSE_ALARM_HOURS,
        min((level for level in P_LEVELS if level * len(p_values) >= MIN_EXPECTED_BELOW), default=None),
        levels,
        heapq.nsmallest(NUM_SMALLEST, p_values),
    )


def _level(level: float, p_values: list[float]) -> Level:
    below, searches = sum(p < level for p in p_values), len(p_values)
    return Level(level, below, below / searches, wilson_interval(below, searches))
