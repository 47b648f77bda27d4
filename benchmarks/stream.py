"""Live streams: latency, real-time factor, memory of one, and how short a clip may be; AudioSeal's generator beside it.

    python benchmarks/stream.py --json docs/results/stream.json [--audio DIR] [--peers DIR] [--excerpts 300]

Times are CPU time of one thread; DIR of the peers is what `make peers` makes. AudioSeal's streaming generator has
random weights, which take as long. Without a folder of 16 kHz audio the packaged samples are taken. Excerpts are cut
where three quarters of them are above −40 dBFS.
"""

import argparse
import contextlib
import gc
import json
import resource
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.attacks.codecs import mp3
from ideaw.audio.clips import clips_under
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.detector import TrialCounter
from ideaw.engine.search import Search
from ideaw.keys import PUBLIC
from ideaw.payload.message import Message
from ideaw.quality.masking import masking

RATES_HZ = (16_000, 22_050, 24_000, 44_100, 48_000)
PUSH_SECONDS, PEER_PUSH_SECONDS = 0.01, 0.1
LISTENING_SECONDS = 180, 3_600
SHORT_SECONDS = (0.5, 0.6, 0.75, 1.0)
STREAM_SECONDS = 6
ACTIVE_POWER, ACTIVE_SHARE = 1e-4, 0.75
MESSAGES = {"46+10": "ab12"}
BITS = (1, 0, 1)

AUDIOSEAL = """
import json, sys, time
import numpy as np, torch
from audioseal.builder import AudioSealWMConfig, create_generator
from audioseal.loader import AudioSeal, load_local_model_config
from omegaconf import OmegaConf
torch.set_num_threads(1)
card = OmegaConf.to_container(load_local_model_config("audioseal_wm_streaming"))
generator = create_generator(AudioSeal.parse_config(card, AudioSealWMConfig)).eval()
audio = torch.from_numpy(np.load(sys.argv[1]))[None, None]
bits, step, begin = torch.zeros(1, 16, dtype=torch.int64), int(sys.argv[2]), time.process_time()
with torch.no_grad(), generator.streaming(batch_size=1):
    for start in range(0, audio.shape[-1] - step + 1, step):
        generator(audio[..., start : start + step], sample_rate=16000, message=bits, alpha=1.0)
print(json.dumps({"times_real_time": audio.shape[-1] / 16000 / (time.process_time() - begin)}))
"""
"""AudioSeal's streaming generator with random weights, which take as long, in the environment of that peer."""


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
class Evidence:
    """How clearly marks are found after MP3 at 64 kbit/s: live ones at the level of those of whole arrays."""

    clips: int
    array: float
    """Mean of −log10 p of arrays."""
    stream: float
    ratio_of_means: float
    lost_array: int
    lost_stream: int
    array_noise_to_mask: float
    stream_noise_to_mask: float


@dataclass(frozen=True)
class Listening:
    """`detect_stream` over audio without a mark."""

    seconds: int
    answers: int
    found: int
    cpu_seconds: float
    peak_megabytes: float
    """Of the whole program."""


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


def measure_listening(speech: NDArray[np.float32]) -> list[Listening]:
    """An endless stream without a mark, heard for so long."""
    marker, rows = ideaw.load(threads=1), []
    for seconds in LISTENING_SECONDS:
        begin = time.process_time()
        tiles = (speech for _ in range(seconds * SAMPLE_RATE // len(speech)))
        answers = list(marker.detect_stream(tiles, SAMPLE_RATE))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found = sum(answer.found for answer in answers)
        rows.append(Listening(seconds, len(answers), found, time.process_time() - begin, peak))
    return rows


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
                    marked["array"] = marker.embed(host, SAMPLE_RATE, message, layers="fast")
                for kind, samples in marked.items():
                    read[kind] += marker.detect(samples, SAMPLE_RATE, speeds="none", layers="fast").message == message
            rows += [Shortness(name, kind, seconds, count, len(chosen)) for kind, count in read.items()]
            print(*rows[-2:], sep="\n", flush=True)
    return rows


def _evidence(marker: ideaw.Marker, samples: NDArray[np.float64]) -> float:
    """−log10 of the p-value, not limited to what a key can tell; 0 where the message is not the one embedded."""
    channels = marker.network.channels(PUBLIC)
    search = Search(marker.network, [channels])
    search.push(samples[:, None].astype(np.float32))
    search.finish()
    right = [stretch for stretch in search.stretches if stretch.decoded.message == Message.of("ab12")]
    trials = TrialCounter(1, [PUBLIC], max(search.chunks, 1))
    return max((-float(np.log10(max(trials.joint_p(stretch), 1e-300))) for stretch in right), default=0.0)


def measure_evidence(clips: list[NDArray[np.float32]]) -> Evidence:
    """Live marks of 16 kHz clips, brought to the energy of those of whole arrays, against these."""
    marker, rows = ideaw.load(threads=1), []
    for clip in clips:
        whole = marker.embed(clip, SAMPLE_RATE, "ab12", layers="fast")
        live = np.concatenate(list(marker.embed_stream([clip], SAMPLE_RATE, "ab12")))
        level = np.linalg.norm(whole - clip) / max(float(np.linalg.norm(live - clip)), 1e-9)
        found = [_evidence(marker, mp3(samples, SAMPLE_RATE)) for samples in (whole, clip + (live - clip) * level)]
        rows.append([*found, masking(clip, whole).ratio, masking(clip, live).ratio])
    array, stream, array_ratio, stream_ratio = np.array(rows).T
    return Evidence(
        len(clips),
        float(array.mean()),
        float(stream.mean()),
        float(stream.mean() / array.mean()),
        int((array == 0).sum()),
        int((stream == 0).sum()),
        float(array_ratio.mean()),
        float(stream_ratio.mean()),
    )


def measure_audioseal(peers: Path, speech: NDArray[np.float32]) -> dict[str, Any]:
    """Times real time of AudioSeal's streaming generator, or why it could not be run."""
    python = peers / "audioseal" / "bin" / "python"
    if not python.exists():
        return {"not run": f"`make peers` has not brought it to {peers}"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.npy"
        np.save(path, speech)
        step = str(round(SAMPLE_RATE * PEER_PUSH_SECONDS))
        run = subprocess.run([python, "-c", AUDIOSEAL, path, step], capture_output=True, text=True, check=False)
    if run.returncode:
        return {"not run": run.stderr.strip().splitlines()[-1][:200]}
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Measure what was asked for, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--audio", type=Path, help="a folder of clips; without it the packaged samples")
    parser.add_argument("--peers", type=Path, default=Path(".peers"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--excerpts", type=int, default=100)
    parser.add_argument("--clips", type=int, default=20, help="clips whose evidence is compared")
    given = parser.parse_args()
    with resources.as_file(resources.files("ideaw").joinpath("samples", "speech.flac")) as path:
        speech = soundfile.read(path, dtype="float32")[0]
    clips = [speech]
    if given.audio is not None:
        clips = [(samples / 32_768).astype(np.float32) for _, samples in clips_under(given.audio)]
    runs = measure_streams(speech, given.repeats)
    peer = measure_audioseal(given.peers, speech)
    memory = measure_memory(speech)
    spread = clips[:: max(len(clips) // given.clips, 1)]
    listening = measure_listening(speech)
    result = {
        "streams": [asdict(run) for run in runs],
        "listening": [asdict(row) for row in listening],
        "audioseal": peer,
        "megabytes_per_stream": memory,
        "evidence": asdict(measure_evidence(spread)),
        "shortness": [asdict(row) for row in measure_shortness(clips, given.excerpts)],
    }
    text = json.dumps(result, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
