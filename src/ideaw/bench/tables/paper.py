"""The paper's tables and figures by one command, what it prints beside what we measure.

Tables 1 to 4 come from one-second segments (`segments.py`), the locating figure from `locating.py`. The waveforms and
spectrograms are of the packaged speech, made quiet, and music, made loud. A run that was stopped goes on where it was;
a part is measured again where its inputs differ: other audio, other weights, another number of segments.
"""

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.audio import atomic
from ideaw.audio.blocks import Progress
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.cache import METRICS_FILE, ResultCache, write_text
from ideaw.bench.corpus import SHORT_MESSAGE, list_audio_files, packaged_samples, read_network_mono
from ideaw.bench.reports import html
from ideaw.bench.reports.html import Picture, Players, Section, Text, Track
from ideaw.bench.rivals import load_segment_marker
from ideaw.bench.tables import locating, paper_values, segments
from ideaw.bench.tables.paper_values import Printed
from ideaw.errors import FileError
from ideaw.layers import FAST_ALONE
from ideaw.marker import load
from ideaw.models import DEFAULT_MODEL
from ideaw.quality import plots
from ideaw.quality.fidelity import snr

PACKAGED_MODELS = ("10+10", "22+10", "46+10")

EXPORTED_MODELS = {
    "DeAR": "baseline-dear",
    "WavMark": "baseline-wavmark",
    "M1": "ablation-reference",
    "M2": "ablation-no-balance",
    "full": "ablation-discriminator",
}
"""Rows of models that are not packaged, and the recipes that their folders are named after."""

SINGLE_STAGE_FOLDER = "ablation-single-stage"
"""The folder of the single stage in the locating figure; without it, both stages of ours are read."""

QUIET_DBFS, LOUD_PEAK = -40.0, 0.99
"""The RMS that speech is brought to, in dBFS, and the peak that music is brought to."""

AUDIO_NOTE = (
    "The paper's rows are of its own audio, VCTK and FMA, which could not be had here; its SNR is an average, ours is "
    "kept by every segment."
)

ABLATIONS_NOTE = (
    "Ablations and rivals are trained by us for a short time, on equal terms: they are to be compared with each other. "
    "Our recipe has no discriminator, so the reference is M1, and M2 lacks both."
)

Cell = str | float | None
"""Content of a cell; None: it was not measured."""


@dataclass(frozen=True)
class Size:
    """How much is measured: segments of each model, places of the mark in files, and turns."""

    segments: int
    cases: tuple[tuple[int, int | None], ...]
    repeats: int


FULL = Size(400, tuple((60, begin) for begin in (0, 10, 20, 30, 40, 50, None)), 3)
QUICK = Size(40, tuple((20, begin) for begin in (0, 5, 10, 15, None)), 1)


@dataclass(frozen=True)
class Sheet:
    """A table of the paper; `name` is that of its CSV file, which has every digit."""

    name: str
    title: str
    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    count: str
    """The number of trials behind the figures, in words."""

    def shown(self) -> list[list[str]]:
        """The rows as people read them."""
        return [["–" if c is None else f"{c:.2f}" if isinstance(c, float) else c for c in row] for row in self.rows]


@dataclass(frozen=True)
class Outcome:
    """What `ideaw bench paper` found: its tables, and a line that says which of the paper's rows are not ours."""

    sheets: list[Sheet]
    lacking: str


def run(
    data: Path, out: Path, size: Size = FULL, ablations: Path | None = None, progress: Progress | None = None
) -> Outcome:
    """Measure what `out` does not hold yet, and write tables, figures and a page.

    Args:
        data: A folder of audio files.
        out: The folder of the results.
        size: How much is measured.
        ablations: A folder of exported models, named as their recipes.
        progress: Called with the share that is done.

    Raises:
        FileError: `ablations` or `out` is no folder, or `data` has no audio.
    """
    models, missing = _find_models(ablations)
    audio, results = describe_audio(data), ResultCache(out)
    parts = len(models) + 1
    measured = {
        name: _measure_segments(
            results, name, model, data, audio, size.segments, _part_progress(progress, number, parts)
        )
        for number, (name, model) in enumerate(models.items())
    }
    searches = _measure_searches(results, size, ablations, _part_progress(progress, parts - 1, parts))
    sheets = [
        _basics("table-1", "Table 1: SNR, ACC and capacity", measured, paper_values.MODELS),
        _attacked("table-2", "Table 2: ACC under attack", measured, paper_values.MODELS),
        _basics("table-3", "Table 3: SNR and ACC of the ablations", measured, paper_values.ABLATIONS),
        _attacked("table-4", "Table 4: ACC of the ablations under attack", measured, paper_values.ABLATIONS),
        _locating(searches),
    ]
    without = (
        f"not measured, for want of a model folder in --ablations: {', '.join(missing)}" if missing else "all measured"
    )
    outcome = Outcome(sheets, f"The paper's rows: {without}.")
    notes = [_scope(data, measured), AUDIO_NOTE, ABLATIONS_NOTE, outcome.lacking]
    metrics = {record["name"]: {name: record[name] for name in ("inputs", "result")} for record in results.records}
    write_text(out / METRICS_FILE, json.dumps(metrics, indent=2) + "\n")
    _write_report(out, outcome, notes, locating.draw(searches))
    return outcome


