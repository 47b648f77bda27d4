"""Corpora on disk: every clip under a folder, in audio files and in tar packs of audio files."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.samples import as_integers
from ideaw.errors import FileError

CLIP_EXTENSIONS = {".wav", ".flac", ".ogg", ".mp3", ".opus", ".aiff", ".aif"}


def clips_under(folder: Path) -> Iterator[tuple[str, NDArray[np.int16]]]:
    """Yield every audio file under a folder, packs included, in a fixed order.

    Returns:
        Pairs of the category (the name of the folder that holds the file) and (n,) int16 mono samples at 16 kHz.

    Raises:
        FileError: there is no such folder, or a file in it cannot be decoded.
    """
    if not folder.is_dir():
        raise FileError(f"{folder} is not a folder of audio files or tar packs")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix.lower() == ".tar":
            yield from _unpack(path)
        elif path.suffix.lower() in CLIP_EXTENSIONS:
            yield path.parent.name, _decode(path, str(path))


def _unpack(path: Path) -> Iterator[tuple[str, NDArray[np.int16]]]:
    try:
        with tarfile.open(path) as pack:
            for member in sorted(pack.getmembers(), key=lambda m: m.name):
                name = PurePosixPath(member.name)
                content = pack.extractfile(member) if name.suffix.lower() in CLIP_EXTENSIONS else None
                if content is not None:
                    yield name.parent.name or path.stem, _decode(io.BytesIO(content.read()), f"{path}: {name}")
    except tarfile.TarError as error:
        raise FileError(f"{path} cannot be read as a tar pack of audio files") from error


def _decode(source: Path | io.BytesIO, name: str) -> NDArray[np.int16]:
    try:
        samples, rate = soundfile.read(source, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise FileError(f"{name} cannot be decoded: {error.error_string}") from error
    mono = samples.mean(1)
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
    return as_integers(mono, 16).astype(np.int16)
