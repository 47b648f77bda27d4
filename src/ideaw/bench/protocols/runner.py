"""The public protocols: marked and unmarked clips under the attacks of a preset, searched as users search them.

Marked audio tells how many marks survive, unmarked audio under the very same attack how often a mark is seen that is
not there. Every clip and row is one trial; trials are made on all cores and kept in a folder (`cache.py`).
"""

import contextlib
import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np

from ideaw.audio.blocks import Progress
from ideaw.bench.cache import METRICS_FILE, Record, ResultCache, write_text
from ideaw.bench.corpus import is_loud, list_audio_files, packaged_samples, read_clip
from ideaw.bench.processes import map_processes
from ideaw.bench.protocols import report, scores
from ideaw.bench.protocols.peer_system import PeerSystem
from ideaw.bench.protocols.preset import Preset, Row
from ideaw.bench.protocols.scores import QUALITY_ROW, Table
from ideaw.bench.protocols.security import THREATS, why_not
from ideaw.bench.protocols.system import Bits, IdeawSystem, Settings, WatermarkSystem
from ideaw.engine.network import available_cores
from ideaw.errors import AudioError, FileError, IdeawError

TABLE_FILE = "report.csv"

CHANCE_ACCURACY = 0.5
"""Share of bits right by guessing; counted where no mark was located."""

Task = tuple[int, int]
"""A clip and a row."""


def run(
    preset: Preset,
    data: Path | None = None,
    model: str | None = None,
    snr: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    seed: int = 0,
    out: Path | None = None,
    workers: int | None = None,
    peer: str | None = None,
    weights: Path | None = None,
    audibility: float | None = None,
    lyra: Path | None = None,
) -> Table:
    """Measure a model on one clip of every file under `data` (None: the packaged samples; at most `limit` of them).

    With `peer`, one of `SYSTEMS` is measured instead, with its `weights` where they do not come with it. What is in the
    folder `out` already is not measured again. `workers` is the number of processes (None: all cores); as always where
    processes are spawned, a script that calls this needs `if __name__ == "__main__":`.
    `lyra` is the folder of the weights of Lyra v2; rows whose parts are missing are left out, and the table says so.
    """
    if lyra is not None:
        preset = preset.with_lyra(lyra)
    if peer is not None and (model is not None or snr is not None or audibility is not None):
        raise IdeawError("a model and a level are for our own marks; leave them out where a peer is measured")
    if peer is None and weights is not None:
        raise IdeawError("weights are for a peer; say which, or give a model")
    folder = packaged_samples() if data is None else data
    paths = _loud_files(preset, folder, limit)
    settings = Settings(
        paths, preset.rate, preset.seconds, preset.channels, seed, model, snr, audibility, peer, weights
    )
    with contextlib.closing(IdeawSystem(settings) if peer is None else PeerSystem(settings)) as system:
        return _measure(preset, folder, system, out, workers or available_cores(), progress)


def _measure(
    preset: Preset, folder: Path, system: WatermarkSystem, out: Path | None, workers: int, progress: Progress | None
) -> Table:
    """The table of a preset for a system whose files lie in `folder`, kept in `out`."""
    skipped = {row.label: why for row in preset.rows if (why := _why_not(preset, row, system))}
    preset = dataclasses.replace(preset, rows=tuple(row for row in preset.rows if row.label not in skipped))
    if not preset.rows:
        raise IdeawError(f"preset {preset.name} has no row for this system: {next(iter(skipped.values()))}")
    paths = system.settings.paths
    clips = [(str(path.relative_to(folder)), path.stat().st_size) for path in paths]
    results = ResultCache(
        out,
        {"preset": preset.name}
        | system.configuration()
        | {
            "rows": hashlib.sha256(repr(preset).encode()).hexdigest(),
            "seed": system.settings.seed,
            "clips": clips,
        },
    )
    done = {(record["clip"], record["row"]) for record in results.records}
    wanted = [(clip, row) for clip in range(len(paths)) for row in (QUALITY_ROW, *range(len(preset.rows)))]
    tasks = [task for task in wanted if task not in done]
    for record in map_processes(
        _initialise, (preset, system), _run_trial, tasks, workers, progress, len(wanted) - len(tasks)
    ):
        results.add(record)
    records = sorted(results.records, key=lambda record: (record["clip"], record["row"]))
    left_out = {record["clip"]: record["left_out"] for record in records if "left_out" in record}
    marked = [number for number in range(len(paths)) if number not in left_out]
    if not marked:
        raise FileError(f"{folder} holds no audio file that can be marked: {next(iter(left_out.values()))}")
    complete = [record for record in records if record["clip"] not in left_out]
    table = Table(
        preset.name,
        preset.title,
        preset.about,
        system.title,
        *system.level,
        len(marked),
        preset.seconds,
        preset.rate,
        preset.channels,
        {clips[number][0]: why for number, why in left_out.items()},
        skipped,
        scores.mean_quality(complete),
        scores.score_rows(preset, system, complete),
    )
    if out is not None:
        write_text(out / METRICS_FILE, json.dumps(dataclasses.asdict(table), indent=2) + "\n")
        write_text(out / TABLE_FILE, scores.as_csv(table))
        report.write(out, table, preset, system, marked)
    return table


