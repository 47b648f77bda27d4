"""Encoding of files through libsndfile, block by block.

PCM is passed as integers, because libsndfile reads with a full scale of 2^k but writes floats with 2^k - 1, which
would move every loud sample by one step.
"""

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from ideaw.audio import atomic, mpeg
from ideaw.audio.formats import PCM_BITS, Encoding, check_size
from ideaw.audio.pcm import as_integers
from ideaw.audio.read import vorbis_nominal_bitrate
from ideaw.audio.tags import TAG_NAMES


class Encoder:
    """Writes the samples that are to become `path` into the file `temporary`."""

    def __init__(self, path: Path, temporary: Path, rate: int, channels: int, encoding: Encoding) -> None:
        """Open the file; `rate` is in Hz, and `encoding` one that `formats.choose_encoding` gave."""
        self._path, self._temporary, self._encoding, self._num_values = path, temporary, encoding, 0
        with self._file_errors():
            self._sound = _open(temporary, rate, channels, encoding)

    def write(self, block: NDArray[np.floating]) -> None:
        """Append `(n, channels)` floats, at most `CODEC_BLOCK_SAMPLES` at a time."""
        self._num_values += block.size
        check_size(self._path, self._encoding, self._num_values)
        with self._file_errors():
            self._sound.write(_as_stored(block, self._encoding.subtype))

    def finish(self) -> None:
        """Write what comes last: the header's lengths, and the tag of an MP3 before it."""
        with self._file_errors():
            self._sound.close()
            if self._encoding.id3:
                atomic.prepend(self._temporary, self._encoding.id3)

    def abort(self) -> None:
        """Close a file that will not be needed."""
        with contextlib.suppress(sf.SoundFileError):
            self._sound.close()

    def _file_errors(self) -> contextlib.AbstractContextManager[None]:
        return atomic.file_errors(self._path, sf.SoundFileError)


def _open(path: Path, rate: int, channels: int, encoding: Encoding) -> sf.SoundFile:
    sound = sf.SoundFile(
        os.fsencode(path),
        "w",
        rate,
        channels,
        format=encoding.container,
        subtype=encoding.subtype,
        compression_level=_compression_level(encoding, rate, channels),
        bitrate_mode="CONSTANT" if encoding.container == "MP3" else None,
    )
    for name, text in encoding.tags.items():
        if name in TAG_NAMES and encoding.container != "MP3":
            with contextlib.suppress(sf.SoundFileError):  # AU and W64 have no tags
                setattr(sound, name, text)
    return sound


def _as_stored(samples: NDArray[np.floating], subtype: str) -> NDArray[Any]:
    """Samples as libsndfile stores them without touching them again: PCM codes in the high bits of int32."""
    bits = PCM_BITS.get(subtype)
    if bits is None:
        return np.ascontiguousarray(samples, dtype=np.float64)
    return (as_integers(samples, bits) << (32 - bits)).astype(np.int32)


def _compression_level(encoding: Encoding, rate: int, channels: int) -> float | None:
    """libsndfile's `compression_level`, 0 to 1, that gives the bitrate; found by measuring its encoders."""
    if encoding.bitrate is None:
        return None
    if encoding.container == "MP3":
        highest, lowest = mpeg.max_bitrate(rate), 32 if rate >= 32_000 else 8
        return (highest - mpeg.legal_bitrate(encoding.bitrate, rate)) / (highest - lowest)
    if encoding.subtype == "OPUS":
        return float(np.clip((256 - encoding.bitrate / channels) / 250, 0, 1))
    return _vorbis_level(encoding.bitrate, rate, channels)


def _vorbis_level(bitrate: float, rate: int, channels: int) -> float:
    """The highest level in steps of 0.05 whose nominal bitrate is not below `bitrate` kbit/s."""
    probe_rate = min(rate, 48_000)  # above 50 kHz the encoder names no bitrate; its qualities mean the same
    for step in range(20, 0, -1):
        header = io.BytesIO()
        with sf.SoundFile(
            header, "w", probe_rate, channels, format="OGG", subtype="VORBIS", compression_level=step / 20
        ) as file:
            file.write(np.zeros((1, channels)))
        if vorbis_nominal_bitrate(header.getvalue()) >= bitrate - 0.5:
            return step / 20
    return 0.0
