"""The report of a preset: its tables, as HTML with figures and a few clips to listen to, and as rows of text."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ideaw.audio.blocks import to_network_mono
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.corpus import Samples, evenly_spaced
from ideaw.bench.protocols.preset import Preset, Row
from ideaw.bench.protocols.scores import AttackRow, Table, ThreatRow
from ideaw.bench.protocols.security import THREATS
from ideaw.bench.protocols.system import COST_MEASURES, WatermarkSystem
from ideaw.bench.reports import html
from ideaw.bench.reports.html import Picture, Players, Section, Text, Track
from ideaw.bench.statistics import Estimate
from ideaw.engine.gain import describe_level
from ideaw.errors import AudioError
from ideaw.quality import plots

PLAYED_CLIPS, PLAYED_ROWS, PLAYED_SECONDS = 2, 3, 5
"""Sounds in the report: number of clips, attacks on each, and seconds of each."""

Series = Mapping[str, Sequence[Estimate | None]]
"""What a picture shows: name → a share for each row."""

NO_VALUE = "–"
"""Shown where there is no value."""

EXPECTATIONS = {"right": "the right message", "none": "none", "not wrong": "no wrong message"}
"""What the answers to a threat should be, in words."""


def write(folder: Path, table: Table, preset: Preset, system: WatermarkSystem, clips: Sequence[int]) -> None:
    """Write the report of a run into its folder; some of the numbered clips can be listened to."""
    measured = _threat_sections(table, preset) if preset.security else _attack_sections(table, preset)
    players = [part for k in evenly_spaced(len(clips), PLAYED_CLIPS) for part in _players(preset, system, clips[k])]
    note = Text(f"Mono, 16 kHz, the first {PLAYED_SECONDS} s. The residual is what the mark adds, ten times as loud.")
    sections = [_setting_section(table), *measured, Section("To listen to", [note, *players])]
    html.write(folder, f"{table.title}: {table.system}", sections)


def table_heads(preset: Preset) -> tuple[str, ...]:
    """Heads of the table that `table_rows` fills."""
    if preset.security:
        return ("threat", "clips", "right", "wrong", "none", "should be", "as it should", "95 %")
    read = ("bits right", "95 %", "message right", "95 % ", "mark seen", "95 %  ")
    found = ("found at 1e-2", "1e-3", "1e-4", "by")
    costs = tuple(f"{name} left" for name in COST_MEASURES) if preset.cost else ()
    return ("attack", "clips", *read, *found, "bits/s", "false alarms", "95 %   ", *costs)


def table_rows(table: Table) -> list[tuple[str, ...]]:
    """The table as it is shown; the CSV file has every interval."""
    return [_attack(row) if isinstance(row, AttackRow) else _threat(row) for row in table.rows]


def describe_setting(table: Table) -> str:
    """One line about what was measured."""
    left_out = f" ({len(table.left_out)} could not be marked)" if table.left_out else ""
    known = table.snr is not None or table.audibility is not None
    level = f", {describe_level(table.snr, table.audibility)}" if known else ""
    channels = {1: "mono", 2: "stereo"}.get(table.channels, f"{table.channels} channels")
    return (
        f"{table.system}, {table.clips} clips of {table.seconds:g} s, {table.rate / 1000:g} kHz {channels}"
        f"{level}{left_out}"
    )


def describe_skipped(table: Table) -> str:
    """A sentence about the rows that this system cannot have; nothing if it has all."""
    sentences = []
    for why in dict.fromkeys(table.skipped.values()):
        labels = ", ".join(f"“{label}”" for label in table.skipped if table.skipped[label] == why)
        sentences.append(f"Left out, since {why}: {labels}.")
    return " ".join(sentences)


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
        NO_VALUE if row.capacity is None else f"{row.capacity.value:.2f}",
        _percent(row.alarms),
        _interval(row.alarms),
        *(NO_VALUE if left is None else f"{left.value:.2f}" for left in row.cost.values()),
    )


def _threat(row: ThreatRow) -> tuple[str, ...]:
    answers = map(_percent, (row.right, row.wrong, row.none))
    return (row.label, _clips(row), *answers, EXPECTATIONS[row.should], _percent(row.kept), _interval(row.kept))


def _clips(row: AttackRow | ThreatRow) -> str:
    return f"{row.clips}, {row.failed} failed" if row.failed else str(row.clips)


def _percent(share: Estimate | None) -> str:
    return NO_VALUE if share is None else f"{100 * share.value:.1f} %"


def _interval(share: Estimate | None) -> str:
    return NO_VALUE if share is None else f"{100 * share.low:.1f}–{100 * share.high:.1f}"


def _setting_section(table: Table) -> Section:
    quality = html.Table(
        ("measure", "mean", "95 %"),
        [(name, f"{mean.value:.4g}", f"{mean.low:.4g}–{mean.high:.4g}") for name, mean in table.quality.items()],
        "Marked clips against their hosts at 16 kHz mono: SNR and SI-SNR in dB, PESQ and ViSQOL as opinion scores.",
    )
    lines = [table.about, f"{describe_setting(table)}.", *([describe_skipped(table)] if table.skipped else [])]
    return Section("What was measured", [*map(Text, lines), quality])


def _attack_sections(table: Table, preset: Preset) -> list[Section]:
    scores = [row for row in table.rows if isinstance(row, AttackRow)]
    labels = [row.label for row in scores]
    read: Series = {
        "message right": [row.exact for row in scores],
        "bits right": [row.bits for row in scores],
        "mark seen": [row.seen for row in scores],
    }
    found: Series = {f"at {alarms}": [row.found[alarms].share for row in scores] for alarms in scores[0].found}
    about = (
        "Bits are those of the message and its check, if it has one, half of them right where no mark was located. "
        "Seen is the share of marks, and false alarms that of unmarked clips under the same attack, in which the "
        "system says that a mark is there. Found is the share of marks where so many false alarms are allowed: "
        "measured on the unmarked clips of the row, where they are enough; else by p-value, or for a system that has "
        "none on the unmarked clips of all rows. Bits/s is what arrives in a second. A search that failed found "
        "nothing. Intervals are Wilson's, of 95 %, with each clip as one trial; “–” is what a system cannot have, or "
        "what so few clips cannot tell."
    )
    if preset.cost:
        about += (
            " PESQ and STOI left are what the attack costs the attacker: means over the marked clips after it, against "
            "the same clips before it, its delay undone; “–” where it changes the length."
        )
    return [
        Section("Attack by attack", [Text(about), html.Table(table_heads(preset), table_rows(table))]),
        Section(
            "In pictures",
            [
                *_bar_chart(labels, read, "What is read", "share in %", "Messages, bits and marks, attack by attack."),
                *_bar_chart(
                    labels,
                    found,
                    "What is found",
                    "share of marks in %",
                    "Marks that are found, by the share of false alarms that is allowed.",
                ),
            ],
        ),
    ]


def _threat_sections(table: Table, preset: Preset) -> list[Section]:
    scores = [row for row in table.rows if isinstance(row, ThreatRow)]
    answers: Series = {
        "right": [row.right for row in scores],
        "wrong": [row.wrong for row in scores],
        "none": [row.none for row in scores],
    }
    labels = [row.label for row in scores]
    drawn = _bar_chart(labels, answers, "Answers", "share of clips in %", "Answers, threat by threat.")
    about = (
        "An answer is the right message, a wrong one, or none; of a system that carries no message, right is that a "
        "mark was found. A trial that failed has the answer none, and is never as it should be. Intervals are "
        "Wilson's, of 95 %."
    )
    return [
        Section("Threat by threat", [Text(about), html.Table(table_heads(preset), table_rows(table))]),
        Section("In a picture", drawn),
    ]


def _bar_chart(labels: Sequence[str], series: Series, title: str, axis: str, caption: str) -> list[Picture]:
    """A picture of those series that have values; none, if none has."""
    known = {name: [share for share in shares if share is not None] for name, shares in series.items()}
    drawn = {
        name: [(100 * share.value, 100 * share.low, 100 * share.high) for share in shares]
        for name, shares in known.items()
    }
    return [Picture(plots.shares(labels, drawn, title, axis), caption)] if any(drawn.values()) else []


def _players(preset: Preset, system: WatermarkSystem, number: int) -> list[Players]:
    """The sounds of a clip; none where a peer that could mark it before now fails."""
    try:
        clip = system.clip(number)
    except AudioError:
        return []
    plain = [
        ("host", clip.host),
        ("marked", clip.marked),
        ("residual × 10", plots.RESIDUAL_GAIN * (clip.marked - clip.host)),
    ]
    rows = [row for row in preset.rows if row.steps or row.threat]
    chosen = [rows[int(k)] for k in evenly_spaced(len(rows), PLAYED_ROWS)]
    attacked = [(row.label, audio) for row in chosen if (audio := _attacked(preset, system, row, number)) is not None]
    return [
        Players(
            system.settings.paths[number].name, [_track(system, label, audio) for label, audio in (*plain, *attacked)]
        )
    ]


def _attacked(preset: Preset, system: WatermarkSystem, row: Row, number: int) -> Samples | None:
    """A marked clip after what a row does; None where the system cannot be made to."""
    if row.threat:
        with contextlib.suppress(AudioError):
            return THREATS[row.threat](system, number).audio
        return None
    return preset.attack(row, system.clip(number).marked, system.settings.seed, number)


def _track(system: WatermarkSystem, label: str, audio: Samples) -> Track:
    return Track(label, to_network_mono(audio, system.rate)[: PLAYED_SECONDS * SAMPLE_RATE], SAMPLE_RATE)
