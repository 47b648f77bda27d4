"""Whole clips: marked with a text, attacked as files are, searched as users search them.

Every file gives one stereo clip at 44.1 kHz. What counts is the message, exactly right or not, and how often a wrong
one is given. Clips in which only a stretch is marked tell how well its borders are found.
"""

import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from ideaw.attacks import catalogue
from ideaw.audio.blocks import Progress, mix
from ideaw.bench import corpus
from ideaw.bench.corpus import MIN_RMS, SHORT_MESSAGE, Samples, is_loud, list_audio_files
from ideaw.bench.processes import map_processes
from ideaw.bench.statistics import wilson_interval
from ideaw.bench.tables.segments import CLEAN
from ideaw.engine.gain import MarkLevel, check_level
from ideaw.engine.network import available_cores
from ideaw.errors import FileError
from ideaw.keys import PUBLIC, Key
from ideaw.layers import FAST_ALONE, Layer, LayersLike, check_layers
from ideaw.marker import Marker, load
from ideaw.payload.message import MessageLike
from ideaw.results import Detection, Segment

CLIP_RATE = 44_100
"""Sampling rate of the clips in Hz."""

SHORT_TEXT_LETTERS, LONG_TEXT_LETTERS = 4, 20
"""Lengths of the two texts."""

MARKED_SECONDS = (1.0, 3.0, 5.0)
"""Lengths in seconds of the marked stretches whose borders are located."""

Edit = Callable[[Samples, int], Samples]
"""(n, 2) samples and a seed → what is searched."""


def _attack(name: str, **strengths: float) -> Edit:
    return lambda samples, seed: catalogue.run(name, samples, CLIP_RATE, seed, **strengths)


def _cut(seconds: float, samples: Samples, seed: int) -> Samples:
    return catalogue.run("crop", samples, CLIP_RATE, seed, keep=min(1.0, seconds * CLIP_RATE / len(samples)))


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
    "MP3 48": _attack("mp3", kbps=48),
    "MP3 32": _attack("mp3", kbps=32),
    "AAC 64": _attack("aac", kbps=64),
    "AAC 48": _attack("aac", kbps=48),
    "AAC 32": _attack("aac", kbps=32),
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
    """Number of clips in which the mark was found at all."""
    overlap: float


@dataclass(frozen=True)
class Table:
    """What `ideaw bench files` measured."""

    model: str
    snr: float | None
    """In dB, that every second keeps at least; None: the level is set by hearing."""
    clips: int
    seconds: float
    rows: list[Row]
    places: list[Place]
    audibility: float | None = None
    """Noise to mask in dB, where the level is set by hearing."""


def run(
    data: Path,
    model: str | None = None,
    snr: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    seed: int = 0,
    seconds: float = 10.0,
    audibility: float | None = None,
    layers: LayersLike = FAST_ALONE,
) -> Table:
    """Mark one clip of every file under `data`, edit it, search it.

    Args:
        data: A folder of audio files.
        model: A packaged model or a model folder; None for the default.
        snr: In dB, that every second keeps at least, instead of the audibility.
        limit: At most so many files, evenly spaced.
        progress: Called with the share that is done.
        seed: Of messages, keys and edits.
        seconds: Of each clip.
        audibility: Noise to mask in dB that hearing sets the level to; None for what the model's card says.
        layers: Of the marks that are written and looked for.

    Raises:
        FileError: No file is loud enough.
    """
    card, wanted = load(model).card, check_layers(layers)
    paths, level = list_audio_files(data, limit), check_level(snr, audibility, card.audibility)
    tasks = list(enumerate(paths))
    workers = available_cores()
    measured = map_processes(
        _initialise, (model, level, seed, seconds, wanted), _measure_clip, tasks, workers, progress
    )
    trials = [trial for _, trial in sorted(measured, key=itemgetter(0)) if trial is not None]
    if not trials:
        raise FileError(f"{data} holds no audio file above −40 dBFS")
    outcomes: dict[str, list[tuple[bool, bool]]] = {}
    overlaps: dict[float, list[tuple[bool, float]]] = {}
    for edits, stretches in trials:
        for label, right, wrong in edits:
            outcomes.setdefault(label, []).append((right, wrong))
        for length, found, shared in stretches:
            overlaps.setdefault(length, []).append((found, shared))
    return Table(
        card.name,
        level[0],
        len(trials),
        seconds,
        [_row(label, judged) for label, judged in outcomes.items()],
        [_place(length, located) for length, located in overlaps.items()],
        level[1],
    )


Trial = tuple[list[tuple[str, bool, bool]], list[tuple[float, bool, float]]]
"""What became of one clip: by edit, message right and message wrong; by marked stretch, found and overlap."""

_running: tuple[str | None, Marker, MarkLevel, int, float, tuple[Layer, ...]]
"""Model, its marker, level, seed, seconds of the clips and layers of the marks that this process works on."""


def _initialise(model: str | None, level: MarkLevel, seed: int, seconds: float, layers: tuple[Layer, ...]) -> None:
    """What a process needs before its first clip."""
    global _running
    _running = model, load(model, threads=1), level, seed, seconds, layers


