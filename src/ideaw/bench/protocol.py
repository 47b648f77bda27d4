"""The public protocols: marked and unmarked clips under the attacks of a preset, searched as users search them.

Marked audio tells how many marks survive, unmarked audio under the very same attack how often a mark is seen that is
not there. Every clip and row is one trial; trials are made on all cores and kept in a folder (`runs.py`).
"""

import csv
import dataclasses
import hashlib
import io
import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ideaw.attacks import catalogue
from ideaw.audio.blocks import Progress
from ideaw.bench import runs
from ideaw.bench.chances import Detected, Share, arriving, detected, mean, share
from ideaw.bench.folder import QUIETEST, paths_under
from ideaw.bench.preset import Preset, Row
from ideaw.bench.security import THREATS
from ideaw.bench.subject import Samples, Settings, Subject, clip_of
from ideaw.errors import FileError

METRICS, TABLE = "metrics.json", "report.csv"

ALARMS = {"1e-2": 1e-2, "1e-3": 1e-3, "1e-4": 1e-4}
"""Shares of unmarked audio that may be taken for marked."""

GUESSED = 0.5
"""Share of the bits that is right where no mark was located: what guessing gives."""

QUICK_CLIPS = 2
"""Clips of a quick run."""

QUALITY = -1
"""In place of a row: the trial that measures quality."""

Task = tuple[int, int]
"""A clip and a row."""


@dataclass(frozen=True)
class AttackRow:
    """One attack. Shares are of clips, with intervals of 95 %."""

    label: str
    clips: int
    bits: Share
    """Message bits that are right; half of them where no mark was located."""
    exact: Share
    """Whole messages that are right."""
    wrong: Share
    """Other messages that were given."""
    found: dict[str, Detected]
    """Marks that are found, by the share of false alarms that is allowed."""
    capacity: Share
    """Bits that arrive in a second of audio: a clip's message over a symmetric channel with its share of errors."""
    alarms: Share
    """Unmarked clips under the same attack in which a message was found."""


@dataclass(frozen=True)
class ThreatRow:
    """One threat: the answers, and how many are as they should be; intervals of 95 %."""

    label: str
    clips: int
    right: Share
    wrong: Share
    none: Share
    should: str
    kept: Share


@dataclass(frozen=True)
class Table:
    """What one of the presets measured."""

    preset: str
    title: str
    about: str
    model: str
    snr: float
    clips: int
    seconds: float
    rate: int
    channels: int
    quality: dict[str, Share]
    """Of marked clips against their hosts: means."""
    rows: list[AttackRow] | list[ThreatRow]


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
    folder = Path(str(resources.files("ideaw").joinpath("samples"))) if data is None else data
    paths = _loud(preset, folder, limit)
    settings = Settings(paths, preset.rate, preset.seconds, preset.channels, model, snr, seed)
    marker = Subject(settings).marker
    clips = [[str(path.relative_to(folder)), path.stat().st_size] for path in paths]
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
        _start, (preset, settings), _trial, tasks, workers or runs.cores(), progress, len(wanted) - len(tasks)
    ):
        kept.add(record)
    table = Table(
        preset.name,
        preset.title,
        preset.about,
        marker.card.name,
        marker.card.snr if snr is None else snr,
        len(paths),
        preset.seconds,
        preset.rate,
        preset.channels,
        _quality(kept.records),
        _rows(preset, marker.message_bits, kept.records),
    )
    if out is not None:
        runs.write(out / METRICS, json.dumps(dataclasses.asdict(table), indent=2) + "\n")
        runs.write(out / TABLE, as_csv(table))
    return table


def attacked(subject: Subject, preset: Preset, row: Row, number: int, audio: Samples) -> Samples:
    """(n, channels) under the attacks of a row; strengths and seeds are the same for all audio of one clip."""
    rng = np.random.default_rng([subject.settings.seed, number, 1000 + preset.rows.index(row)])
    length = len(audio)
    for step in row.steps:
        strengths = step.drawn(rng)
        audio = catalogue.run(step.attack, audio, preset.rate, int(rng.integers(1 << 31)), **strengths)
    if preset.keep_length:
        audio = np.pad(audio[:length], ((0, max(0, length - len(audio))), (0, 0)))
    return audio


def as_csv(table: Table) -> str:
    """The rows as a spreadsheet takes them: values and intervals side by side."""
    text = io.StringIO()
    flat = [_flat(dataclasses.asdict(row)) for row in table.rows]
    writer = csv.DictWriter(text, flat[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(content: dict[str, Any], before: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in content.items():
        column = before if name in ("value", "share") else f"{before} {name}".strip()
        out |= _flat(value, column) if isinstance(value, dict) else {column: value}
    return out


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


def _start(preset: Preset, settings: Settings) -> None:
    """What a process needs before its first trial."""
    global _running
    _running = preset, Subject(settings)


def _trial(task: Task) -> runs.Record:
    preset, subject = _running
    number, place = task
    record: runs.Record = {"clip": number, "row": place}
    if place == QUALITY:
        return record | {"quality": subject.quality(number)}
    row = preset.rows[place]
    return record | (_threatened if row.threat else _survived)(preset, subject, row, number)


def _survived(preset: Preset, subject: Subject, row: Row, number: int) -> runs.Record:
    """What is found in a marked clip and in the same clip without a mark, both attacked."""
    clip = subject.clip(number)
    answer = subject.search(attacked(subject, preset, row, number, clip.marked))
    unmarked = subject.search(attacked(subject, preset, row, number, clip.host))
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


def _quality(records: list[runs.Record]) -> dict[str, Share]:
    """Means over clips; of PESQ over those in which it hears speech."""
    measured = [record["quality"] for record in records if record["row"] == QUALITY]
    heard = {name: [each[name] for each in measured if each[name] == each[name]] for name in measured[0]}
    return {name: mean(values) for name, values in heard.items() if values}


def _rows(preset: Preset, bits: int, records: list[runs.Record]) -> list[AttackRow] | list[ThreatRow]:
    by_row = [[record for record in records if record["row"] == place] for place in range(len(preset.rows))]
    pairs = list(zip(preset.rows, by_row, strict=True))
    if preset.security:
        return [_threat_row(row, trials) for row, trials in pairs]
    return [_attack_row(row, trials, bits / preset.seconds) for row, trials in pairs]


def _attack_row(row: Row, trials: list[runs.Record], sent: float) -> AttackRow:
    """`sent` is in bits for each second of audio."""
    marked, unmarked = ([trial[name] for trial in trials] for name in ("p_value", "unmarked_p_value"))
    return AttackRow(
        row.label,
        len(trials),
        share([trial["bits"] for trial in trials]),
        share([trial["right"] for trial in trials]),
        share([trial["wrong"] for trial in trials]),
        {name: detected(marked, unmarked, alarms) for name, alarms in ALARMS.items()},
        share([arriving(trial["bits"]) for trial in trials], sent),
        share([trial["alarm"] for trial in trials]),
    )


def _threat_row(row: Row, trials: list[runs.Record]) -> ThreatRow:
    assert row.should is not None
    answers = [trial["answer"] for trial in trials]
    right, wrong, none = (share([answer == kind for answer in answers]) for kind in ("right", "wrong", "none"))
    kept = [answer != "wrong" if row.should == "not wrong" else answer == row.should for answer in answers]
    return ThreatRow(row.label, len(trials), right, wrong, none, row.should, share(kept))
