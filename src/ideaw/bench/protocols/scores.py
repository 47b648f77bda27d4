"""What the trials of a preset come to: a row for each attack or threat, with intervals of 95 %."""

import csv
import dataclasses
import io
from dataclasses import dataclass
from typing import Any

from ideaw.bench.cache import Record
from ideaw.bench.protocols.preset import Preset, Row
from ideaw.bench.protocols.system import MEASURES, Subject
from ideaw.bench.statistics import Detected, Share, arriving, detected, mean, share

ALARMS = {"1e-2": 1e-2, "1e-3": 1e-3, "1e-4": 1e-4}
"""Shares of unmarked audio that may be taken for marked."""

QUALITY = -1
"""In place of a row: the trial that measures quality."""

EMPTY = {"value": "", "low": "", "high": ""}
"""A share that there is not, in the spreadsheet."""

DIGITS = 6
"""Of numbers in the spreadsheet, after the point."""


@dataclass(frozen=True)
class AttackRow:
    """One attack. Shares are of clips, with intervals of 95 %; without messages there are none of these."""

    label: str
    clips: int
    failed: int
    """Searches that broke down or took too long, in marked and unmarked clips; nothing was found in them."""
    bits: Share | None
    """Message bits that are right; half of them where no mark was located."""
    exact: Share | None
    """Whole messages that are right."""
    wrong: Share | None
    """Other messages that were given."""
    seen: Share
    """Marks that are found by the system's own decision."""
    found: dict[str, Detected]
    """Marks that are found, by the share of false alarms that is allowed."""
    capacity: Share | None
    """Bits that arrive in a second of audio: a clip's message over a symmetric channel with its share of errors."""
    alarms: Share
    """Unmarked clips under the same attack in which a mark was found."""


@dataclass(frozen=True)
class ThreatRow:
    """One threat: the answers, and how many are as they should be; intervals of 95 %.

    Of a system without messages, right is that a mark was found, and nothing can be wrong.
    """

    label: str
    clips: int
    failed: int
    """Trials that broke down or took too long: the answer was none, and is never as it should be."""
    right: Share
    wrong: Share | None
    none: Share
    should: str
    kept: Share


@dataclass(frozen=True)
class Table:
    """What one of the presets measured."""

    preset: str
    title: str
    about: str
    system: str
    snr: float | None
    """In dB, that every second keeps at least; None where none is promised."""
    clips: int
    seconds: float
    rate: int
    channels: int
    left_out: dict[str, str]
    """Files of which no clip could be marked, and why."""
    skipped: dict[str, str]
    """Rows that this system cannot have, and why."""
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
        if isinstance(value, dict) or value is None:
            out |= _flat(EMPTY if value is None else value, column)
        else:
            out[column] = round(value, DIGITS) if isinstance(value, float) else value
    return out


def quality(records: list[Record]) -> dict[str, Share]:
    """Means over the clips for which a measure has a value."""
    measured = [record["quality"] for record in records if record["row"] == QUALITY]
    values = {name: [each[name] for each in measured if name in each] for name in MEASURES}
    return {name: mean(each) for name, each in values.items() if each}


def rows(preset: Preset, subject: Subject, records: list[Record]) -> list[AttackRow] | list[ThreatRow]:
    """The rows of a preset for what was measured."""
    by_row = [[record for record in records if record["row"] == place] for place in range(len(preset.rows))]
    pairs = list(zip(preset.rows, by_row, strict=True))
    if preset.security:
        return [_threat_row(row, trials, subject.bits > 0) for row, trials in pairs]
    everywhere = None if subject.p_values else [trial["unmarked_doubt"] for trials in by_row for trial in trials]
    return [_attack_row(row, trials, subject.carried / preset.seconds, everywhere) for row, trials in pairs]


def _attack_row(row: Row, trials: list[Record], sent: float, everywhere: list[float] | None) -> AttackRow:
    """`sent` is in bits for each second of audio; `everywhere` are doubts about the unmarked clips of all rows."""
    marked, unmarked = ([trial[name] for trial in trials] for name in ("doubt", "unmarked_doubt"))
    right, wrong, bits = ([trial[name] for trial in trials] for name in ("right", "wrong", "bits"))
    return AttackRow(
        row.label,
        len(trials),
        sum(trial["failed"] for trial in trials),
        share(bits) if sent else None,
        share(right) if sent else None,
        share(wrong) if sent else None,
        share([float(one or other) for one, other in zip(right, wrong, strict=True)]),
        {name: detected(marked, unmarked, alarms, everywhere) for name, alarms in ALARMS.items()},
        share([arriving(each) for each in bits], sent) if sent else None,
        share([trial["alarm"] for trial in trials]),
    )


def _threat_row(row: Row, trials: list[Record], messages: bool) -> ThreatRow:
    assert row.should is not None
    answers = [trial["answer"] for trial in trials]
    right, wrong, none = (share([answer == kind for answer in answers]) for kind in ("right", "wrong", "none"))
    fits = [answer != "wrong" if row.should == "not wrong" else answer == row.should for answer in answers]
    failed = [trial["failed"] for trial in trials]
    kept = share([fit and not broken for fit, broken in zip(fits, failed, strict=True)])
    return ThreatRow(row.label, len(trials), sum(failed), right, wrong if messages else None, none, row.should, kept)
