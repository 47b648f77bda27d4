"""Real lossy codecs in memory: encode, decode, same length, no delay.

libsndfile (LAME, Vorbis, Opus) writes the encoder's delay into the file and removes it when reading. It has no
bitrate setting, only a `compression_level` from 0 to 1; the scales below were measured from the sizes of files that
it wrote (libsndfile 1.2.2).
"""

import io
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache

import numpy as np
import soundfile
import soxr

from ideaw.audio.blocks import CODEC_BLOCK_SAMPLES, split_blocks
from ideaw.audio.formats import AAC_RATES, MP3_RATES, OPUS_RATES
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.errors import MissingExtraError

OPUS_KBPS_RANGE = (6, 256)
"""Lowest and highest bitrate of Opus in libsndfile, kbit/s per channel."""

AAC_DELAY_SAMPLES = 1_024
"""Samples that FFmpeg's encoder delays; an ADTS stream has no place to say so."""

MP3_DELAY_SAMPLES = 1_105
"""Samples that LAME and the decoder delay when a frame is too small for the header that says so."""


def _mp3_kbps_range(rate: int) -> tuple[int, int]:
    """Lowest and highest bitrate in kbit/s at a sampling rate: MPEG-2.5, MPEG-2 and MPEG-1."""
    return (8, 64) if rate < 16_000 else (8, 160) if rate < 32_000 else (32, 320)


def _compression_level(kbps: float, low: float, high: float) -> float:
    """Compression level of libsndfile for a bitrate on the codec's scale; 1.0 itself is refused by it."""
    return min(max((high - kbps) / (high - low), 0.0), 0.999)


