"""Real lossy codecs in memory: encode, decode, same length, no delay.

libsndfile (LAME, Vorbis, Opus) writes the encoder's delay into the file and takes it off again when it
reads. It has no bitrate, only a `compression_level` from 0 to 1; the scales below were measured from the
sizes of files that it wrote (libsndfile 1.2.2).
"""

import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import soundfile
import soxr

from ideaw.audio.grid import RATE

MP3_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)

MP3_DELAY = 1_105
"""Samples that LAME and the decoder delay when a frame is too small for the header that says so."""


def _mp3_scale(rate: int) -> tuple[int, int]:
    """Lowest and highest bitrate in kbit/s at a sampling rate: MPEG-2.5, MPEG-2 and MPEG-1."""
    return (8, 64) if rate < 16_000 else (8, 160) if rate < 32_000 else (32, 320)


def _level(kbps: float, low: float, high: float) -> float:
    """Compression level of libsndfile for a bitrate on the codec's scale; 1.0 itself is refused by it."""
    return min(max((high - kbps) / (high - low), 0.0), 0.999)


def _fit(decoded: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Cut or fill with zeros to the length of `like`, in its dtype."""
    decoded = decoded[: len(like)]
    missing = [(0, len(like) - len(decoded))] + [(0, 0)] * (like.ndim - 1)
    return np.pad(decoded, missing).astype(like.dtype, copy=False)


def _nearest_rate(rate: int, rates: Sequence[int]) -> int:
    """The lowest rate of a codec that keeps everything, else its highest."""
    return min((r for r in rates if r >= rate), default=max(rates))


def _encode(samples: np.ndarray, rate: int, container: str, subtype: str, level: float) -> bytes:
    buffer = io.BytesIO()
    mode = {"bitrate_mode": "CONSTANT"} if container == "MP3" else {}
    soundfile.write(buffer, samples, rate, format=container, subtype=subtype, compression_level=level, **mode)
    return buffer.getvalue()


def _decode(data: bytes) -> np.ndarray:
    return soundfile.read(io.BytesIO(data), dtype="float32")[0]


def _through(samples: np.ndarray, rate: int, container: str, subtype: str, level: float) -> np.ndarray:
    return _decode(_encode(samples, rate, container, subtype, level))


def mp3_bytes(samples: np.ndarray, rate: int, kbps: int = 64) -> bytes:
    """An MP3 file by LAME at a constant bitrate; `samples` (n,) or (n, channels), `rate` one of MP3_RATES."""
    return _encode(samples, rate, "MP3", "MPEG_LAYER_III", _level(kbps, *_mp3_scale(rate)))


def mp3(samples: np.ndarray, rate: int, kbps: int = 64) -> np.ndarray:
    """Through MP3 and back; `samples` (n,) or (n, channels) at any rate, same shape out."""
    at = _nearest_rate(rate, MP3_RATES)
    source = samples if at == rate else soxr.resample(samples, rate, at)
    decoded = _decode(mp3_bytes(source, at, kbps))
    if len(decoded) > len(source):
        decoded = decoded[MP3_DELAY:]
    return _fit(decoded if at == rate else soxr.resample(decoded, at, rate), samples)


def vorbis(samples: np.ndarray, rate: int, quality: float = 0.4) -> np.ndarray:
    """Through Ogg Vorbis and back; `quality` from 0 to 1 as `oggenc -q` divided by 10."""
    return _fit(_through(samples, rate, "OGG", "VORBIS", 1.0 - quality), samples)


def opus(samples: np.ndarray, rate: int, kbps: int = 32) -> np.ndarray:
    """Through Ogg Opus and back; `kbps` per channel."""
    at = _nearest_rate(rate, OPUS_RATES)
    source = samples if at == rate else soxr.resample(samples, rate, at)
    decoded = _through(source, at, "OGG", "OPUS", _level(kbps, 6, 256))
    return _fit(decoded if at == rate else soxr.resample(decoded, at, rate), samples)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="codec")


def mp3_clips(clips: np.ndarray, kbps: Sequence[int]) -> np.ndarray:
    """Clips (batch, n) at 16 kHz through MP3, each at its own bitrate, on all cores."""
    return np.stack(list(_pool().map(lambda clip, k: mp3(clip, RATE, k), clips, kbps)))


def vorbis_clips(clips: np.ndarray, quality: Sequence[float]) -> np.ndarray:
    """Clips (batch, n) at 16 kHz through Vorbis, each at its own quality, on all cores."""
    return np.stack(list(_pool().map(lambda clip, q: vorbis(clip, RATE, q), clips, quality)))


def opus_clips(clips: np.ndarray, kbps: Sequence[int]) -> np.ndarray:
    """Clips (batch, n) at 16 kHz through Opus, each at its own bitrate, on all cores."""
    return np.stack(list(_pool().map(lambda clip, k: opus(clip, RATE, k), clips, kbps)))
