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

from ideaw.audio.buffer import Progress
from ideaw.bench import cache
from ideaw.bench.corpus import QUIETEST, packaged, paths_under
from ideaw.bench.protocols import report, scores
from ideaw.bench.protocols.peer_system import Theirs
from ideaw.bench.protocols.preset import Preset, Row
from ideaw.bench.protocols.scores import QUALITY, Table
from ideaw.bench.protocols.security import THREATS, lacking
from ideaw.bench.protocols.system import Bits, Ours, Settings, Subject, clip_of
from ideaw.engine.network import cores
from ideaw.errors import AudioError, FileError, IdeawError

METRICS, TABLE = "metrics.json", "report.csv"

GUESSED = 0.5
"""Share of the bits that is right where no mark was located: what guessing gives."""

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
) -> Table:
    """Measure a model on one clip of every file under `data` (None: the packaged samples; at most `limit` of them).

    With `peer`, one of `SYSTEMS` is measured instead, with its `weights` where they do not come with it. What is in the
    folder `out` already is not measured again. `workers` is the number of processes (None: all cores); as always where
    processes are spawned, a script that calls this needs `if __name__ == "__main__":`.
    """
    if peer is not None and (model is not None or snr is not None):
        raise IdeawError("a model and an SNR are for our own marks; leave them out where a peer is measured")
    if peer is None and weights is not None:
        raise IdeawError("weights are for a peer; say which, or give a model")
    folder = packaged() if data is None else data
    paths = _loud(preset, folder, limit)
    settings = Settings(paths, preset.rate, preset.seconds, preset.channels, seed, model, snr, peer, weights)
    with contextlib.closing(Ours(settings) if peer is None else Theirs(settings)) as subject:
        return _measured(preset, folder, subject, out, workers or cores(), progress)


def _measured(
    preset: Preset, folder: Path, subject: Subject, out: Path | None, workers: int, progress: Progress | None
) -> Table:
    """The table of a preset for a subject whose files lie in `folder`, kept in `out`."""
    skipped = {row.label: why for row in preset.rows if row.threat and (why := lacking(row.threat, subject))}
    preset = dataclasses.replace(preset, rows=tuple(row for row in preset.rows if row.label not in skipped))
    if not preset.rows:
        raise IdeawError(f"preset {preset.name} has no row for this system: {next(iter(skipped.values()))}")
    paths = subject.settings.paths
    clips = [(str(path.relative_to(folder)), path.stat().st_size) for path in paths]
    kept = cache.Run(
        out,
        {"preset": preset.name}
        | subject.configuration()
        | {
            "rows": hashlib.sha256(repr(preset).encode()).hexdigest(),
            "seed": subject.settings.seed,
            "clips": clips,
        },
    )
    done = {(record["clip"], record["row"]) for record in kept.records}
    wanted = [(clip, row) for clip in range(len(paths)) for row in (QUALITY, *range(len(preset.rows)))]
    tasks = [task for task in wanted if task not in done]
    for record in cache.everywhere(
        _start, (preset, subject), _trial, tasks, workers, progress, len(wanted) - len(tasks)
    ):
        kept.add(record)
    records = sorted(kept.records, key=lambda record: (record["clip"], record["row"]))
    left_out = {record["clip"]: record["left_out"] for record in records if "left_out" in record}
    marked = [number for number in range(len(paths)) if number not in left_out]
    if not marked:
        raise FileError(f"{folder} holds no audio file that can be marked: {next(iter(left_out.values()))}")
    measured = [record for record in records if record["clip"] not in left_out]
    table = Table(
        preset.name,
        preset.title,
        preset.about,
        subject.title,
        subject.snr,
        len(marked),
        preset.seconds,
        preset.rate,
        preset.channels,
        {clips[number][0]: why for number, why in left_out.items()},
        skipped,
        scores.quality(measured),
        scores.rows(preset, subject, measured),
    )
    if out is not None:
        cache.write(out / METRICS, json.dumps(dataclasses.asdict(table), indent=2) + "\n")
        cache.write(out / TABLE, scores.as_csv(table))
        report.write(out, table, preset, subject, marked)
    return table


def _loud(preset: Preset, folder: Path, limit: int | None) -> tuple[Path, ...]:
    """The files whose clips are loud enough to be measured."""
    loud = []
    for path in paths_under(folder, limit):
        clip = clip_of(path, preset.seconds, preset.rate, preset.channels)
        if np.sqrt(np.square(clip, dtype=np.float64).mean()) > QUIETEST:
            loud.append(path)
    if not loud:
        raise FileError(f"{folder} holds no audio file above −40 dBFS")
    return tuple(loud)


_running: tuple[Preset, Subject]
"""What this process works on."""


def _start(preset: Preset, subject: Subject) -> None:
    """What a process needs before its first trial."""
    global _running
    _running = preset, subject


def _trial(task: Task) -> cache.Record:
    """One clip in one row; only that it is left out, where it cannot be marked."""
    preset, subject = _running
    number, place = task
    record: cache.Record = {"clip": number, "row": place}
    try:
        subject.clip(number)
    except AudioError as problem:
        return record | {"left_out": str(problem)}
    if place == QUALITY:
        return record | {"quality": subject.quality(number)}
    row = preset.rows[place]
    return record | (_threatened if row.threat else _survived)(preset, subject, row, number)


def _survived(preset: Preset, subject: Subject, row: Row, number: int) -> cache.Record:
    """What is found in a marked clip and in the same clip without a mark, both attacked."""
    clip = subject.clip(number)
    answer = subject.search(preset.attacked(row, clip.marked, subject.settings.seed, number))
    unmarked = subject.search(preset.attacked(row, clip.host, subject.settings.seed, number))
    return {
        "right": answer.found and answer.message == clip.message,
        "wrong": answer.found and answer.message != clip.message,
        "doubt": answer.doubt,
        "bits": _right(clip.sent, answer.read),
        "alarm": unmarked.found,
        "unmarked_doubt": unmarked.doubt,
        "failed": answer.failed + unmarked.failed,
    }


def _right(sent: Bits, read: Bits) -> float:
    """The share of bits that is right."""
    return float(np.equal(sent, read).mean()) if sent and len(read) == len(sent) else GUESSED


def _threatened(preset: Preset, subject: Subject, row: Row, number: int) -> cache.Record:
    """What is found where somebody has tampered; nothing where the system cannot be made to."""
    assert row.threat is not None
    try:
        case = THREATS[row.threat](subject, number)
    except AudioError:
        return {"answer": "none", "failed": True}
    answer = subject.search(case.audio, case.key)
    said = "none" if not answer.found else "right" if answer.message in case.right else "wrong"
    return {"answer": said, "failed": answer.failed}
