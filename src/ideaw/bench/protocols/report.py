"""The report of a preset: what was measured, in tables and pictures, and a few clips to listen to."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.corpus import evenly
from ideaw.bench.protocols.preset import Preset, Row
from ideaw.bench.protocols.scores import AttackRow, Table, ThreatRow
from ideaw.bench.protocols.security import THREATS
from ideaw.bench.protocols.system import Samples, Subject, mixed
from ideaw.bench.reports import html
from ideaw.bench.reports.html import Picture, Players, Section, Text, Track
from ideaw.bench.statistics import Share
from ideaw.errors import AudioError
from ideaw.quality import plots

LISTENED_CLIPS, LISTENED_ROWS, LISTENED_SECONDS = 2, 3, 5
"""What can be listened to: clips, attacks on each, and seconds of each."""

RESIDUAL_GAIN = plots.RESIDUAL_GAIN

Series = Mapping[str, Sequence[Share | None]]
"""What a picture shows: name → a share for each row."""

NONE = "–"
"""In place of what there is not."""

SHOULD = {"right": "the right message", "none": "none", "not wrong": "no wrong message"}
"""What the answers to a threat should be, in words."""


def write(folder: Path, table: Table, preset: Preset, subject: Subject, clips: Sequence[int]) -> None:
    """Write the report of a run into its folder; some of the numbered clips can be listened to."""
    measured = _threats(table) if preset.security else _attacks(table)
    listened = [part for k in evenly(len(clips), LISTENED_CLIPS) for part in _players(preset, subject, clips[k])]
    note = Text(f"Mono, 16 kHz, the first {LISTENED_SECONDS} s. The residual is what the mark adds, ten times as loud.")
    sections = [_setting(table), *measured, Section("To listen to", [note, *listened])]
    html.write(folder, f"{table.title}: {table.system}", sections)


def heads(security: bool) -> tuple[str, ...]:
    """Of the table that `rows` fills."""
    if security:
        return ("threat", "clips", "right", "wrong", "none", "should be", "as it should", "95 %")
    read = ("bits right", "95 %", "message right", "95 % ", "mark seen", "95 %  ")
    found = ("found at 1e-2", "1e-3", "1e-4", "by")
    return ("attack", "clips", *read, *found, "bits/s", "false alarms", "95 %   ")


def rows(table: Table) -> list[tuple[str, ...]]:
    """The table as it is shown; the CSV file has every interval."""
    return [_attack(row) if isinstance(row, AttackRow) else _threat(row) for row in table.rows]


def setting(table: Table) -> str:
    """One line about what was measured."""
    left_out = f" ({len(table.left_out)} could not be marked)" if table.left_out else ""
    level = "" if table.snr is None else f", {table.snr:g} dB SNR"
    channels = {1: "mono", 2: "stereo"}.get(table.channels, f"{table.channels} channels")
    return (
        f"{table.system}, {table.clips} clips of {table.seconds:g} s, {table.rate / 1000:g} kHz {channels}"
        f"{level}{left_out}"
    )


def skipped(table: Table) -> str:
    """A sentence about the rows that this system cannot have; nothing if it has all."""
    told = []
    for why in dict.fromkeys(table.skipped.values()):
        labels = ", ".join(f"“{label}”" for label in table.skipped if table.skipped[label] == why)
        told.append(f"Left out, since {why}: {labels}.")
    return " ".join(told)


def _attack(row: AttackRow) -> tuple[str, ...]:
    kinds = {detected.by for detected in row.found.values()}
    return (
        row.label,
        _clips(row),
        _percent(row.bits),
        _interval(row.bits),
        _percent(row.exact),
        _interval(row.exact),
        _percent(row.seen),
        _interval(row.seen),
        *(_percent(detected.share) for detected in row.found.values()),
        " / ".join(sorted(kinds)),
        NONE if row.capacity is None else f"{row.capacity.value:.2f}",
        _percent(row.alarms),
        _interval(row.alarms),
    )


def _threat(row: ThreatRow) -> tuple[str, ...]:
    answers = map(_percent, (row.right, row.wrong, row.none))
    return (row.label, _clips(row), *answers, SHOULD[row.should], _percent(row.kept), _interval(row.kept))


def _clips(row: AttackRow | ThreatRow) -> str:
    return f"{row.clips}, {row.failed} failed" if row.failed else str(row.clips)


def _percent(share: Share | None) -> str:
    return NONE if share is None else f"{100 * share.value:.1f} %"


def _interval(share: Share | None) -> str:
    return NONE if share is None else f"{100 * share.low:.1f}–{100 * share.high:.1f}"


def _setting(table: Table) -> Section:
    quality = html.Table(
        ("measure", "mean", "95 %"),
        [(name, f"{each.value:.4g}", f"{each.low:.4g}–{each.high:.4g}") for name, each in table.quality.items()],
        "Marked clips against their hosts at 16 kHz mono: SNR and SI-SNR in dB, PESQ and ViSQOL as opinion scores.",
    )
    lines = [table.about, f"{setting(table)}.", *([skipped(table)] if table.skipped else [])]
    return Section("What was measured", [*map(Text, lines), quality])


def _attacks(table: Table) -> list[Section]:
    rows_of = [row for row in table.rows if isinstance(row, AttackRow)]
    labels = [row.label for row in rows_of]
    read: Series = {
        "message right": [row.exact for row in rows_of],
        "bits right": [row.bits for row in rows_of],
        "mark seen": [row.seen for row in rows_of],
    }
    found: Series = {f"at {alarms}": [row.found[alarms].share for row in rows_of] for alarms in rows_of[0].found}
    about = (
        "Bits are those of the message and its check, if it has one, half of them right where no mark was located. "
        "Seen is the share of marks, and false alarms that of unmarked clips under the same attack, in which the "
        "system says that a mark is there. Found is the share of marks where so many false alarms are allowed: "
        "measured on the unmarked clips of the row, where they are enough; else by p-value, or for a system that has "
        "none on the unmarked clips of all rows. Bits/s is what arrives in a second. A search that failed found "
        "nothing. Intervals are Wilson's, of 95 %, with each clip as one trial; “–” is what a system cannot have, or "
        "what so few clips cannot tell."
    )
    return [
        Section("Attack by attack", [Text(about), html.Table(heads(False), rows(table))]),
        Section(
            "In pictures",
            [
                *_drawn(labels, read, "What is read", "share in %", "Messages, bits and marks, attack by attack."),
                *_drawn(
                    labels,
                    found,
                    "What is found",
                    "share of marks in %",
                    "Marks that are found, by the share of false alarms that is allowed.",
                ),
            ],
        ),
    ]


def _threats(table: Table) -> list[Section]:
    rows_of = [row for row in table.rows if isinstance(row, ThreatRow)]
    answers: Series = {
        "right": [row.right for row in rows_of],
        "wrong": [row.wrong for row in rows_of],
        "none": [row.none for row in rows_of],
    }
    labels = [row.label for row in rows_of]
    drawn = _drawn(labels, answers, "Answers", "share of clips in %", "Answers, threat by threat.")
    about = (
        "An answer is the right message, a wrong one, or none; of a system that carries no message, right is that a "
        "mark was found. A trial that failed has the answer none, and is never as it should be. Intervals are "
        "Wilson's, of 95 %."
    )
    return [
        Section("Threat by threat", [Text(about), html.Table(heads(True), rows(table))]),
        Section("In a picture", drawn),
    ]


def _drawn(labels: Sequence[str], series: Series, title: str, axis: str, caption: str) -> list[Picture]:
    """A picture of those series that have values; none, if none has."""
    known = {name: [share for share in shares if share is not None] for name, shares in series.items()}
    drawn = {
        name: [(100 * share.value, 100 * share.low, 100 * share.high) for share in shares]
        for name, shares in known.items()
    }
    return [Picture(plots.shares(labels, drawn, title, axis), caption)] if any(drawn.values()) else []


def _players(preset: Preset, subject: Subject, number: int) -> list[Players]:
    """The sounds of a clip; none where a peer that could mark it before now fails."""
    try:
        clip = subject.clip(number)
    except AudioError:
        return []
    plain = [("host", clip.host), ("marked", clip.marked), ("residual × 10", RESIDUAL_GAIN * (clip.marked - clip.host))]
    others = [row for row in preset.rows if row.steps or row.threat]
    chosen = [others[int(k)] for k in evenly(len(others), LISTENED_ROWS)]
    attacked = [(row.label, audio) for row in chosen if (audio := _after(preset, subject, row, number)) is not None]
    return [Players(subject.settings.paths[number].name, [_track(subject, *each) for each in (*plain, *attacked)])]


def _after(preset: Preset, subject: Subject, row: Row, number: int) -> Samples | None:
    """A marked clip after what a row does; None where the system cannot be made to."""
    if row.threat:
        with contextlib.suppress(AudioError):
            return THREATS[row.threat](subject, number).audio
        return None
    return preset.attacked(row, subject.clip(number).marked, subject.settings.seed, number)


def _track(subject: Subject, label: str, audio: Samples) -> Track:
    return Track(label, mixed(audio, subject.rate)[: LISTENED_SECONDS * SAMPLE_RATE], SAMPLE_RATE)