def _why_not(preset: Preset, row: Row, system: WatermarkSystem) -> str | None:
    return why_not(row.threat, system) if row.threat else preset.why_not(row)


def _loud_files(preset: Preset, folder: Path, limit: int | None) -> tuple[Path, ...]:
    """The files whose clips are loud enough to be measured."""
    loud = []
    for path in list_audio_files(folder, limit):
        clip = read_clip(path, preset.seconds, preset.rate, preset.channels)
        if is_loud(clip):
            loud.append(path)
    if not loud:
        raise FileError(f"{folder} holds no audio file above −40 dBFS")
    return tuple(loud)


_running: tuple[Preset, WatermarkSystem]
"""What this process works on."""


def _initialise(preset: Preset, system: WatermarkSystem) -> None:
    """What a process needs before its first trial."""
    global _running
    _running = preset, system


def _run_trial(task: Task) -> Record:
    """One clip in one row; only that it is left out, where it cannot be marked."""
    preset, system = _running
    number, place = task
    record: Record = {"clip": number, "row": place}
    try:
        system.clip(number)
    except AudioError as problem:
        return record | {"left_out": str(problem)}
    if place == QUALITY_ROW:
        return record | {"quality": system.quality(number)}
    row = preset.rows[place]
    return record | (_threat_trial if row.threat else _attack_trial)(preset, system, row, number)


def _attack_trial(preset: Preset, system: WatermarkSystem, row: Row, number: int) -> Record:
    """What is found in a marked clip and in the same clip without a mark, both attacked."""
    clip = system.clip(number)
    attacked = preset.attack(row, clip.marked, system.settings.seed, number)
    answer = system.search(attacked)
    unmarked = system.search(preset.attack(row, clip.host, system.settings.seed, number))
    costs = {"cost": system.cost(clip.marked, attacked)} if preset.cost else {}
    return costs | {
        "right": answer.found and answer.message == clip.message,
        "wrong": answer.found and answer.message != clip.message,
        "doubt": answer.doubt,
        "bits": _bit_accuracy(clip.sent, answer.read),
        "alarm": unmarked.found,
        "unmarked_doubt": unmarked.doubt,
        "failed": answer.failed + unmarked.failed,
    }


def _bit_accuracy(sent: Bits, read: Bits) -> float:
    """The share of bits that is right."""
    return float(np.equal(sent, read).mean()) if sent and len(read) == len(sent) else CHANCE_ACCURACY


def _threat_trial(preset: Preset, system: WatermarkSystem, row: Row, number: int) -> Record:
    """What is found where somebody has tampered; nothing where the system cannot be made to."""
    assert row.threat is not None
    try:
        case = THREATS[row.threat](system, number)
    except AudioError:
        return {"answer": "none", "failed": True}
    answer = system.search(case.audio, case.key)
    verdict = "none" if not answer.found else "right" if answer.message in case.right else "wrong"
    return {"answer": verdict, "failed": answer.failed}
