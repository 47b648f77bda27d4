"""Live streams: latency, real-time factor, memory of one, and how short a clip may be; AudioSeal's generator beside it.

    python benchmarks/stream.py --json docs/results/stream.json [--audio DIR] [--peers DIR] [--excerpts 300]

Times are CPU time of one thread; DIR of the peers is what `make peers` makes. AudioSeal's streaming generator has random
weights, which take as long. Without a folder of 16 kHz audio the packaged samples are taken. Excerpts are cut where three
quarters of them are above −40 dBFS.
"""

import contextlib
import gc
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import SAMPLE_RATE

RATES_HZ = (16_000, 22_050, 24_000, 44_100, 48_000)
PUSH_SECONDS = 0.01
SHORT_SECONDS = (0.5, 0.6, 0.75, 1.0)
STREAM_SECONDS = 6
ACTIVE_POWER, ACTIVE_SHARE = 1e-4, 0.75
MESSAGES = {"46+10": "ab12"}
BITS = (1, 0, 1)

AUDIOSEAL = """
import json, sys, time, torch
from audioseal.builder import create_generator, AudioSealWMConfig, SEANetConfig
torch.set_num_threads(1)
import audioseal
from audioseal.loader import AudioSeal
generator = AudioSeal.load_generator("audioseal_wm_streaming") 
"""


@dataclass(frozen=True)
class Run:
    """One stream in pieces of PUSH_SECONDS."""

    rate: int
    channels: int
    promised: float
    longest_wait: float
    """Seconds; by samples that were held, after each piece."""
    times_real_time: float
    """Seconds of audio per second of CPU time of one thread: the median of the repeats."""


@dataclass(frozen=True)
class Shortness:
    """How many clean excerpts of a length were read."""

    model: str
    kind: str
    seconds: float
    read: int
    excerpts: int


def _blocks(audio: NDArray[np.float32], rate: int) -> Iterator[NDArray[np.float32]]:
    step = round(rate * PUSH_SECONDS)
    return (audio[start : start + step] for start in range(0, len(audio), step))


def _run(marker: ideaw.Marker, audio: NDArray[np.float32], rate: int) -> tuple[float, float, float]:
    """Promised latency, longest wait and CPU time."""
    stream = marker.open_stream(rate, "ab12")
    held, longest, begin = 0, 0, time.process_time()
    for block in _blocks(audio, rate):
        held += len(block) - len(stream.push(block))
        longest = max(longest, held)
    stream.flush()
    return stream.latency or 0.0, longest / rate, time.process_time() - begin


def measure_streams(speech: NDArray[np.float32], repeats: int) -> list[Run]:
    """Every rate, mono and stereo."""
    marker, runs = ideaw.load(threads=1), []
    for rate in RATES_HZ:
        mono = soxr.resample(speech[: STREAM_SECONDS * SAMPLE_RATE], SAMPLE_RATE, rate)
        for audio in (mono, np.stack([mono, mono[::-1]], 1)):
            results = [_run(marker, audio, rate) for _ in range(repeats)]
            factor = len(audio) / rate / median(cpu for *_, cpu in results)
            runs.append(Run(rate, audio.ndim, *results[0][:2], factor))
    return runs


def measure_memory(speech: NDArray[np.float32]) -> float:
    """Megabytes that a stream at 24 kHz holds besides the marker: the mean of eight that are open together."""
    marker, rate = ideaw.load(threads=1), 24_000
    audio = soxr.resample(speech, SAMPLE_RATE, rate)
    _run(marker, audio, rate)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    streams = [marker.open_stream(rate, "ab12") for _ in range(8)]
    for stream in streams:
        for block in _blocks(audio, rate):
            stream.push(block)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / len(streams) / 1e6


def _excerpt(clip: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32] | None:
    """A second of the clip whose first half is active, if one is found soon."""
    for _ in range(100):
        at = int(rng.integers(0, max(len(clip) - SAMPLE_RATE, 1)))
        power = np.square(clip[at : at + SAMPLE_RATE // 2]).reshape(8, -1).mean(1)
        if (power > ACTIVE_POWER).mean() >= ACTIVE_SHARE:
            return clip[at : at + SAMPLE_RATE]
    return None


def measure_shortness(clips: list[NDArray[np.float32]], excerpts: int) -> list[Shortness]:
    """Clean excerpts of every length that are read, of every model, as arrays and as streams."""
    rng, rows = np.random.default_rng(0), []
    found = (_excerpt(clips[index % len(clips)], rng) for index in range(2 * excerpts))
    chosen = [excerpt for excerpt in found if excerpt is not None][:excerpts]
    for name in ideaw.model_names():
        marker, message = ideaw.load(name, threads=1), MESSAGES.get(name, BITS)
        for seconds in SHORT_SECONDS:
            read = {"array": 0, "stream": 0}
            for excerpt in chosen:
                host = excerpt[: int(seconds * SAMPLE_RATE)]
                stream = marker.embed_stream(_blocks(host, SAMPLE_RATE), SAMPLE_RATE, message)
                marked = {"stream": np.concatenate(list(stream))}
                with contextlib.suppress(ideaw.AudioError):  # refused: it could not be read back
                    marked["array"] = marker.embed(host, SAMPLE_RATE, message)
                for kind, samples in marked.items():
                    read[kind] += marker.detect(samples, SAMPLE_RATE, speeds="none").message == message
            rows += [Shortness(name, kind, seconds, count, len(chosen)) for kind, count in read.items()]
            print(*rows[-2:], sep="\n", flush=True)
    return rows
