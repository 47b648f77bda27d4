"""Whole clips: marked with a text, attacked as files are, searched as users search them.

Every file gives one stereo clip at 44.1 kHz. What counts is the message, exactly right or not, and how often a wrong
one is given. Clips in which only a stretch is marked tell how well its borders are found.
"""

import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.audio.buffer import Progress
from ideaw.audio.resample import mix
from ideaw.bench.corpus import QUIETEST, paths_under
from ideaw.bench.protocols import system
from ideaw.bench.statistics import wilson
from ideaw.bench.tables.segments import CLEAN
from ideaw.errors import FileError
from ideaw.keys import PUBLIC, Key
from ideaw.marker import Given, Marker, load
from ideaw.results import Detection, Segment

RATE = 44_100
"""Of the clips, in Hz."""

LETTERS, LONG_LETTERS = 4, 20
"""Of the texts."""

SHORT_MESSAGE = (1, 0, 1)
"""What is embedded where a text does not fit, or does not matter."""

STRETCHES = (1.0, 3.0, 5.0)
"""Seconds of which a clip is marked where places are looked for."""

Samples = NDArray[np.float32]
Edit = Callable[[Samples, int], Samples]
"""(n, 2) samples and a seed → what is searched."""


def _attack(name: str, **strengths: float) -> Edit:
    return lambda samples, seed: catalogue.run(name, samples, RATE, seed, **strengths)


def _cut(seconds: float, samples: Samples, seed: int) -> Samples:
    return catalogue.run("crop", samples, RATE, seed, keep=min(1.0, seconds * RATE / len(samples)))


EDITS: dict[str, Edit] = {
    CLEAN: lambda samples, seed: samples,
    **{catalogue.ATTACKS[name].label: _attack(name) for name in catalogue.PAPER},
    "cut to 5 s": partial(_cut, 5.0),
    "cut to 3 s": partial(_cut, 3.0),
    "polarity": _attack("polarity"),
    "left as mono": lambda samples, seed: samples[:, :1],
    "left, right silent": lambda samples, seed: samples * np.array([1, 0], np.float32),
    "mono mix": lambda samples, seed: mix(samples)[:, None],
    "speed 95 %": _attack("speed", factor=0.95),
    "speed 105 %": _attack("speed", factor=1.05),
    "AAC 64": _attack("aac", kbps=64),
    "Ogg 64": _attack("vorbis", quality=0.05),
    "Opus 48": _attack("opus", kbps=24),
}
"""What happens to marked clips; bitrates are those of both channels."""

LONG_EDITS = (CLEAN, "CP")
"""What happens to clips with a long text."""


@dataclass(frozen=True)
class Row:
    """One edit: of how many clips the message came back right, and of how many another one; intervals of 95 %."""

    label: str
    clips: int
    right: int
    wrong: int
    right_interval: tuple[float, float]
    wrong_interval: tuple[float, float]


@dataclass(frozen=True)
class Place:
    """Clips of which so many seconds are marked: intersection over union of what was found, on average."""

    seconds: float
    clips: int
    found: int
    """In how many the mark was found at all."""
    overlap: float


@dataclass(frozen=True)
class Table:
    """What `ideaw bench files` measured."""

    model: str
    snr: float
    clips: int
    seconds: float
    rows: list[Row]
    places: list[Place]


def run(
    data: Path,
    model: str | None = None,
    snr: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    seed: int = 0,
    seconds: float = 10.0,
) -> Table:
    """Mark one clip of every file under `data` (at most `limit`, evenly chosen), edit it, search it."""
    marker = load(model)
    outcomes: dict[str, list[tuple[bool, bool]]] = {}
    overlaps: dict[float, list[tuple[bool, float]]] = {}
    paths = paths_under(data, limit)
    clips = 0
    for number, path in enumerate(paths):
        clip = clip_of(path, seconds)
        if np.sqrt(np.square(clip, dtype=np.float64).mean()) > QUIETEST:
            rng = np.random.default_rng([seed, number])
            # How well two marks bear each other depends on their keys, so every clip has its own.
            key = Key(np.random.default_rng([seed, number, 1]).bytes(16))
            for label, right, wrong in _outcomes(marker, load(model, key=key), key, clip, snr, rng):
                outcomes.setdefault(label, []).append((right, wrong))
            for length in STRETCHES:
                if length < seconds:
                    overlaps.setdefault(length, []).append(_placed(marker, clip, length, snr, rng))
            clips += 1
        if progress:
            progress((number + 1) / len(paths))
    if not clips:
        raise FileError(f"{data} holds no audio file above −40 dBFS")
    return Table(
        marker.card.name,
        marker.card.snr if snr is None else snr,
        clips,
        seconds,
        [_row(label, counted) for label, counted in outcomes.items()],
        [_place(length, counted) for length, counted in overlaps.items()],
    )


