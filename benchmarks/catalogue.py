"""Figures of catalogue jobs: kills, overhead, scaling, listening to less, the cache, and what a million hours cost.

    python benchmarks/catalogue.py faults --engine local|ray [--files 2000]
    python benchmarks/catalogue.py overhead --engine local|ray [--files 2000] [--seconds 8]
    python benchmarks/catalogue.py scaling [--files 400] [--seconds 8]
    python benchmarks/catalogue.py listening [--hours 1]
    python benchmarks/catalogue.py cache [--hours 10] [--keys 1000]

Each writes docs/results/catalogue-WHAT.json, from which `publish.py` makes the tables.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import soundfile
import soxr
from catalogue_faults import descendants, scan_under_kills
from numpy.typing import NDArray

import ideaw
from ideaw.audio.blocks import split_blocks
from ideaw.catalogue.cache import KeyTemplates
from ideaw.catalogue.evidence import EvidenceRecorder, size_per_hour, unpack
from ideaw.catalogue.run import run_job
from ideaw.catalogue.searching import FileSearcher
from ideaw.catalogue.settings import Engine, ScanOptions
from ideaw.catalogue.shards import read_parts
from ideaw.catalogue.storage import Storage
from ideaw.detector import Detector
from ideaw.keys import PUBLIC, Key
from ideaw.listening import Listening

RESULTS = Path(__file__).parent.parent / "docs/results"
RATE_HZ, MESSAGE = 16_000, "hour"
MUSIC_RATE_HZ = 44_100
TRACK_SECONDS = 210
"""Length of a track of a catalogue on paper."""

SAMPLING_SECONDS = 0.1
"""Time between two looks at the CPU that processes have used."""

MARKED_FROM = {"nowhere": None, "the beginning": 0.0, "the middle": 0.5, "one minute in the hour": 0.37}
"""What of an hour is marked: from that share of it on to its end, or a minute from there on."""


def main() -> None:
    """Measure one thing, print it, and write it down."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    faults = commands.add_parser("faults", help="workers and drivers killed, a bucket that is busy")
    faults.add_argument("--engine", choices=("local", "ray"), default="local")
    faults.add_argument("--files", type=int, default=2000)
    faults.add_argument("--shard-size", type=int, default=50)
    faults.add_argument("--drivers", type=int, default=4, help="drivers that are killed")
    faults.add_argument("--workers", type=int, default=12, help="workers that are killed")
    faults.add_argument("--pause", type=float, default=4.0, help="seconds between kills, on average")
    faults.add_argument("--busy", type=float, default=0.02, help="share of requests that the bucket refuses")
    faults.set_defaults(measure=measure_faults)
    overhead = commands.add_parser("overhead", help="CPU of an engine beside that of detection")
    overhead.add_argument("--engine", choices=("local", "ray"), default="local")
    overhead.add_argument("--files", type=int, default=2000)
    overhead.add_argument("--seconds", type=float, default=8.0)
    overhead.set_defaults(measure=measure_overhead)
    scaling = commands.add_parser("scaling", help="two workers beside one")
    scaling.add_argument("--files", type=int, default=400)
    scaling.add_argument("--seconds", type=float, default=8.0)
    scaling.set_defaults(measure=measure_scaling)
    listening = commands.add_parser("listening", help="until sure, and probes, on long files")
    listening.add_argument("--hours", type=float, default=1.0)
    listening.add_argument("--trials", type=int, default=20, help="marks at random places, of each length")
    listening.set_defaults(measure=measure_listening)
    cache = commands.add_parser("cache", help="many keys in what the network heard")
    cache.add_argument("--hours", type=float, default=10.0)
    cache.add_argument("--keys", type=int, default=1000)
    cache.add_argument("--clips", type=int, default=20, help="files of each kind whose marks are hard to find")
    cache.set_defaults(measure=measure_cache)
    for name, command in commands.choices.items():
        command.add_argument("--json", type=Path, default=RESULTS / f"catalogue-{name}.json")
    options = parser.parse_args()
    table = options.measure(options)
    print(json.dumps(table, indent=2))
    options.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


