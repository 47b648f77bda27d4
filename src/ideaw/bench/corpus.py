"""A folder of audio as the benchmarks take it."""

from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.audio import files
from ideaw.errors import FileError

QUIETEST = 10 ** (-40 / 20)
"""Audio with a lower RMS is left out: the quantiser's steps are of a fixed size."""


def packaged() -> Path:
    """The folder of the packaged samples: twelve seconds of speech and music under a free licence."""
    return Path(str(resources.files("ideaw").joinpath("samples")))


def paths_under(data: Path, limit: int | None = None) -> list[Path]:
    """The audio files under a folder, in a fixed order; at most `limit`, evenly chosen."""
    if not data.is_dir():
        raise FileError(f"{data} is not a folder of audio files")
    paths = sorted(path for path in data.rglob("*") if path.suffix.lower() in files.EXTENSIONS)
    if not paths:
        raise FileError(f"{data} holds no audio files")
    return [paths[i] for i in evenly(len(paths), limit)]


def kind(path: Path) -> str:
    """The kind of a file: the part of its name before the first "-", or else the name of its folder."""
    return path.stem.split("-")[0] if "-" in path.stem else path.parent.name


def evenly(number: int, limit: int | None) -> NDArray[np.int64]:
    """The places of at most `limit` of `number` things, evenly chosen."""
    return np.linspace(0, number - 1, min(limit or number, number)).round().astype(np.int64)
