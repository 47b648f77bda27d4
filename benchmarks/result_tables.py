"""The tables of the documentation, one function for each, made from the JSON files in docs/results.

A function gives the lines of a Markdown table and one line with the command and the number of trials, or None where
nothing was measured.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from intervals import accuracy_note, interval_note, of, span

from ideaw.bench.tables import paper_values
from ideaw.bench.tables.quality import MARGIN

ROOT = Path(__file__).parent.parent

PACKAGED = ("46+10", "22+10", "10+10")
DEFAULT = "46+10"
"""The model of which everything is measured."""

STEREO = "stereo"
"""Suffix of the results on clips that `stereo_clips.py` made."""

ABLATION_LABELS = {
    "ablation-reference": "the reference: no discriminator (M1)",
    "ablation-discriminator": "with the discriminator (the paper's full model)",
    "ablation-no-balance": "without the balance block (M2, no discriminator either)",
    "ablation-single-stage": "one stage, 56 bits, no locating code",
}
"""Recipe → what it is; all were trained alike."""

PROTOCOLS = ("rawbench-loose", "rawbench-strict", "audiomarkbench", "edits")
"""Presets of attacks; `security` has a table of its own."""

MP3_LABELS = {"mp3": "MP3 64 kbit/s instead", "mp3_128": "MP3 128 kbit/s instead"}
"""Part of the results on quality → what was done instead of marking."""

QUALITY_MEASURES = (
    *("files", "SNR", "PESQ", "lowest PESQ", "STOI", "ViSQOL", "lowest ViSQOL"),
    *("noise to mask", "masked", "before onsets", "silence changed"),
)
"""Columns of the table of quality, of which those are shown that were measured."""

NUM_HARDEST = 4
"""Attacks of a protocol that are named."""

Cells = Sequence[str]
Result = dict[str, Any]


def results(kind: str, names: Iterable[str] = PACKAGED) -> dict[str, Result]:
    """Name → what the benchmark `kind` measured of it, for every name whose file exists."""
    paths = {name: ROOT / "docs/results" / f"{kind}-{name}.json" for name in names}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def protocol_results(names: Iterable[str]) -> dict[str, Result]:
    """Folder under docs/results → its metrics, for every folder that has them."""
    paths = {name: ROOT / "docs/results" / name / "metrics.json" for name in names}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def speed_results() -> Result | None:
    """What `speed.py` measured, if it was run."""
    path = ROOT / "docs/results/speed.json"
    return json.loads(path.read_text()) if path.exists() else None


def markdown(heads: Cells, rows: Iterable[Cells]) -> list[str]:
    """The lines of a Markdown table."""
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


def segments_table() -> list[str] | None:
    tables = results("segments")
    if not tables:
        return None
    labels = [row["label"] for row in next(iter(tables.values()))["rows"]]
    rows = []
    for name, table in tables.items():
        shares = {"all": [row["accuracy"] for row in table["rows"]]}
        shares |= {kind: [row["by_kind"][kind] for row in table["rows"]] for kind in table["rows"][0]["by_kind"]}
        for kind, values in shares.items():
            rows.append([f"**{name}**, {kind}", f"≥ {table['snr']:g} dB", *(f"{value:.2f}" for value in values)])
        printed = [f"{row['paper']:.2f}" for row in table["rows"]]
        rows.append([f"the paper's {name}", f"{paper_values.MODELS[name].snr} dB", *printed])
    counts = ", ".join(f"{table['segments']} segments for {name}" for name, table in tables.items())
    lowest = min(row["accuracy"] for table in tables.values() for row in table["rows"])
    fewest = min(table["segments"] for table in tables.values())
    return [
        *markdown(["% of bits right", "SNR", *labels], rows),
        "",
        f"`ideaw bench segments --data DIR --model NAME`: {counts}. Rows of all: {accuracy_note(lowest, fewest)}",
    ]


def others_table() -> list[str] | None:
    measured = results("segments").get(DEFAULT)
    if measured is None:
        return None
    rows = [[row["label"], f"{row['accuracy']:.2f}"] for row in measured["others"]]
    width = accuracy_note(min(row["accuracy"] for row in measured["others"]), measured["segments"])
    command = f"`ideaw bench segments --data DIR --others`: {measured['segments']} segments of {DEFAULT}. {width}"
    return [*markdown(["attack", "% of bits right"], rows), "", command]


def ablations_table() -> list[str] | None:
    tables = results("segments", ABLATION_LABELS)
    if not tables:
        return None
    first, *others = tables.values()
    assert all(table[what] == first[what] for table in others for what in ("snr", "segments"))
    labels = [row["label"] for row in first["rows"]]
    lowest = min(row["accuracy"] for table in tables.values() for row in table["rows"])
    rows = [
        [ABLATION_LABELS[name], *(f"{row['accuracy']:.2f}" for row in table["rows"])] for name, table in tables.items()
    ]
    return [
        *markdown(["% of bits right", *labels], rows),
        "",
        f"`ideaw bench segments --model FOLDER --data DIR --limit {first['segments']}`: {first['segments']} segments "
        f"at {first['snr']:g} dB, one training of each. {accuracy_note(lowest, first['segments'])}",
    ]


def levels_table() -> list[str] | None:
    measured = results("levels").get(DEFAULT)
    if measured is None:
        return None
    heads = ["% of bits right", *(f"{level:g} dBFS" for level in measured["levels"])]
    rows = [[label, *(f"{value:.2f}" for value in values)] for label, values in measured["accuracy"].items()]
    count = f"{measured['segments']} segments of {measured['model']} at {measured['snr']:g} dB"
    lowest = min(value for values in measured["accuracy"].values() for value in values)
    width = accuracy_note(lowest, measured["segments"])
    return [*markdown(heads, rows), "", f"`ideaw bench levels --data DIR`: {count}. {width}"]


def quality_table() -> list[str] | None:
    measured = results("quality").get(DEFAULT)
    if measured is None:
        return None
    kinds = dict(measured["by_kind"])
    for side, label in MP3_LABELS.items():
        kinds |= {f"{kind}, {label}": values for kind, values in measured.get(side, {}).items()}
    cells = {kind: _quality_cells(values) for kind, values in kinds.items()}
    measures = [name for name in QUALITY_MEASURES if all(name in cell for cell in cells.values())]
    rows = [[kind, *(cell[name] for name in measures)] for kind, cell in cells.items()]
    count = sum(round(values["files"]) for values in measured["by_kind"].values())
    with_margins = any(name.endswith(MARGIN) for values in kinds.values() for name in values)
    width = " ± is the 95 % interval of a mean over files." if with_margins else ""
    return [
        *markdown([f"{DEFAULT} at {_level(measured)}", *measures], rows),
        "",
        f"`ideaw bench quality --data DIR`: {count} whole files.{width}",
    ]


def _level(measured: dict[str, Any]) -> str:
    """How strong the marks were that a command measured."""
    snr = measured["snr"]
    return f"{measured['audibility']:g} dB noise to mask" if snr is None else f"{snr:g} dB"


def system_at_level(table: Result) -> str:
    """What a preset measured, and how strong its marks were; peers have a level of their own."""
    with_level = any(table.get(name) is not None for name in ("snr", "audibility"))
    return str(table["system"]) + (f" at {_level(table)}" if with_level else "")


def files_table() -> list[str] | None:
    measured = results("files", (DEFAULT, STEREO))
    if set(measured) != {DEFAULT, STEREO}:
        return None
    mono, stereo = measured[DEFAULT], measured[STEREO]
    rows = [
        [one["label"], _exact(one), _exact(two), str(one["wrong"] + two["wrong"])]
        for one, two in zip(mono["rows"], stereo["rows"], strict=True)
    ]
    heads = ["edit", "message right, % (95 %)", "stereo tracks, % (95 %)", "wrong messages"]
    return [
        *markdown(heads, rows),
        "",
        f"`ideaw bench files --data DIR`: {mono['clips']} mono files and {stereo['clips']} stereo tracks, clips of "
        f"{mono['seconds']:g} s at {_level(mono)}.",
    ]


def borders_table() -> list[str] | None:
    measured = results("files").get(DEFAULT)
    if measured is None:
        return None
    rows = [
        [f"{place['seconds']:g} s", of(place["found"], place["clips"]), f"{place['overlap']:.2f}"]
        for place in measured["places"]
    ]
    count = f"{measured['clips']} clips of {measured['seconds']:g} s for each length"
    heads = ["marked stretch", "found (95 %)", "intersection over union"]
    return [*markdown(heads, rows), "", f"`ideaw bench files --data DIR`: {count}."]


def unmarked_table() -> list[str] | None:
    measured = results("unmarked").get(DEFAULT)
    if measured is None:
        return None
    checked = [level for level in measured["levels"] if level["p_value"] >= (measured["checked_to"] or 1)]
    rows = [["false alarms", str(measured["found"]), f"at most 1 in {1 / measured['highest']:,.0f} searches (95 %)"]]
    for level in checked:
        bound = f"{span(*level['interval'], decimals=1)} % (95 %); at most {100 * level['p_value']:g} % allowed"
        rows.append([f"p-value below {level['p_value']:g}", str(level["below"]), bound])
    promise = f"1 in {1 / measured['allowed']:,.0f} files and in {measured['allowed_hours']:,} h"
    rows.append(["false alarms by the bound", "–", promise])
    return [
        *markdown(["", "searches", "rate"], rows),
        "",
        f"`ideaw bench unmarked --data DIR`: {measured['searches']:,} searches of unmarked audio, plain and attacked, "
        f"{measured['hours']:.1f} h, for {measured['keys']} keys at once.",
    ]


def locating_table() -> list[str] | None:
    measured = results("locating").get(DEFAULT)
    if measured is None:
        return None
    rows = []
    for row in measured["rows"]:
        begin = "not marked" if row["begin"] is None else f"{row['begin']:g} s"
        cells = [f"{row['seconds']:g} s", begin]
        for method, seconds in row["took"].items():
            ratio = f" ({ratio_text(row['times_ours'][method])})" if method in row["times_ours"] else ""
            cells.append(f"{seconds:.2f} s{ratio}{'' if row['right'][method] else ', wrong'}")
        rows.append(cells)
    methods = list(measured["rows"][0]["took"])
    return [
        *markdown(["file", "marked from", *methods], rows),
        "",
        f"`ideaw bench locating`: one thread, medians of {measured['repeats']}, windows {measured['step']:g} s apart, "
        f"single stage: {measured['single'] or 'both stages of ours'}.",
    ]


def speed_table() -> list[str] | None:
    measured = speed_results()
    if measured is None:
        return None
    times = [time for time in measured["times"] if time["audio"] == "mono"]
    systems = list(measured["size"])
    lengths, threads = (sorted({time[what] for time in times}) for what in ("seconds", "threads"))
    tasks = list(dict.fromkeys(time["task"] for time in times if time["system"] == systems[0]))
    by_task = {(time["system"], time["task"], time["seconds"], time["threads"]): time for time in times}
    rows = []
    for task, seconds, count in product(tasks, lengths, threads):
        cells = [f"{by_task[systems[0], task, seconds, count]['wall']:.2f} s"]
        for peer in systems[1:]:
            peer_time = by_task.get((peer, peer_task(task), seconds, count))
            cells.append(ratio_text(peer_time["times_ours"][task]) if peer_time else "–")
        rows.append([f"{task}, {seconds:g} s", str(count), *cells])
    imports = [measured["imports"].get(system) for system in systems]
    rows.append(["import", "", *("–" if seconds is None else f"{seconds:.1f} s" for seconds in imports)])
    for task in ("embed", "detect"):
        peaks = [measured["peak"][system].get(task) for system in systems]
        cells = [f"{peak / 1e6:,.0f} MB" if peak else "–" for peak in peaks]
        rows.append([f"memory, {task} {lengths[-1]:g} s", "", *cells])
    rows.append(["installed", "", *(megabytes(measured, system) for system in systems)])
    rows += [
        [f"`{name}`", "", f"{seconds:.2f} s", *["–"] * (len(systems) - 1)]
        for name, seconds in measured["commands"].items()
    ]
    return [
        *markdown(["16 kHz mono", "threads", *systems], rows),
        "",
        "`make peers && python benchmarks/speed.py`: medians in one run, taking turns; × is the time over that of "
        f"{systems[0]}.",
    ]


def protocols_table() -> list[str] | None:
    tables = protocol_results(PROTOCOLS)
    if not tables:
        return None
    rows = []
    for name, table in tables.items():
        exact = {row["label"]: row["exact"]["value"] for row in table["rows"]}
        hardest = sorted((share, label) for label, share in exact.items() if share < 1)[:NUM_HARDEST]
        rows.append(
            [
                f"`{name}`",
                system_at_level(table).removeprefix(f"ideaw {DEFAULT} at "),
                str(table["clips"]),
                str(len(exact)),
                str(sum(share == 1 for share in exact.values())),
                f"{100 * sum(exact.values()) / len(exact):.1f} %",
                "; ".join(f"{label}: {100 * share:.0f} %" for share, label in hardest) or "none",
                str(count_alarms(table)),
            ]
        )
    heads = ["attacks", "all messages right", "message right, on average", "hardest attacks", "false alarms"]
    return [
        *markdown(["preset", "level", "clips", *heads], rows),
        "",
        f"`ideaw bench PRESET --data DIR --limit N --out docs/results/PRESET`: {DEFAULT}, one trial for each clip and "
        f"attack. {interval_note(table['clips'] for table in tables.values())} All rows, each with its interval, in "
        "docs/results/PRESET/report.csv.",
    ]


def security_table() -> list[str] | None:
    table = protocol_results(["security"]).get("security")
    if table is None:
        return None
    answers = ("right", "wrong", "none")
    rows = [
        [row["label"], *(percent(row[answer]) for answer in answers), row["should"], percent(row["kept"])]
        for row in table["rows"]
    ]
    return [
        *markdown(["threat", "right message", "wrong message", "none", "should be", "as it should"], rows),
        "",
        f"`ideaw bench security --data DIR --limit {table['clips']}`: {table['clips']} clips of {table['seconds']:g} s "
        f"for each threat, {system_at_level(table)}. {interval_note([table['clips']])}",
    ]


def peer_task(task: str) -> str:
    """The peers' task that one of ours is compared with: their detection takes as long without a mark."""
    return "embed" if task == "embed" else "detect, marked"