def _fit(decoded: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Cut or fill with zeros to the length of `like`, in its dtype."""
    decoded = decoded[: len(like)].reshape((-1, *like.shape[1:]))
    missing = [(0, len(like) - len(decoded))] + [(0, 0)] * (like.ndim - 1)
    return np.pad(decoded, missing).astype(like.dtype, copy=False)


def _in_pairs(codec: Callable[[np.ndarray], np.ndarray], samples: np.ndarray) -> np.ndarray:
    """Code more than two channels in pairs: MP3 and AAC as set up here hold one or two."""
    if samples.ndim == 1 or samples.shape[1] <= 2:
        return codec(samples)
    return np.concatenate([codec(samples[:, k : k + 2]) for k in range(0, samples.shape[1], 2)], axis=1)


def _nearest_rate(rate: int, rates: Sequence[int]) -> int:
    """The lowest rate of a codec that is not below `rate`, else its highest."""
    return min((r for r in rates if r >= rate), default=max(rates))


def _at_rate(
    codec: Callable[[np.ndarray, int], np.ndarray], samples: np.ndarray, rate: int, rates: Sequence[int]
) -> np.ndarray:
    """Run a codec at the nearest rate that it knows; same shape, rate and dtype out."""
    at = _nearest_rate(rate, rates)
    if at == rate:
        return _fit(codec(samples, rate), samples)
    there = soxr.resample(samples, rate, at)
    if not len(there):  # a sample or two of a rate far above the codec's
        return np.zeros_like(samples)
    return _fit(soxr.resample(codec(there, at), at, rate), samples)


def _encode(samples: np.ndarray, rate: int, container: str, subtype: str, level: float) -> bytes:
    buffer = io.BytesIO()
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    mode = {"bitrate_mode": "CONSTANT"} if container == "MP3" else {}
    with soundfile.SoundFile(
        buffer, "w", rate, channels, subtype, format=container, compression_level=level, **mode
    ) as file:
        for block in split_blocks(samples, CODEC_BLOCK_SAMPLES):
            file.write(block)
    return buffer.getvalue()


def _decode(data: bytes) -> np.ndarray:
    return np.asarray(soundfile.read(io.BytesIO(data), dtype="float32")[0])


def mp3_bytes(samples: np.ndarray, rate: int, kbps: int = 64) -> bytes:
    """An MP3 file by LAME at a constant bitrate; `samples` (n,) or (n, channels), `rate` one of MP3_RATES."""
    return _encode(samples, rate, "MP3", "MPEG_LAYER_III", _compression_level(kbps, *_mp3_kbps_range(rate)))


def _mp3_once(samples: np.ndarray, rate: int, kbps: int) -> np.ndarray:
    decoded = _decode(mp3_bytes(samples, rate, kbps))
    return decoded if len(decoded) == len(samples) else decoded[MP3_DELAY_SAMPLES:]


def mp3(samples: np.ndarray, rate: int, kbps: int = 64) -> np.ndarray:
    """Through MP3 and back; `samples` (n,) or (n, channels) at any rate, same shape out."""
    return _in_pairs(lambda pair: _at_rate(lambda s, r: _mp3_once(s, r, kbps), pair, rate, MP3_RATES), samples)


def vorbis(samples: np.ndarray, rate: int, quality: float = 0.4) -> np.ndarray:
    """Through Ogg Vorbis and back; `quality` from 0 to 1, a tenth of what `oggenc -q` takes."""
    return _fit(_decode(_encode(samples, rate, "OGG", "VORBIS", 1.0 - quality)), samples)


def opus(samples: np.ndarray, rate: int, kbps: int = 32) -> np.ndarray:
    """Through Ogg Opus and back; `kbps` per channel."""
    level = _compression_level(kbps, *OPUS_KBPS_RANGE)
    return _at_rate(lambda s, r: _decode(_encode(s, r, "OGG", "OPUS", level)), samples, rate, OPUS_RATES)


def _aac_once(samples: np.ndarray, rate: int, kbps: int) -> np.ndarray:
    try:
        import av
    except ImportError:
        raise MissingExtraError('AAC needs PyAV; install it with: pip install "ideaw[formats]"') from None
    planes = np.ascontiguousarray(np.atleast_2d(samples.T), dtype=np.float32)
    layout = "mono" if len(planes) == 1 else "stereo"
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="adts") as container:
        stream = container.add_stream("aac", rate=rate, layout=layout, bit_rate=kbps * 1000)
        frame = av.AudioFrame.from_ndarray(planes, format="fltp", layout=layout)
        frame.sample_rate = rate
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    buffer.seek(0)
    with av.open(buffer, "r", format="aac") as container:
        decoded = np.concatenate([frame.to_ndarray() for frame in container.decode(audio=0)], axis=1)
    return decoded[:, AAC_DELAY_SAMPLES:].T.reshape((-1, *samples.shape[1:]))


def aac(samples: np.ndarray, rate: int, kbps: int = 64) -> np.ndarray:
    """Through AAC (FFmpeg's encoder, ADTS) and back; needs PyAV."""
    return _in_pairs(lambda pair: _at_rate(lambda s, r: _aac_once(s, r, kbps), pair, rate, AAC_RATES), samples)


@cache
def _pool() -> ProcessPoolExecutor:
    """Worker processes, not threads: libsndfile calls back into Python for every block of a file in memory."""
    return ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn"))


def _map_clips(codec: Callable[..., np.ndarray], clips: np.ndarray, strengths: Sequence[float]) -> np.ndarray:
    return np.stack(list(_pool().map(codec, clips, [SAMPLE_RATE] * len(clips), strengths)))


def mp3_clips(clips: np.ndarray, kbps: Sequence[int]) -> np.ndarray:
    """Clips (batch, n) at 16 kHz through MP3, each at its own bitrate, on all cores."""
    return _map_clips(mp3, clips, kbps)


def vorbis_clips(clips: np.ndarray, quality: Sequence[float]) -> np.ndarray:
    """Clips (batch, n) at 16 kHz through Vorbis, each at its own quality, on all cores."""
    return _map_clips(vorbis, clips, quality)


def opus_clips(clips: np.ndarray, kbps: Sequence[int]) -> np.ndarray:
    """Clips (batch, n) at 16 kHz through Opus, each at its own bitrate, on all cores."""
    return _map_clips(opus, clips, kbps)
