"""libsndfile's encoders: opened so that a file gets the width, quality or bitrate that its `Encoding` says.

PCM is passed as integers, because libsndfile reads with a full scale of 2^k but writes floats with 2^k - 1, which would
move every loud sample by one step. MP3 gets what LAME leaves out: ID3 tags in UTF-8, and a length at low bitrates.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from ideaw.audio import atomic, mpeg, tags, xing
from ideaw.audio.companding import COMPANDED_SUBTYPES, as_companded_pcm
from ideaw.audio.formats import PCM_BITS, Encoding
from ideaw.audio.ogg import vorbis_nominal_bitrate
from ideaw.audio.samples import as_integers

MAX_MP3_LEVEL = 0.999
"""Compression level that stands for 1, the lowest bitrate, which libsndfile refuses for MP3."""

SNDFILE_SYSTEM_ERROR = 2
"""libsndfile's number for whatever the system refuses."""


class SndfileEncoder:
    """Writes samples through libsndfile."""

    errors: ClassVar[tuple[type[Exception], ...]] = (OSError, sf.SoundFileError)

    def __init__(self, temporary: Path, rate: int, channels: int, encoding: Encoding) -> None:
        """Open the file; `rate` is in Hz, and `encoding` one that `choose_encoding` gave."""
        self._temporary, self._encoding = temporary, encoding
        self._sound = _open(temporary, rate, channels, encoding)

    def write(self, block: NDArray[np.floating]) -> None:
        """Append `(n, channels)` floats, at most `CODEC_BLOCK_SAMPLES` at a time."""
        with _system_errors(self._temporary):
            self._sound.write(_as_stored(block, self._encoding.subtype))

    def finish(self) -> None:
        """Write what comes last: the header's lengths, and what comes before the frames of an MP3."""
        length = self._sound.frames
        self._sound.close()
        if self._encoding.container == "MP3":
            self._add_mp3_header(length)
        if self._encoding.id3:
            atomic.prepend(self._temporary, self._encoding.id3)

    def _add_mp3_header(self, length: int) -> None:
        """Tell the length of `length` samples where LAME did not, as its frames are too small for that."""
        with self._temporary.open("rb") as file:
            stream = mpeg.scan(file)
            num_bytes = file.seek(0, os.SEEK_END)
        if stream is not None and not stream.has_xing:
            atomic.prepend(self._temporary, xing.info_frame(stream, num_bytes, length))

    def abort(self) -> None:
        """Close a file that will not be needed."""
        with contextlib.suppress(sf.SoundFileError):
            self._sound.close()


@contextlib.contextmanager
def _system_errors(path: Path) -> Iterator[None]:
    """Raise the system's own error, a full disk say, which libsndfile only calls "System error"."""
    try:
        yield
    except sf.LibsndfileError as problem:
        if problem.code == SNDFILE_SYSTEM_ERROR:
            with path.open("ab") as file:
                file.write(bytes(io.DEFAULT_BUFFER_SIZE))
        raise


def _open(path: Path, rate: int, channels: int, encoding: Encoding) -> sf.SoundFile:
    sound = sf.SoundFile(
        os.fsencode(path),
        "w",
        rate,
        channels,
        format="OGG" if encoding.subtype == "VORBIS" else encoding.container,
        subtype=encoding.subtype,
        compression_level=_compression_level(encoding, rate, channels),
        bitrate_mode=encoding.rate_control.mode if encoding.container == "MP3" else None,
        endian=encoding.endian,
    )
    for name, text in encoding.tags.items():
        if name in tags.TAG_NAMES and encoding.container != "MP3":
            with contextlib.suppress(sf.SoundFileError):  # AU and W64 have no tags
                setattr(sound, name, text)
    return sound


def _as_stored(samples: NDArray[np.floating], subtype: str) -> NDArray[Any]:
    """Samples as libsndfile stores them without touching them again: PCM codes in the high bits of int32."""
    bits = PCM_BITS.get(subtype)
    if subtype in COMPANDED_SUBTYPES:
        return as_companded_pcm(samples, subtype)
    if bits is None:
        return np.ascontiguousarray(samples, dtype=np.float64)
    return (as_integers(samples, bits) << (32 - bits)).astype(np.int32)


def _compression_level(encoding: Encoding, rate: int, channels: int) -> float | None:
    """libsndfile's `compression_level`, 0 to 1, that gives the bitrate; found by measuring its encoders."""
    if encoding.bitrate is None:
        return None
    if encoding.container == "MP3":
        if encoding.rate_control.quality is not None:
            return min(encoding.rate_control.quality / 10, MAX_MP3_LEVEL)
        highest, lowest = mpeg.max_bitrate(rate), 32 if rate >= 32_000 else 8
        share = (highest - mpeg.legal_bitrate(encoding.bitrate, rate)) / (highest - lowest)
        return min(share, MAX_MP3_LEVEL)
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