def _find_models(ablations: Path | None) -> tuple[dict[str, str], list[str]]:
    """Row → model, of the rows that can be measured, and the others, each with the folder that would be needed."""
    models = {name: name for name in PACKAGED_MODELS}
    if ablations is None:
        return models, [f"{row} ({recipe})" for row, recipe in EXPORTED_MODELS.items()]
    if not ablations.is_dir():
        raise FileError(f"{ablations} is not a folder of model folders")
    present = {row: ablations / recipe for row, recipe in EXPORTED_MODELS.items() if (ablations / recipe).is_dir()}
    missing = [f"{row} ({recipe})" for row, recipe in EXPORTED_MODELS.items() if row not in present]
    return models | {row: str(folder) for row, folder in present.items()}, missing


def _measure_segments(
    results: ResultCache,
    name: str,
    model: str,
    data: Path,
    audio: dict[str, Any],
    limit: int,
    progress: Progress | None,
) -> segments.Table:
    """The segments of one model, measured now or before."""
    inputs = audio | describe_model(model) | {"limit": limit}

    def measure() -> segments.Table:
        return segments.run(data, model, limit=limit, progress=progress)

    return results.measure(f"segments {name}", inputs, measure, _segments_table)


def _measure_searches(
    results: ResultCache, size: Size, ablations: Path | None, progress: Progress | None
) -> locating.Table:
    """The searches, measured now or before: with the single stage that was trained, if there is one."""
    single = (
        ablations / SINGLE_STAGE_FOLDER
        if ablations is not None and (ablations / SINGLE_STAGE_FOLDER).is_dir()
        else None
    )
    inputs = describe_model(DEFAULT_MODEL) | {"cases": [list(case) for case in size.cases], "repeats": size.repeats}
    if single is not None:
        inputs["single stage"] = describe_model(str(single))

    def measure() -> locating.Table:
        return locating.run(None, size.repeats, progress, size.cases, single)

    return results.measure("locating", inputs, measure, _locating_table)


def describe_audio(data: Path) -> dict[str, Any]:
    """What tells a folder of audio from another one, wherever it lies: the names and sizes of its files."""
    sizes = {str(path.relative_to(data)): path.stat().st_size for path in list_audio_files(data)}
    return {"files": len(sizes), "audio": hashlib.sha256(json.dumps(sizes).encode()).hexdigest()[:16]}


def describe_model(model: str) -> dict[str, Any]:
    """What tells a model from another one: its card, without the results on it, and its weights."""
    marker = load_segment_marker(model)
    card = asdict(marker.card)
    del card["facts"]
    return card | {"weights": marker.weights_id}


def _scope(data: Path, measured: Mapping[str, segments.Table]) -> str:
    counts = ", ".join(f"{table.segments} of {name}" for name, table in measured.items())
    audio = "the packaged samples" if data == packaged_samples() else f"the folder {data.resolve().name}"
    return f"One-second segments of {audio}: {counts}. ACC is of all bits (message and locating code), location known."


def _count(measured: Mapping[str, segments.Table], printed: Mapping[str, Printed]) -> str:
    """The number of segments behind the figures of every model in a table."""
    counts = [f"{name} {measured[name].segments}" for name in printed if name in measured]
    return f"segments: {', '.join(counts)}" if counts else "nothing of ours"


def _basics(name: str, title: str, measured: Mapping[str, segments.Table], printed: Mapping[str, Printed]) -> Sheet:
    """SNR, ACC and capacity: every row that the paper has, with or without ours."""
    rows: list[list[Cell]] = []
    for model, row in printed.items():
        table = measured.get(model)
        ours = (table.mean_snr, table.rows[0].accuracy, float(table.bits)) if table else (None, None, None)
        pairs = zip(ours, (row.snr, row.accuracy, row.capacity), strict=True)
        rows.append([model, *(cell for pair in pairs for cell in pair)])
    heads = [f"{what}, {whose}" for what in ("SNR", "ACC", "capacity") for whose in ("ours", "the paper's")]
    units = "SNR in dB (ours: the mean), share of bits right in %, capacity in bits a second."
    return Sheet(name, title, units, ["model", *heads], rows, _count(measured, printed))


def _attacked(name: str, title: str, measured: Mapping[str, segments.Table], printed: Mapping[str, Printed]) -> Sheet:
    """ACC without an attack and under each of them, a row of ours over a row of the paper's."""
    rows: list[list[Cell]] = []
    for model, row in printed.items():
        if model in measured:
            rows.append([model, "ours", *(attacked.accuracy for attacked in measured[model].rows)])
        rows.append([model, "the paper's", row.accuracy, *row.attacked])
    attacks = [catalogue.ATTACKS[attack] for attack in catalogue.PAPER]
    strengths = "; ".join(f"{attack.label}: {attack.summary}" for attack in attacks)
    heads = ["model", "by", segments.CLEAN, *(attack.label for attack in attacks)]
    return Sheet(name, title, f"Share of bits right in %. {strengths}.", heads, rows, _count(measured, printed))


