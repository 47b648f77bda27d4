"""The report of a preset: what was measured, in tables and pictures, and a few clips to listen to."""

from collections.abc import Sequence
from pathlib import Path

from ideaw.audio.grid import RATE
from ideaw.bench import report
from ideaw.bench.chances import Share
from ideaw.bench.folder import evenly
from ideaw.bench.outcome import AttackRow, Table, ThreatRow
from ideaw.bench.preset import Preset, Row
from ideaw.bench.report import Picture, Players, Section, Text, Track
from ideaw.bench.security import THREATS
from ideaw.bench.subject import Samples, Subject, mixed
from ideaw.quality import plots

LISTENED_CLIPS, LISTENED_ROWS, LISTENED_SECONDS = 2, 3, 5
"""What can be listened to: clips, attacks on each, and seconds of each."""

RESIDUAL_GAIN = plots.RESIDUAL_GAIN

SHOULD = {"right": "the right message", "none": "none", "not wrong": "no wrong message"}
"""What the answers to a threat should be, in words."""


def write(folder: Path, table: Table, preset: Preset, subject: Subject, clips: Sequence[int]) -> None:
    """Write the report of a run into its folder; some of the numbered clips can be listened to."""
    measured = _threats(table) if preset.security else _attacks(table)
    listened = [_players(preset, subject, clips[k]) for k in evenly(len(clips), LISTENED_CLIPS)]
    note = Text(f"Mono, 16 kHz, the first {LISTENED_SECONDS} s. The residual is what the mark adds, ten times as loud.")
    sections = [_setting(table), *measured, Section("To listen to", [note, *listened])]
    report.write(folder, f"{table.title}: {table.model}", sections)


def heads(security: bool) -> tuple[str, ...]:
    """Of the table that `rows` fills."""
    if security:
        return ("threat", "clips", "right", "wrong", "none", "should be", "as it should", "95 %")
    found = ("found at 1e-2", "1e-3", "1e-4", "by")
    return (
        "attack",
        "clips",
        "bits right",
        "95 %",
        "message right",
        "95 % ",
        *found,
        "bits/s",
        "false alarms",
        "95 %  ",
    )


def rows(table: Table) -> list[tuple[str, ...]]:
    """The table as it is shown; the CSV file has every interval."""
    return [_attack(row) if isinstance(row, AttackRow) else _threat(row) for row in table.rows]


def setting(table: Table) -> str:
    """One line about what was measured."""
    left_out = f" ({len(table.left_out)} could not be marked)" if table.left_out else ""
    channels = {1: "mono", 2: "stereo"}.get(table.channels, f"{table.channels} channels")
    return (
        f"model {table.model}, {table.clips} clips of {table.seconds:g} s, {table.rate / 1000:g} kHz {channels}, "
        f"{table.snr:g} dB SNR{left_out}"
    )


def _attack(row: AttackRow) -> tuple[str, ...]:
    kinds = {detected.by for detected in row.found.values()}
    return (
        row.label,
        str(row.clips),
        _percent(row.bits),
        _interval(row.bits),
        _percent(row.exact),
        _interval(row.exact),
        *(_percent(detected.share) for detected in row.found.values()),
        " / ".join(sorted(kinds)),
        f"{row.capacity.value:.2f}",
        _percent(row.alarms),
        _interval(row.alarms),
    )


def _threat(row: ThreatRow) -> tuple[str, ...]:
    answers = map(_percent, (row.right, row.wrong, row.none))
    return (row.label, str(row.clips), *answers, SHOULD[row.should], _percent(row.kept), _interval(row.kept))


def _percent(share: Share) -> str:
    return f"{100 * share.value:.1f} %"


def _interval(share: Share) -> str:
    return f"{100 * share.low:.1f}–{100 * share.high:.1f}"


def _setting(table: Table) -> Section:
    quality = report.Table(
        ("measure", "mean", "95 %"),
        [(name, f"{each.value:.4g}", f"{each.low:.4g}–{each.high:.4g}") for name, each in table.quality.items()],
        "Marked clips against their hosts at 16 kHz mono: SNR and SI-SNR in dB, PESQ and ViSQOL as opinion scores.",
    )
    return Section("What was measured", [Text(table.about), Text(f"{setting(table)}.".capitalize()), quality])


def _attacks(table: Table) -> list[Section]:
    rows_of = [row for row in table.rows if isinstance(row, AttackRow)]
    labels = [row.label for row in rows_of]
    shares = {
        "message right": [_hundred(row.exact) for row in rows_of],
        "bits right": [_hundred(row.bits) for row in rows_of],
    }
    read = plots.shares(labels, shares, "What is read", "share in %")
    found = {f"at {alarms}": [_hundred(row.found[alarms].share) for row in rows_of] for alarms in rows_of[0].found}
    about = (
        "Bits are those of the message and its check, half of them right where no mark was located. Found is the share "
        "of marks that is seen where so many false alarms are allowed; by p-value where there are too few unmarked "
        "clips to measure that, for every clip was also attacked without a mark. Bits/s is what arrives in a second. "
        "Intervals are Wilson's, of 95 %, with each clip as one trial."
    )
    return [
        Section("Attack by attack", [Text(about), report.Table(heads(False), rows(table))]),
        Section(
            "In pictures",
            [
                Picture(read, "Messages and bits, attack by attack."),
                Picture(
                    plots.shares(labels, found, "What is found", "share of marks in %"),
                    "Marks that are found, by the share of false alarms that is allowed.",
                ),
            ],
        ),
    ]


def _threats(table: Table) -> list[Section]:
    rows_of = [row for row in table.rows if isinstance(row, ThreatRow)]
    answers = {
        "right": [_hundred(row.right) for row in rows_of],
        "wrong": [_hundred(row.wrong) for row in rows_of],
        "none": [_hundred(row.none) for row in rows_of],
    }
    drawn = plots.shares([row.label for row in rows_of], answers, "Answers", "share of clips in %")
    about = "An answer is the right message, a wrong one, or none. Intervals are Wilson's, of 95 %."
    return [
        Section("Threat by threat", [Text(about), report.Table(heads(True), rows(table))]),
        Section("In a picture", [Picture(drawn, "Answers, threat by threat.")]),
    ]


def _hundred(share: Share) -> tuple[float, float, float]:
    return 100 * share.value, 100 * share.low, 100 * share.high


def _players(preset: Preset, subject: Subject, number: int) -> Players:
    clip = subject.clip(number)
    plain = [("host", clip.host), ("marked", clip.marked), ("residual × 10", RESIDUAL_GAIN * (clip.marked - clip.host))]
    others = [row for row in preset.rows if row.steps or row.threat]
    chosen = [others[int(k)] for k in evenly(len(others), LISTENED_ROWS)]
    attacked = [(row.label, _after(preset, subject, row, number)) for row in chosen]
    return Players(subject.settings.paths[number].name, [_track(subject, *each) for each in (*plain, *attacked)])


def _after(preset: Preset, subject: Subject, row: Row, number: int) -> Samples:
    if row.threat:
        return THREATS[row.threat](subject, number).audio
    return preset.attacked(row, subject.clip(number).marked, subject.settings.seed, number)


def _track(subject: Subject, label: str, audio: Samples) -> Track:
    return Track(label, mixed(audio, subject.rate)[: LISTENED_SECONDS * RATE], RATE)
