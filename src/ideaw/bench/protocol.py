"""The public protocols: marked and unmarked clips under the attacks of a preset, searched as users search them.

Marked audio tells how many marks survive, unmarked audio under the very same attack how often a mark is seen that is
not there. Every clip and row is one trial; trials are made on all cores and kept in a folder (`runs.py`).
"""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np

from ideaw.audio.blocks import Progress
from ideaw.bench import outcome, pages, runs
from ideaw.bench.folder import QUIETEST, packaged, paths_under
from ideaw.bench.outcome import QUALITY, Table
from ideaw.bench.preset import Preset, Row
from ideaw.bench.security import THREATS
from ideaw.bench.subject import Settings, Subject, clip_of
from ideaw.engine.network import cores
from ideaw.errors import AudioError, FileError

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
) -> Table:
    """Measure a model on one clip of every file under `data` (None: the packaged samples; at most `limit` of them).

    What is in the folder `out` already is not measured again. `workers` is the number of processes (None: all cores);
    as always where processes are spawned, a script that calls this needs `if __name__ == "__main__":`.
    """
    folder = packaged() if data is None else data
    paths = _loud(preset, folder, limit)
    settings = Settings(paths, preset.rate, preset.seconds, preset.channels, model, snr, seed)
    subject = Subject(settings)
    marker = subject.marker
    clips = [(str(path.relative_to(folder)), path.stat().st_size) for path in paths]
    kept = runs.Run(
        out,
        {
            "preset": preset.name,
            "rows": hashlib.sha256(repr(preset).encode()).hexdigest(),
            "model": marker.card.name,
            "weights": marker.weights,
            "snr": snr,
            "seed": seed,
            "clips": clips,
        },
    )
    done = {(record["clip"], record["row"]) for record in kept.records}
    wanted = [(clip, row) for clip in range(len(paths)) for row in (QUALITY, *range(len(preset.rows)))]
    tasks = [task for task in wanted if task not in done]
    for record in runs.everywhere(
        _start, (preset, settings), _trial, tasks, workers or cores(), progress, len(wanted) - len(tasks)
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
        marker.card.name,
        marker.card.snr if snr is None else snr,
        len(marked),
        preset.seconds,
        preset.rate,
        preset.channels,
        {clips[number][0]: why for number, why in left_out.items()},
        outcome.quality(measured),
        outcome.rows(preset, marker.message_bits, measured),
    )
    if out is not None:
        runs.write(out / METRICS, json.dumps(dataclasses.asdict(table), indent=2) + "\n")
        runs.write(out / TABLE, outcome.as_csv(table))
        pages.write(out, table, preset, subject, marked)
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


def _start(preset: Preset, settings: Settings) -> None:
    """What a process needs before its first trial."""
    global _running
    _running = preset, Subject(settings)


def _trial(task: Task) -> runs.Record:
    """One clip in one row; only that it is left out, where it cannot be marked."""
    preset, subject = _running
    number, place = task
    record: runs.Record = {"clip": number, "row": place}
    try:
        subject.clip(number)
    except AudioError as problem:
        return record | {"left_out": str(problem)}
    if place == QUALITY:
        return record | {"quality": subject.quality(number)}
    row = preset.rows[place]
    return record | (_threatened if row.threat else _survived)(preset, subject, row, number)


def _survived(preset: Preset, subject: Subject, row: Row, number: int) -> runs.Record:
    """What is found in a marked clip and in the same clip without a mark, both attacked."""
    clip = subject.clip(number)
    answer = subject.search(preset.attacked(row, clip.marked, subject.settings.seed, number))
    unmarked = subject.search(preset.attacked(row, clip.host, subject.settings.seed, number))
    read = np.array(answer.bit_confidence) > 0
    return {
        "right": answer.found and answer.message == clip.message,
        "wrong": answer.found and answer.message != clip.message,
        "p_value": answer.p_value,
        "bits": float((read == clip.sent).mean()) if len(read) else GUESSED,
        "alarm": unmarked.found,
        "unmarked_p_value": unmarked.p_value,
    }


def _threatened(preset: Preset, subject: Subject, row: Row, number: int) -> runs.Record:
    """What is found where somebody has tampered."""
    assert row.threat is not None
    case = THREATS[row.threat](subject, number)
    answer = subject.search(case.audio, case.key)
    said = "none" if not answer.found else "right" if answer.message in case.right else "wrong"
    return {"answer": said, "p_value": answer.p_value}