def _locating(table: locating.Table) -> Sheet:
    """Times of the searches, and how much of the single stage's the paper's saves."""
    methods = locating.METHODS
    heads = ("file", "marked from", *(f"{name}, s" for name in methods), "saved, %", "the paper's, %", "not right")
    rows: list[list[Cell]] = []
    for row in table.rows:
        saved = 100 * (1 - row.took[locating.WINDOWS] / row.took[locating.SINGLE_STAGE]) if row.windows > 1 else None
        wrong = ", ".join(name for name in methods if not row.right[name])
        begin = "nowhere" if row.begin is None else f"{row.begin:g} s"
        times = (row.took[name] for name in methods)
        rows.append([f"{row.seconds:g} s", begin, *times, saved, paper_values.LOCATING_SAVED, wrong or None])
    note = (
        f"Model {table.model}, one thread, medians of {table.repeats}. The paper's search reads the code every "
        f"{table.step:g} s and stops at the mark; a single stage ({table.single or 'both stages of ours'}) reads code "
        "and message each time. Saved is what the first spares of the second. Ours is one pass, up to the mark or "
        "over the whole file, where it finds every mark."
    )
    count = f"one file for each row, medians of {table.repeats}"
    return Sheet("locating", "Time to locate", note, heads, rows, count)


def _write_report(folder: Path, outcome: Outcome, notes: list[str], searches: bytes) -> None:
    """The page, and its tables and pictures as files beside it."""
    clips = _clips()
    pictures = {
        "locating": Picture(searches, "Time over the place of the mark."),
        "waveforms": Picture(
            plots.waveforms(clips, SAMPLE_RATE),
            "Host over marked audio; host and tenfold residual; a hundred samples of them around the peak.",
        ),
        "spectrograms": Picture(plots.spectrograms(clips, SAMPLE_RATE), "Host, marked audio, residual."),
    }
    for name, picture in pictures.items():
        with atomic.replace_on_success(folder / f"{name}.png") as temporary:
            temporary.write_bytes(picture.content)
    sections = [Section("What was measured", [Text(note) for note in notes])]
    for sheet in outcome.sheets:
        with (
            atomic.replace_on_success(folder / f"{sheet.name}.csv") as temporary,
            temporary.open("w", newline="") as file,
        ):
            csv.writer(file, lineterminator="\n").writerows([sheet.heads, *sheet.rows])
        drawn = [pictures[sheet.name]] if sheet.name in pictures else []
        sections.append(
            Section(
                sheet.title, [Text(f"{sheet.note} ({sheet.count})"), html.Table(sheet.heads, sheet.shown()), *drawn]
            )
        )
    players = [_players(title, *clip) for title, clip in clips.items()]
    sections.append(Section("Waveforms", [pictures["waveforms"]]))
    sections.append(Section("Spectrograms", [pictures["spectrograms"], *players]))
    html.write(folder, "The paper's tables and figures", sections)


def _players(title: str, host: NDArray[np.floating], marked: NDArray[np.floating]) -> Players:
    sounds = {
        "host": host,
        "marked": marked,
        f"residual × {plots.RESIDUAL_GAIN}": plots.RESIDUAL_GAIN * (marked - host),
        "marked, then MP3 64": catalogue.run("mp3", marked, SAMPLE_RATE),
    }
    return Players(title, [Track(label, samples, SAMPLE_RATE) for label, samples in sounds.items()])


def _clips() -> plots.Clips:
    """Quiet speech and loud music at 16 kHz, as they are and marked by the default model."""
    marker, clips = load(), {}
    speech, music = (read_network_mono(packaged_samples() / name) for name in ("speech.flac", "music.ogg"))
    quiet = speech * 10 ** (QUIET_DBFS / 20) / np.sqrt(np.square(speech).mean())
    for kind, host in (("quiet speech", quiet), ("loud music", music * LOUD_PEAK / np.abs(music).max())):
        marked = marker.embed(host, SAMPLE_RATE, SHORT_MESSAGE, layers=FAST_ALONE)
        level = 10 * np.log10(np.square(host).mean())
        clips[f"{kind}, {level:.0f} dBFS, SNR {snr(host, marked):.1f} dB"] = host, marked
    return clips


def _part_progress(progress: Progress | None, number: int, parts: int) -> Progress | None:
    """The progress of one part as that of all."""
    return None if progress is None else lambda share: progress((number + share) / parts)


def _segments_table(content: dict[str, Any]) -> segments.Table:
    rows = {kind: [segments.Row(**row) for row in content[kind]] for kind in ("rows", "others")}
    return segments.Table(**content | rows)


def _locating_table(content: dict[str, Any]) -> locating.Table:
    return locating.Table(**content | {"rows": [locating.Row(**row) for row in content["rows"]]})
