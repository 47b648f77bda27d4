"""What the trials of a preset come to: a row for each attack or threat, with intervals of 95 %."""

import csv
import dataclasses
import io
from dataclasses import dataclass
from typing import Any

from ideaw.bench.chances import Detected, Share, arriving, detected, mean, share
from ideaw.bench.preset import Preset, Row
from ideaw.bench.runs import Record
from ideaw.bench.subject import MEASURES

ALARMS = {"1e-2": 1e-2, "1e-3": 1e-3, "1e-4": 1e-4}
"""Shares of unmarked audio that may be taken for marked."""

QUALITY = -1
"""In place of a row: the trial that measures quality."""

DIGITS = 6
"""Of numbers in the spreadsheet, after the point."""


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
    left_out: dict[str, str]
    """Files of which no clip could be marked, and why."""
    quality: dict[str, Share]
    """Of marked clips against their hosts: means."""
    rows: list[AttackRow] | list[ThreatRow]


def as_csv(table: Table) -> str:
    """The rows as a spreadsheet takes them: values and intervals side by side."""
    text = io.StringIO()
    flat = [_flat(dataclasses.asdict(row)) for row in table.rows]
    writer = csv.DictWriter(text, flat[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(content: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Columns and their values; those of a share are its own name and that with "low" and "high"."""
    out: dict[str, Any] = {}
    for name, value in content.items():
        column = before if name in ("value", "share") else f"{before} {name}".strip()
        if isinstance(value, dict):
            out |= _flat(value, column)
        else:
            out[column] = round(value, DIGITS) if isinstance(value, float) else value
    return out


def quality(records: list[Record]) -> dict[str, Share]:
    """Means over the clips for which a measure has a value."""
    measured = [record["quality"] for record in records if record["row"] == QUALITY]
    values = {name: [each[name] for each in measured if name in each] for name in MEASURES}
    return {name: mean(each) for name, each in values.items() if each}


def rows(preset: Preset, bits: int, records: list[Record]) -> list[AttackRow] | list[ThreatRow]:
    """The rows of a preset; `bits` is how many message bits the model has."""
    by_row = [[record for record in records if record["row"] == place] for place in range(len(preset.rows))]
    pairs = list(zip(preset.rows, by_row, strict=True))
    if preset.security:
        return [_threat_row(row, trials) for row, trials in pairs]
    return [_attack_row(row, trials, bits / preset.seconds) for row, trials in pairs]


def _attack_row(row: Row, trials: list[Record], sent: float) -> AttackRow:
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


def _threat_row(row: Row, trials: list[Record]) -> ThreatRow:
    assert row.should is not None
    answers = [trial["answer"] for trial in trials]
    right, wrong, none = (share([answer == kind for answer in answers]) for kind in ("right", "wrong", "none"))
    kept = [answer != "wrong" if row.should == "not wrong" else answer == row.should for answer in answers]
    return ThreatRow(row.label, len(trials), right, wrong, none, row.should, share(kept))
