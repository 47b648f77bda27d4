"""Audio of the benchmarks: the files under a folder, and clips of a fixed length, rate and number of channels."""

from importlib import resources
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio.blocks import SOXR_QUALITY, mix, to_network_mono
from ideaw.audio.formats import EXTENSIONS
from ideaw.audio.read import read_audio
from ideaw.audio.samples import as_float
from ideaw.errors import FileError

MIN_RMS = 10 ** (-40 / 20)
"""Audio with a lower RMS (full scale 1) is left out: the quantisation attack's steps have a fixed size."""

SIDE_GAIN, SIDE_DELAY_SAMPLES = 0.9, 13
"""Gain and delay of the second channel that is made for a mono file."""

SHORT_MESSAGE = (1, 0, 1)
"""A message that fits into every model, where what it says does not matter."""

Samples = NDArray[np.float32]


def packaged_samples() -> Path:
    """The folder of the packaged samples: twelve seconds of speech and music under a free licence."""
    return Path(str(resources.files("ideaw").joinpath("samples")))


def list_audio_files(data: Path, limit: int | None = None) -> list[Path]:
    """The audio files under a folder, sorted; at most `limit`, evenly spaced. Raises `FileError` if there is none."""
    if not data.is_dir():
        raise FileError(f"{data} is not a folder of audio files")
    paths = sorted(path for path in data.rglob("*") if path.suffix.lower() in EXTENSIONS)
    if not paths:
        raise FileError(f"{data} holds no audio files")
    return [paths[i] for i in evenly_spaced(len(paths), limit)]


def audio_kind(path: Path) -> str:
    """Speech, music and the like: the part of a file's name before the first "-", or else the name of its folder."""
    return path.stem.split("-")[0] if "-" in path.stem else path.parent.name


def evenly_spaced(count: int, limit: int | None) -> NDArray[np.int64]:
    """At most `limit` indices out of `count`, evenly spaced."""
    return np.linspace(0, count - 1, min(limit or count, count)).round().astype(np.int64)


def read_clip(path: Path, seconds: float, rate: int, channels: int) -> Samples:
    """The beginning of a file as `(n, channels)` at `rate` Hz, repeated if it is short.

    A mono file gets a second channel that differs from the first, so that stereo is not two equal channels.
    """
    recording = read_audio(path)
    samples = as_float(recording.samples)[:, :2].astype(np.float32)
    if channels == 1:
        samples = mix(samples)[:, None].astype(np.float32)
    if recording.rate != rate:
        samples = soxr.resample(samples, recording.rate, rate, SOXR_QUALITY)
    if samples.shape[1] < channels:
        samples = np.concatenate([samples, SIDE_GAIN * np.roll(samples, SIDE_DELAY_SAMPLES, 0)], 1)
    return np.resize(samples, (round(seconds * rate), channels))


def read_network_mono(path: Path) -> Samples:
    """A whole file as `(n,)` at the network's 16 kHz."""
    recording = read_audio(path)
    return to_network_mono(as_float(recording.samples), recording.rate)


def is_loud(audio: NDArray[np.floating]) -> bool:
    """Whether the RMS of `(n, channels)` is high enough to be measured."""
    return bool(np.sqrt(np.square(audio, dtype=np.float64).mean()) > MIN_RMS)