def clip_of(path: Path, seconds: float) -> Samples:
    """(n, 2) at 44.1 kHz: the beginning of a file, again and again if it is short; real stereo of mono."""
    return system.clip_of(path, seconds, RATE, channels=2)


def overlap(found: Sequence[Segment], begin: float, end: float, seconds: float) -> float:
    """Intersection over union of the found segments and the stretch from `begin` to `end`, to a millisecond."""
    times = np.arange(0, seconds, 1e-3)
    told = np.zeros(len(times), bool)
    for segment in found:
        told |= (times >= segment.start) & (times < segment.end)
    true = (times >= begin) & (times < end)
    return float((told & true).sum() / (told | true).sum())


def _outcomes(
    marker: Marker, second: Marker, key: Key, clip: Samples, snr: float | None, rng: np.random.Generator
) -> Iterator[tuple[str, bool, bool]]:
    """Label, message right, message wrong: of everything that is done to one clip. `second` marks with `key`."""
    room = marker.capacity(len(clip) / RATE)
    text = _text(LETTERS, rng) if room >= LETTERS else SHORT_MESSAGE
    marked, seed = marker.embed(clip, RATE, text, snr=snr), int(rng.integers(1 << 31))
    for label, edit in EDITS.items():
        yield label, *_judged(marker.detect(edit(marked, seed), RATE), text)
    if room >= LONG_LETTERS:
        long = _text(LONG_LETTERS, rng)
        spread = marker.embed(clip, RATE, long, snr=snr)
        for label in LONG_EDITS:
            yield f"{LONG_LETTERS} letters, {label}", *_judged(marker.detect(EDITS[label](spread, seed), RATE), long)
    other = _text(LETTERS, rng) if room >= LETTERS else (0, 1, 1)
    twice = second.embed(marked, RATE, other, snr=snr)
    yield "marked twice, first key", *_judged(marker.detect(twice, RATE), text)
    yield "marked twice, second key", *_judged(second.detect(twice, RATE), other)
    both = marker.detect(twice, RATE, keys=[PUBLIC, key])
    said = {segment.message for segment in both.segments if segment.message is not None}
    yield "marked twice, both keys", said == {text, other}, not said <= {text, other}


def _text(letters: int, rng: np.random.Generator) -> str:
    return "".join(rng.choice(list(string.ascii_lowercase), letters))


def _judged(answer: Detection, message: Given) -> tuple[bool, bool]:
    """Whether an answer is the right message, and whether it is a wrong one."""
    return answer.found and answer.message == message, answer.found and answer.message != message


def _placed(
    marker: Marker, clip: Samples, length: float, snr: float | None, rng: np.random.Generator
) -> tuple[bool, float]:
    """Whether a mark in one stretch of a clip is found, and how well its borders are; silence is not marked."""
    size, step = round(length * RATE), RATE // 10
    power = np.concatenate([[0.0], np.cumsum(np.square(clip, dtype=np.float64).mean(1))])
    starts = np.arange(0, len(clip) - size + 1, step)
    loud = (power[starts + size] - power[starts]) / size
    begin = int(rng.choice(starts[loud >= min(QUIETEST**2, float(loud.max()))]))
    partly = clip.copy()
    partly[begin : begin + size] = marker.embed(clip[begin : begin + size], RATE, SHORT_MESSAGE, snr=snr)
    answer = marker.detect(partly, RATE)
    return answer.found, overlap(answer.segments, begin / RATE, begin / RATE + length, len(clip) / RATE)


def _row(label: str, counted: list[tuple[bool, bool]]) -> Row:
    right, wrong = (sum(kind) for kind in zip(*counted, strict=True))
    clips = len(counted)
    return Row(label, clips, right, wrong, wilson(right, clips), wilson(wrong, clips))


def _place(length: float, counted: list[tuple[bool, float]]) -> Place:
    found, overlaps = zip(*counted, strict=True)
    return Place(length, len(counted), sum(found), float(np.mean(overlaps)))