def _measure_clip(task: tuple[int, Path]) -> tuple[int, Trial | None]:
    """Everything that is done to one clip; nothing where it is not loud enough."""
    model, marker, level, seed, seconds, layers = _running
    number, path = task
    clip = read_clip(path, seconds)
    if not is_loud(clip):
        return number, None
    rng = np.random.default_rng([seed, number])
    # How much two marks interfere depends on their keys, so every clip has a key of its own.
    key = Key(np.random.default_rng([seed, number, 1]).bytes(16))
    edits = list(_trials(marker, load(model, key=key, threads=1), key, clip, level, layers, rng))
    lengths = [length for length in MARKED_SECONDS if length < seconds]
    return number, (edits, [(length, *_locate_stretch(marker, clip, length, level, layers, rng)) for length in lengths])


def read_clip(path: Path, seconds: float) -> Samples:
    """(n, 2) at 44.1 kHz: the beginning of a file, again and again if it is short; real stereo of mono."""
    return corpus.read_clip(path, seconds, CLIP_RATE, channels=2)


def overlap(segments: Sequence[Segment], begin: float, end: float, seconds: float) -> float:
    """Intersection over union of the detected segments and the stretch from `begin` to `end`, to a millisecond."""
    times = np.arange(0, seconds, 1e-3)
    detected = np.zeros(len(times), bool)
    for segment in segments:
        detected |= (times >= segment.start) & (times < segment.end)
    true = (times >= begin) & (times < end)
    return float((detected & true).sum() / (detected | true).sum())


def _trials(
    marker: Marker,
    second: Marker,
    key: Key,
    clip: Samples,
    level: MarkLevel,
    layers: tuple[Layer, ...],
    rng: np.random.Generator,
) -> Iterator[tuple[str, bool, bool]]:
    """Label, message right, message wrong: of everything that is done to one clip. `second` marks with `key`."""
    room = marker.capacity(len(clip) / CLIP_RATE)
    text = _random_text(SHORT_TEXT_LETTERS, rng) if room >= SHORT_TEXT_LETTERS else SHORT_MESSAGE
    how: dict[str, Any] = {"snr": level[0], "audibility": level[1], "layers": layers}
    marked, seed = marker.embed(clip, CLIP_RATE, text, **how), int(rng.integers(1 << 31))
    for label, edit in EDITS.items():
        yield label, *_judge(marker.detect(edit(marked, seed), CLIP_RATE, layers=layers), text)
    if room >= LONG_TEXT_LETTERS:
        long = _random_text(LONG_TEXT_LETTERS, rng)
        spread = marker.embed(clip, CLIP_RATE, long, **how)
        for label in LONG_EDITS:
            yield (
                f"{LONG_TEXT_LETTERS} letters, {label}",
                *_judge(marker.detect(EDITS[label](spread, seed), CLIP_RATE, layers=layers), long),
            )
    second_text = _random_text(SHORT_TEXT_LETTERS, rng) if room >= SHORT_TEXT_LETTERS else (0, 1, 1)
    twice = second.embed(marked, CLIP_RATE, second_text, **how)
    yield "marked twice, first key", *_judge(marker.detect(twice, CLIP_RATE, layers=layers), text)
    yield "marked twice, second key", *_judge(second.detect(twice, CLIP_RATE, layers=layers), second_text)
    both = marker.detect(twice, CLIP_RATE, keys=[PUBLIC, key], layers=layers)
    messages = {segment.message for segment in both.segments if segment.message is not None}
    yield "marked twice, both keys", messages == {text, second_text}, not messages <= {text, second_text}


def _random_text(letters: int, rng: np.random.Generator) -> str:
    return "".join(rng.choice(list(string.ascii_lowercase), letters))


def _judge(detection: Detection, message: MessageLike) -> tuple[bool, bool]:
    """Whether the right message was detected, and whether a wrong one was."""
    return detection.found and detection.message == message, detection.found and detection.message != message


def _locate_stretch(
    marker: Marker,
    clip: Samples,
    length: float,
    level: MarkLevel,
    layers: tuple[Layer, ...],
    rng: np.random.Generator,
) -> tuple[bool, float]:
    """Whether a mark in one stretch of a clip is found, and how well its borders are; silence is not marked."""
    size, step = round(length * CLIP_RATE), CLIP_RATE // 10
    power = np.concatenate([[0.0], np.cumsum(np.square(clip, dtype=np.float64).mean(1))])
    starts = np.arange(0, len(clip) - size + 1, step)
    loud = (power[starts + size] - power[starts]) / size
    begin = int(rng.choice(starts[loud >= min(MIN_RMS**2, float(loud.max()))]))
    partly = clip.copy()
    partly[begin : begin + size] = marker.embed(
        clip[begin : begin + size], CLIP_RATE, SHORT_MESSAGE, snr=level[0], audibility=level[1], layers=layers
    )
    detection = marker.detect(partly, CLIP_RATE, layers=layers)
    return detection.found, overlap(
        detection.segments, begin / CLIP_RATE, begin / CLIP_RATE + length, len(clip) / CLIP_RATE
    )


def _row(label: str, outcomes: list[tuple[bool, bool]]) -> Row:
    right, wrong = (sum(kind) for kind in zip(*outcomes, strict=True))
    clips = len(outcomes)
    return Row(label, clips, right, wrong, wilson_interval(right, clips), wilson_interval(wrong, clips))


def _place(length: float, outcomes: list[tuple[bool, float]]) -> Place:
    found, overlaps = zip(*outcomes, strict=True)
    return Place(length, len(outcomes), sum(found), float(np.mean(overlaps)))
