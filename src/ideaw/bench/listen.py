"""A blind listening test (ABX) in one HTML file that needs nothing else: made here, run by anyone in a browser.

Of every clip the page holds the host, the marked version, and an anchor with the mark so much louder that it is heard:
who misses the anchor cannot tell about the mark. What is drawn, played and counted is in `reports/listen.html`.
"""

import base64
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from ideaw.audio import atomic
from ideaw.audio.blocks import Progress
from ideaw.audio.read import open_audio
from ideaw.bench.cache import write_text
from ideaw.bench.corpus import SHORT_MESSAGE, evenly_spaced, list_audio_files
from ideaw.engine.gain import MarkLevel, check_level
from ideaw.errors import AudioError, FileError
from ideaw.layers import Layer, LayersLike, check_layers, default_layers
from ideaw.marker import Marker, load

LISTEN_FILE = "listen.html"

ANCHOR_DB, DEEP_ANCHOR_DB = 20.0, 10.0
"""dB by which the residual of the anchor is louder than the mark's, without a deep layer and with one."""

LISTEN_STEP = 2.0**-19
"""Samples are rounded to 20 bits: 120 dB below full scale nobody hears it, and the page is a quarter smaller."""

_FADE_SECONDS, _MAX_FLAC_CHANNELS = 0.02, 8
"""The fades at both ends of a clip, which is played in a loop; and how many channels are played at most."""


@dataclass(frozen=True, eq=False)
class Versions:
    """A clip as "host", "marked" and "anchor", `(n, channels)` at `rate` Hz, and the SNR of the mark in dB."""

    sounds: dict[str, NDArray[np.float64]]
    rate: int
    snr: float


@dataclass(frozen=True)
class Page:
    """What was written: the file, the number of its clips, and how many files were too short for one."""

    path: Path
    model: str
    clips: int
    too_short: int


def run(
    data: Path,
    out: Path,
    model: str | None = None,
    snr: float | None = None,
    limit: int | None = None,
    seconds: float = 6.0,
    progress: Progress | None = None,
    audibility: float | None = None,
    layers: LayersLike | None = None,
) -> Page:
    """Write the listening test of the files under `data` as `listen.html` into the folder `out`.

    Args:
        data, out, model, progress: As for the other benchmarks; `out` is made if it does not exist.
        snr: In dB, that every second keeps at least, instead of the audibility.
        audibility: Noise to mask in dB that hearing sets the level to; None for what the model's card says.
        layers: Of the mark that is listened to; None for those that are written by default.
        limit: At most so many files, evenly spaced among those that are long enough.
        seconds: Of each clip, taken from the middle of its file.

    Raises:
        FileError: No file is long enough, one cannot be read, or the page cannot be written.
        AudioError: A clip cannot be marked, being silent for instance.
    """
    paths = list_audio_files(data)
    if not (long_enough := [path for path in paths if may_last(path, seconds)]):
        raise FileError(f"{data} holds no audio file of {seconds:g} s or more; choose fewer seconds")
    marker, page = load(model), out / LISTEN_FILE
    with atomic.file_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    atomic.check_writable(page)
    chosen = [long_enough[i] for i in evenly_spaced(len(long_enough), limit)]
    named = {path.relative_to(data).as_posix(): path for path in chosen}
    write_page(page, marker, named, seconds, (snr, audibility), progress, layers=layers)
    return Page(page, marker.card.name, len(named), len(paths) - len(long_enough))


