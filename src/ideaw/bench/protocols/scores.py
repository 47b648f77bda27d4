"""Scores of a preset: the trials summed up in a row for each attack or threat, with 95 % intervals."""

import csv
import dataclasses
import io
from dataclasses import dataclass
from typing import Any

from ideaw.bench.cache import Record
from ideaw.bench.protocols.preset import Preset, Row
from ideaw.bench.protocols.system import COST_MEASURES, QUALITY_MEASURES, WatermarkSystem
from ideaw.bench.statistics import DetectionRate, Estimate, bsc_capacity, detection_rate, estimate_mean, estimate_share

FALSE_ALARM_RATES = {"1e-2": 1e-2, "1e-3": 1e-3, "1e-4": 1e-4}
"""False-alarm rates at which the detection rate is reported."""

QUALITY_ROW = -1
"""Row number of the trial that measures quality."""

EMPTY_CELLS = {"value": "", "low": "", "high": ""}
"""Cells of a missing share in the CSV file."""

CSV_DIGITS = 6
"""Decimals of numbers in the CSV file."""


@dataclass(frozen=True)
class AttackRow:
    """One attack. Shares are of clips, with intervals of 95 %; without messages there are none of these."""

    label: str
    clips: int
    failed: int
    """Searches that broke down or took too long, in marked and unmarked clips; nothing was found in them."""
    bits: Estimate | None
    """Message bits that are right; half of them where no mark was located."""
    exact: Estimate | None
    """Whole messages that are right."""
    wrong: Estimate | None
    """Other messages that were given."""
    seen: Estimate
    """Marks that are found by the system's own decision."""
    found: dict[str, DetectionRate]
    """Marks that are found, by the share of false alarms that is allowed."""
    capacity: Estimate | None
    """Bits that arrive in a second of audio: a clip's message over a symmetric channel with its share of errors."""
    alarms: Estimate
    """Unmarked clips under the same attack in which a mark was found."""
    cost: dict[str, Estimate | None] = dataclasses.field(default_factory=dict)
    """Measure → its mean over marked clips after the attack, against themselves before it; empty where the preset does
    not ask for it, None where the attack changes the length."""


@dataclass(frozen=True)
class ThreatRow:
    """One threat: the answers, and how many are as they should be; intervals of 95 %.

    Of a system without messages, right is that a mark was found, and nothing can be wrong.
    """

    label: str
    clips: int
    failed: int
    """Trials that broke down or took too long: the answer was none, and is never as it should be."""
    right: Estimate
    wrong: Estimate | None
    none: Estimate
    should: str
    kept: Estimate


@dataclass(frozen=True)
class Table:
    """What one of the presets measured."""

    preset: str
    title: str
    about: str
    system: str
    snr: float | None
    """In dB, that every second keeps at least; None where none is promised."""
    audibility: float | None
    """Noise to mask in dB that every second is brought to; None where it is not."""
    clips: int
    seconds: float
    rate: int
    channels: int
    left_out: dict[str, str]
    """Files of which no clip could be marked, and why."""
    skipped: dict[str, str]
    """Rows that this system cannot have, and why."""
    quality: dict[str, Estimate]
    """Measure → its mean over the marked clips, against their hosts."""
    rows: list[AttackRow] | list[ThreatRow]


def as_csv(table: Table) -> str:
    """The rows as a spreadsheet takes them: values and intervals side by side."""
    text = io.StringIO()
    flat = [_flatten(dataclasses.asdict(row)) for row in table.rows]
    writer = csv.DictWriter(text, flat[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flatten(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Columns and their values; those of a share are its own name and that with "low" and "high"."""
    out: dict[str, Any] = {}
    for name, value in content.items():
        column = prefix if name in ("value", "share") else f"{prefix} {name}".strip()
        if isinstance(value, dict) or value is None:
            out |= _flatten(EMPTY_CELLS if value is None else value, column)
        else:
            out[column] = round(value, CSV_DIGITS) if isinstance(value, float) else value
    return out


def mean_quality(records: list[Record]) -> dict[str, Estimate]:
    """Means over the clips for which a measure has a value."""
    measured = [record["quality"] for record in records if record["row"] == QUALITY_ROW]
    by_measure = {name: [clip[name] for clip in measured if name in clip] for name in QUALITY_MEASURES}
    return {name: estimate_mean(values) for name, values in by_measure.items() if values}


def score_rows(preset: Preset, system: WatermarkSystem, records: list[Record]) -> list[AttackRow] | list[ThreatRow]:
    """The rows of a preset for what was measured, in its order; of threats the worst first."""
    by_row = [[record for record in records if record["row"] == place] for place in range(len(preset.rows))]
    pairs = list(zip(preset.rows, by_row, strict=True))
    if preset.security:
        threats = [_threat_row(row, trials, system.bits > 0) for row, trials in pairs]
        return sorted(threats, key=lambda row: row.kept.value)
    pooled_unmarked = None if system.p_values else [trial["unmarked_doubt"] for trials in by_row for trial in trials]
    return [_attack_row(row, trials, system.carried / preset.seconds, pooled_unmarked) for row, trials in pairs]


def _attack_row(row: Row, trials: list[Record], sent_bps: float, pooled_unmarked: list[float] | None) -> AttackRow:
    """`sent_bps` are bits sent in a second; `pooled_unmarked` are doubts about the unmarked clips of all rows."""
    marked, unmarked = ([trial[name] for trial in trials] for name in ("doubt", "unmarked_doubt"))
    right, wrong, bits = ([trial[name] for trial in trials] for name in ("right", "wrong", "bits"))
    return AttackRow(
        row.label,
        len(trials),
        sum(trial["failed"] for trial in trials),
        estimate_share(bits) if sent_bps else None,
        estimate_share(right) if sent_bps else None,
        estimate_share(wrong) if sent_bps else None,
        estimate_share([float(one or other) for one, other in zip(right, wrong, strict=True)]),
        {name: detection_rate(marked, unmarked, alarms, pooled_unmarked) for name, alarms in FALSE_ALARM_RATES.items()},
        estimate_share([bsc_capacity(accuracy) for accuracy in bits], sent_bps) if sent_bps else None,
        estimate_share([trial["alarm"] for trial in trials]),
        _mean_cost([trial["cost"] for trial in trials if "cost" in trial]),
    )


def _mean_cost(costs: list[dict[str, float]]) -> dict[str, Estimate | None]:
    if not costs:
        return {}
    by_measure = {name: [cost[name] for cost in costs if name in cost] for name in COST_MEASURES}
    return {name: estimate_mean(values) if values else None for name, values in by_measure.items()}


def _threat_row(row: Row, trials: list[Record], messages: bool) -> ThreatRow:
    assert row.should is not None
    answers = [trial["answer"] for trial in trials]
    right, wrong, none = (estimate_share([answer == kind for answer in answers]) for kind in ("right", "wrong", "none"))
    fits = [answer != "wrong" if row.should == "not wrong" else answer == row.should for answer in answers]
    failed = [trial["failed"] for trial in trials]
    kept = estimate_share([fit and not broken for fit, broken in zip(fits, failed, strict=True)])
    return ThreatRow(row.label, len(trials), sum(failed), right, wrong if messages else None, none, row.should, kept)