def _quality_cells(values: dict[str, float]) -> dict[str, str]:
    """The cells of a row of the quality table; results of before onsets were measured have fewer."""
    means = {name: value for name, value in values.items() if not name.endswith(MARGIN)}
    cells = {name: f"{value}{_margin(values, name)}" for name, value in rounded(means).items()} | {
        "files": f"{values['files']:.0f}",
        "noise to mask": f"{values['noise to mask']:+.1f} dB",
        "masked": f"{values['masked']:.0f} %",
    }
    if "onsets" not in values:
        return cells
    span = f"{values['lowest noise to mask']:+.1f} to {values['highest noise to mask']:+.1f}"
    level = f"{values['before onsets']:.1f} dBFS" if "before onsets" in values else "nothing"
    return cells | {
        "noise to mask": f"{cells['noise to mask']} ({span})",
        "before onsets": f"{level} ({values['onsets']:.0f})" if values["onsets"] else "no onset",
        "silence changed": f"{values['silence changed']:.0f} of {values['files']:.0f}",
    }


def _margin(values: dict[str, float], name: str) -> str:
    """The interval of a mean, where it was measured."""
    margin = values.get(name + MARGIN)
    return "" if margin is None else f" ± {margin:.{3 if name == 'STOI' else 2}f}"


def _exact(row: Result) -> str:
    low, high = row["right_interval"]
    return f"{100 * row['right'] / row['clips']:.1f} ({span(low, high, decimals=1)})"


def count_alarms(table: Result) -> int:
    return sum(round(row["alarms"]["value"] * row["clips"]) for row in table["rows"])


def percent(share: Result) -> str:
    return f"{100 * share['value']:.0f} %"


def percent_with_interval(share: Result) -> str:
    return f"{percent(share)} ({span(share['low'], share['high'])})"


def ratio_text(ratio: float) -> str:
    return f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:.2g} ×"


def megabytes(speed: Result, system: str) -> str:
    return f"{speed['size'][system] / 1e6:,.0f} MB"


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3 if name.startswith("STOI") else 2) for name, value in values.items()}