def write_page(
    page: Path,
    marker: Marker,
    named: Mapping[str, Path],
    seconds: float,
    level: MarkLevel = (None, None),
    progress: Progress | None = None,
    home: str | None = None,
    layers: LayersLike | None = None,
) -> None:
    """Write the listening test as the file `page`.

    Args:
        page, marker: The file, and what marks the clips.
        named: Name of a clip → the file of which the middle is taken.
        seconds, progress: As for `run`.
        level: SNR and audibility, as for `run`.
        home: Address of the page that the test belongs to, for a link.
        layers: Of the mark that is listened to; None for those that are written by default.

    Raises:
        FileError, AudioError: As `run`.
    """
    snr, audibility = level = check_level(*level, marker.card.audibility)
    written = default_layers(snr, seconds) if layers is None else check_layers(layers)
    anchor_db, clips = _anchor_db(written), []
    for name, path in named.items():
        clip = make_versions(marker, path, seconds, level, written)
        about = {"name": name, "rate": clip.rate, "snr": round(clip.snr, 2)}
        clips.append(about | {version: _flac(samples, clip.rate) for version, samples in clip.sounds.items()})
        if progress:
            progress(len(clips) / len(named))
    content = {"model": marker.card.name, "snr": snr, "audibility": audibility, "anchor_db": anchor_db, "clips": clips}
    identity = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]  # answers belong to what was heard
    data = json.dumps({"id": identity, "home": home, **content})
    template = resources.files("ideaw.bench.reports").joinpath(LISTEN_FILE).read_text("utf-8")
    write_text(page, template.replace("@DATA@", data.replace("<", "\\u003c")))  # no name ends the script element


def make_versions(
    marker: Marker,
    path: Path,
    seconds: float,
    level: MarkLevel = (None, None),
    layers: LayersLike | None = None,
) -> Versions:
    """The middle of a file: plain, marked, and with a louder mark; arguments and errors as of `run`.

    Where the anchor would clip, all three are made fainter by the same factor. All fade in and out alike.
    """
    host, rate = excerpt(path, seconds)
    layers = default_layers(level[0], seconds) if layers is None else check_layers(layers)
    try:
        marked = marker.embed(host, rate, SHORT_MESSAGE, snr=level[0], audibility=level[1], layers=layers)
    except AudioError as problem:
        raise AudioError(f"{path}: {problem}") from problem
    residual = marked - host
    gains = {"host": 0, "marked": 1, "anchor": 10 ** (_anchor_db(layers) / 20)}
    versions = {name: host + gain * residual for name, gain in gains.items()}
    peak = max(np.abs(version).max() for version in versions.values()) / (1 - LISTEN_STEP)
    count = round(_FADE_SECONDS * rate)
    envelope = np.full((len(host), 1), 1 / max(1.0, peak))
    envelope[:count, 0] *= (fade := np.square(np.sin(np.pi / 2 * np.arange(count) / count)))
    envelope[-count:, 0] *= fade[::-1]
    ratio = 10 * np.log10(np.square(host).sum() / np.square(residual).sum())
    rounded = {name: np.rint(version * envelope / LISTEN_STEP) * LISTEN_STEP for name, version in versions.items()}
    return Versions(rounded, rate, float(ratio))


def _anchor_db(layers: tuple[Layer, ...]) -> float:
    return DEEP_ANCHOR_DB if "deep" in layers else ANCHOR_DB


def may_last(path: Path, seconds: float) -> bool:
    """Whether a file claims to be long enough for a clip, or does not say."""
    with open_audio(path) as source:
        return source.num_samples is None or source.num_samples >= round(seconds * source.rate)


def excerpt(path: Path, seconds: float) -> tuple[NDArray[np.float64], int]:
    """The middle of a file, `(n, channels)`, and its rate in Hz; the beginning if its length is not known before."""
    with open_audio(path) as source:
        if source.channels > _MAX_FLAC_CHANNELS:
            raise FileError(f"{path} has {source.channels} channels; at most {_MAX_FLAC_CHANNELS} can be listened to")
        length = round(seconds * source.rate)
        begin = max(0, ((source.num_samples or 0) - length) // 2)
        pieces, position = [np.empty((0, source.channels))], 0
        for block in source.blocks():
            pieces.append(block[max(0, begin - position) : max(0, begin + length - position)])
            if (position := position + len(block)) >= begin + length:
                break
    samples = np.concatenate(pieces)
    if len(samples) < length:
        raise FileError(f"{path} is shorter than {seconds:g} s; choose fewer seconds")
    return samples, source.rate


def _flac(samples: NDArray[np.float64], rate: int) -> str:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="FLAC", subtype="PCM_24")
    return base64.b64encode(file.getvalue()).decode()