def measure_faults(options: argparse.Namespace) -> dict[str, Any]:
    """Both engines stand in one file, each as it was measured last."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = scan_under_kills(
            Path(folder),
            options.engine,
            options.files,
            options.shard_size,
            options.drivers,
            options.workers,
            options.pause,
            options.busy,
        )
    return _beside(options.json, {options.engine: asdict(outcome)})


def measure_overhead(options: argparse.Namespace) -> dict[str, Any]:
    """CPU of all processes of a job, less that of a job on two files, over the CPU of detection in the same run."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in")
        write_clips(source, options.files, options.seconds)
        start = run_scan(source, Path(folder, "start"), options.engine, workers=2, files=2, shard_size=1)
        whole = run_scan(source, Path(folder, "whole"), options.engine, workers=2)
    detection = whole["detection_cpu"] - start["detection_cpu"]
    engine = whole["cpu"] - start["cpu"] - detection
    result = {
        "files": options.files,
        "seconds": options.seconds,
        "start_cpu": start["cpu"] - start["detection_cpu"],
        "detection_cpu": detection,
        "engine_cpu": engine,
        "share": engine / (engine + detection),
        "wall": whole["wall"],
    }
    return _beside(options.json, {options.engine: result})


def measure_scaling(options: argparse.Namespace) -> dict[str, Any]:
    """Rates of one worker and of two, in turns; and how much more CPU a file takes beside another worker."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in")
        write_clips(source, options.files, options.seconds)
        turns = [
            {workers: run_scan(source, Path(folder, f"{turn}-{workers}"), "local", workers) for workers in (1, 2)}
            for turn in range(3)
        ]
    rates = [{workers: options.files / run["working_wall"] for workers, run in turn.items()} for turn in turns]
    return {
        "files": options.files,
        "seconds": options.seconds,
        "turns": turns,
        "times_one_worker": float(np.median([rate[2] / rate[1] for rate in rates])),
        "cpu_ratio": float(np.median([turn[2]["detection_cpu"] / turn[1]["detection_cpu"] for turn in turns])),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[2],
    }


def measure_listening(options: argparse.Namespace) -> dict[str, Any]:
    """CPU with decoding, of a WAV and an MP3 of an hour, by how much is heard; and marks that probes miss."""
    modes = {
        "all": ScanOptions("none", until_sure=False),
        "until sure": ScanOptions("none"),
        "12 probes": ScanOptions("none", until_sure=False, probes=12),
        "12 probes, until sure": ScanOptions("none", probes=12),
    }
    network, rows = ideaw.load(threads=1).network, []
    with tempfile.TemporaryDirectory() as folder:
        for marked, begin in MARKED_FROM.items():
            samples = an_hour(options.hours, begin, 60 / 3600 / options.hours if "minute" in marked else None)
            for extension in (".wav", ".mp3") if begin in (None, 0.0) else (".wav",):
                path = Path(folder, f"hour{extension}")
                soundfile.write(path, samples, MUSIC_RATE_HZ)
                for mode, chosen in modes.items():
                    detection, cost = FileSearcher(network, [PUBLIC], chosen).search(path)
                    rows.append(
                        {
                            "marked": marked,
                            "file": extension[1:],
                            "mode": mode,
                            "status": detection.status,
                            "heard_seconds": cost.heard_seconds,
                            "cpu_seconds": cost.cpu_seconds,
                        }
                    )
                    print(rows[-1], flush=True)
    return {"hours": options.hours, "rows": rows, "missed": missed_by_probes(options.hours, options.trials)}


def missed_by_probes(hours: float, trials: int, probes: int = 12) -> list[dict[str, Any]]:
    """Marks of several lengths at random places of unmarked audio: how many 12 probes find, and listening to all."""
    rng, marker = np.random.default_rng(0), ideaw.load(threads=1)
    plain, whole = packaged(MUSIC_RATE_HZ), []
    mono = soxr.resample(plain.mean(1), MUSIC_RATE_HZ, RATE_HZ).astype(np.float32)
    marked = np.tile(marker.embed(mono, RATE_HZ, MESSAGE), 40)
    length = round(hours * 3600 * RATE_HZ)
    audio = np.tile(mono, -(-length // len(mono)))[:length]
    for seconds in (10, 60, 300, 900):
        found = 0
        for _ in range(trials):
            begin = round(rng.uniform(0, length - seconds * RATE_HZ))
            piece = np.resize(marked, seconds * RATE_HZ)
            mixed = audio.copy()
            mixed[begin : begin + len(piece)] = piece
            answer = detect(marker, mixed, ScanOptions("none", probes=probes))
            found += answer == "found"
        whole.append({"marked_seconds": seconds, "trials": trials, "probes": probes, "found": found})
        print(whole[-1], flush=True)
    return whole


def detect(marker: ideaw.Marker, audio: NDArray[np.float32], options: ScanOptions) -> str:
    """The status of mono audio at 16 kHz."""
    blocks = partial(split_blocks, audio[:, None], 5 * RATE_HZ)
    listening = Listening(options.until_sure, options.probes)
    return Detector(marker.network, [PUBLIC], "none").detect(blocks, RATE_HZ, 1, len(audio), None, listening).status


def measure_cache(options: argparse.Namespace) -> dict[str, Any]:
    """Size, time per key and marks found in the cache, beside a scan that listens."""
    marker, keys = ideaw.load(threads=1), [Key(number.to_bytes(32, "big")) for number in range(options.keys)]
    began = time.process_time()
    templates = KeyTemplates(marker.network, keys)
    prepared = time.process_time() - began
    tracks = round(options.hours * 3600 / TRACK_SECONDS)
    plain = track()
    record = EvidenceRecorder()
    began = time.process_time()
    listen(marker, plain, record)
    hearing = time.process_time() - began
    row = record.packed(TRACK_SECONDS)
    began, located = time.process_time(), 0
    for _ in range(tracks):
        places = templates.locate(unpack(row["evidence"], row["hops"], row["rows"]))
        located += sum(place.p_value < 1e-6 for place in places)
    searching = time.process_time() - began
    return {
        "hours": tracks * TRACK_SECONDS / 3600,
        "keys": options.keys,
        "bytes_per_hour": size_per_hour(row["evidence"], row["hops"]),
        "prepare_cpu": prepared,
        "search_cpu": searching,
        "cpu_per_key": searching / options.keys,
        "listening_cpu": hearing * tracks,
        "false_locations": located,
        "losses": cache_losses(options.clips),
    }


def cache_losses(clips: int) -> list[dict[str, Any]]:
    """Files whose marks are hard to find, under twenty keys: by a scan that listens, and by one of its cache."""
    rng = np.random.default_rng(0)
    mono = packaged(RATE_HZ).mean(1)
    keys, out = [Key((10_000 + number).to_bytes(32, "big")) for number in range(clips)], []
    for seconds, noise in product((12, 60), (0.0, 0.005, 0.01, 0.015)):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "in")
            source.mkdir()
            for number, key in enumerate(keys):
                plain = np.resize(np.roll(mono, number * 7_919), seconds * RATE_HZ)
                marked = ideaw.load(key=key, threads=1).embed(plain, RATE_HZ, "a")
                noisy = marked + noise * rng.standard_normal(len(marked))
                soundfile.write(source / f"{number:02}.flac", noisy, RATE_HZ)
            first, second = str(Path(folder, "first")), str(Path(folder, "second"))
            listened = ScanOptions("none", until_sure=False, cache=True)
            run_job(str(source), first, listened, keys=keys, engine=Engine(workers=1))
            run_job(first, second, ScanOptions("none", heard=first), keys=keys, engine=Engine(workers=1))
            counts = {name: count_statuses(out) for name, out in (("listened", first), ("cached", second))}
        out.append({"seconds": seconds, "noise": noise, "files": clips} | counts)
        print(out[-1], flush=True)
    return out


def count_statuses(out: str) -> dict[str, int]:
    """How many files of a job had which status."""
    statuses = pa.concat_tables(read_parts(Storage(out), ["status"]))["status"].to_pylist()
    return {status: statuses.count(status) for status in ("found", "unreadable", "none")}


def listen(marker: ideaw.Marker, audio: NDArray[np.float32], record: EvidenceRecorder, key: Key = PUBLIC) -> str:
    """The status of mono audio at 16 kHz, all of it heard, and what was heard kept."""
    blocks = partial(split_blocks, audio[:, None], 5 * RATE_HZ)
    detector = Detector(marker.network, [key], "none")
    return detector.detect(blocks, RATE_HZ, 1, len(audio), None, keep_evidence=record.keep).status


def packaged(rate: int) -> NDArray[np.float32]:
    """The packaged music and speech one after the other, `(n, 2)` at a rate in Hz."""
    parts = []
    for name in ("music.ogg", "speech.flac"):
        content = resources.files("ideaw").joinpath("samples", name).read_bytes()
        samples, own = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
        parts.append(soxr.resample(np.broadcast_to(samples, (len(samples), 2)), own, rate))
    return np.concatenate(parts).astype(np.float32)


def track() -> NDArray[np.float32]:
    """A track of TRACK_SECONDS at 16 kHz."""
    return np.resize(packaged(RATE_HZ).mean(1), TRACK_SECONDS * RATE_HZ).astype(np.float32)


def an_hour(hours: float, begin: float | None, share: float | None) -> NDArray[np.float32]:
    """Stereo at 44.1 kHz of so many hours, marked from a share of it on, to its end or for a share of it."""
    one = packaged(MUSIC_RATE_HZ)
    length = round(hours * 3600 * MUSIC_RATE_HZ)
    samples = np.tile(one, (-(-length // len(one)), 1))[:length]
    if begin is not None:
        marked = np.tile(ideaw.load(threads=1).embed(one, MUSIC_RATE_HZ, MESSAGE), (-(-length // len(one)), 1))
        first = round(begin * length)
        last = length if share is None else first + round(share * length)
        samples[first:last] = marked[first:last]
    return samples


def write_clips(folder: Path, count: int, seconds: float) -> None:
    """Clips of music and speech in stereo, every tenth marked, as FLAC: decoding is part of the figures."""
    folder.mkdir()
    plain = np.tile(packaged(MUSIC_RATE_HZ), (2, 1))
    marked = ideaw.load(threads=1).embed(plain, MUSIC_RATE_HZ, MESSAGE)
    length, contents = round(seconds * MUSIC_RATE_HZ), []
    for number in range(20):
        start, file = number * 10_007, io.BytesIO()
        samples = (plain if number % 10 else marked)[start : start + length]
        soundfile.write(file, samples, MUSIC_RATE_HZ, format="FLAC")
        contents.append(file.getvalue())
    for number in range(count):
        (folder / f"{number:06}.flac").write_bytes(contents[number % len(contents)])


def run_scan(
    source: Path, out: Path, engine: str, workers: int, files: int | None = None, shard_size: int = 50
) -> dict[str, float]:
    """A scan as a process: CPU of it and all that it started, CPU of detection by its rows, and wall clocks."""
    what = str(source) if files is None else str(source / f"00000[0-{files - 1}].flac")
    command = [
        *(sys.executable, "-m", "ideaw", "scan", what, "--out", str(out), "--engine", engine),
        *("--speeds", "none", "--workers", str(workers), "--shard-size", str(shard_size), "--json"),
    ]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as job:
        cpu = watch_cpu(job)
        wall = time.monotonic() - began
        assert job.stdout is not None
        told = json.loads(job.stdout.read())
    rows = pa.concat_tables(read_parts(Storage(str(out)), ["cpu_seconds"]))
    detection = float(np.nansum(rows["cpu_seconds"].to_numpy()))
    return {"cpu": cpu, "detection_cpu": detection, "wall": wall, "working_wall": told["wall_seconds"]}


def watch_cpu(process: "subprocess.Popen[bytes]") -> float:
    """Wait for a process; seconds of CPU that it and all that it started used, as far as they were seen."""
    used: dict[int, float] = {}
    while process.poll() is None:
        for pid in (process.pid, *descendants(process.pid)):
            used[pid] = max(used.get(pid, 0.0), cpu_seconds(pid))
        time.sleep(SAMPLING_SECONDS)
    return sum(used.values())


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used; 0 if it is no more."""
    with suppress(OSError, IndexError):
        columns = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(columns[11]) + int(columns[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _beside(path: Path, measured: dict[str, Any]) -> dict[str, Any]:
    """What was measured, with what stands in a file of it already."""
    return (json.loads(path.read_text()) if path.exists() else {}) | measured


if __name__ == "__main__":
    main()
