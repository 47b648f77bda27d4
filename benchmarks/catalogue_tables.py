"""The tables on catalogues and on a service under load; see `result_tables.py`."""

import json

import result_tables as tables
from intervals import interval_note, of
from result_tables import Result, markdown

MILLION_HOURS, EUROS_PER_CORE_HOUR = 1_000_000, 0.04
"""Size of a catalogue on paper, and an assumed price."""


def load_table() -> list[str] | None:
    paths = [tables.ROOT / "docs/results" / name for name in ("load.json", "load-again.json")]
    loads = [json.loads(path.read_text()) for path in paths if path.exists()]
    if not loads:
        return None
    rows = []
    for load in loads:
        kind = "come again when told" if load["again"] else "come once"
        served = {one["task"]: f"{one['median']:.1f} s, {one['p95']:.1f} s" for one in load["latencies"]}
        rows.append(
            [
                f"{load['uploads']}, {kind}",
                str(load["right"]),
                f"{load['busy']} ({100 * load['busy'] / load['uploads']:.0f} %)",
                str(load["wrong"]),
                served["embed"],
                served["detect"],
                f"{load['peak_bytes'] / 1e6:.0f} MB",
            ]
        )
    heads = ["clients at once", "right", "told to come again, and did not", "wrong", "marking: median, 95 %"]
    alone = ", ".join(
        f"{task} {load['alone'][task]:.2f} s ({load['cpu'][task]:.2f} s of CPU)"
        for load in loads[:1]
        for task in load["alone"]
    )
    return [
        *markdown([*heads, "detection: median, 95 %", "memory, all processes"], rows),
        "",
        f"`benchmarks/load.py`, clips of {loads[0]['seconds']:g} s in stereo at 44.1 kHz, half to be marked and half "
        f"to be searched, {loads[0]['workers']} workers, one run of each. One request alone: {alone}.",
    ]


def catalogue_results(what: str) -> Result | None:
    """What `catalogue.py WHAT` measured, if it was run."""
    path = tables.ROOT / "docs/results" / f"catalogue-{what}.json"
    return json.loads(path.read_text()) if path.exists() else None


def catalogue_faults_table() -> list[str] | None:
    measured = catalogue_results("faults")
    if measured is None:
        return None
    rows = [
        [
            engine,
            *(f"{run[name]:,}" for name in ("workers_killed", "drivers_killed", "refusals", "rows", "distinct")),
            str(len(run["wrong"])),
            str(run["statuses"].get("error", 0)),
        ]
        for engine, run in measured.items()
    ]
    heads = ["engine", "workers killed", "drivers killed", "answers of 503", "rows", "files", "wrong", "of them errors"]
    files = next(iter(measured.values()))["files"]
    return [
        *markdown(heads, rows),
        "",
        f"`benchmarks/catalogue.py faults`: {files:,} files, two workers, one run of each engine.",
    ]


def catalogue_overhead_table() -> list[str] | None:
    measured = catalogue_results("overhead")
    if measured is None:
        return None
    rows = [
        [
            engine,
            f"{run['start_cpu']:.1f} s",
            f"{run['detection_cpu']:.1f} s",
            f"{max(run['engine_cpu'], 0):.1f} s",
            f"{100 * max(run['share'], 0):.1f} %",
        ]
        for engine, run in measured.items()
    ]
    heads = ["engine", "start-up", "files", "engine after start-up", "share of the engine"]
    run = next(iter(measured.values()))
    note = (
        f"{run['files']:,} clips of {run['seconds']:g} s in stereo, FLAC, own speed only, two workers, one run of each"
    )
    return [*markdown(heads, rows), "", f"`benchmarks/catalogue.py overhead`: {note}."]


def catalogue_scaling_table() -> list[str] | None:
    measured = catalogue_results("scaling")
    if measured is None:
        return None
    times, cpu = f"{measured['times_one_worker']:.2f}", f"{measured['cpu_ratio']:.2f}"
    return [
        *markdown(["two workers beside one", "times"], [["files in a second", times], ["CPU of a file", cpu]]),
        "",
        f"`benchmarks/catalogue.py scaling`: medians of {len(measured['turns'])} turns, {measured['files']} clips, "
        f"{measured['cores']} cores, load average of the 15 minutes before {measured['load_before']:.1f}.",
    ]


def catalogue_listening_table() -> list[str] | None:
    measured = catalogue_results("listening")
    if measured is None:
        return None
    rows = []
    whole = {(row["marked"], row["file"]): row["cpu_seconds"] for row in measured["rows"] if row["mode"] == "all"}
    for row in measured["rows"]:
        saved = 1 - row["cpu_seconds"] / whole[row["marked"], row["file"]]
        rows.append(
            [
                f"{row['marked']}, {row['file'].upper()}",
                row["mode"],
                row["status"],
                f"{row['heard_seconds']:,.0f} s",
                f"{row['cpu_seconds']:.1f} s",
                "–" if row["mode"] == "all" else f"{100 * saved:.0f} %",
            ]
        )
    heads = ["marked from", "listened to", "status", "heard", "CPU", "saved"]
    note = f"`benchmarks/catalogue.py listening`: files of {measured['hours']:g} h, one run of each."
    return [*markdown(heads, rows), "", note]


def catalogue_probes_table() -> list[str] | None:
    measured = catalogue_results("listening")
    if measured is None:
        return None
    rows = [[f"{row['marked_seconds']} s", of(row["found"], row["trials"])] for row in measured["missed"]]
    probes = measured["missed"][0]["probes"]
    return [
        *markdown(["length of the mark", f"found by {probes} probes (95 %)"], rows),
        "",
        f"`benchmarks/catalogue.py listening`: {measured['hours']:g} h of mono at 16 kHz.",
    ]


def catalogue_cache_table() -> list[str] | None:
    measured = catalogue_results("cache")
    if measured is None:
        return None
    rows = [
        ["size for an hour of audio", f"{measured['bytes_per_hour'] / 1e6:.1f} MB"],
        [f"{measured['keys']:,} keys over {measured['hours']:.0f} h", f"{measured['search_cpu']:.0f} s of CPU"],
        ["one key", f"{measured['cpu_per_key']:.3f} s of CPU"],
        ["listening once instead", f"{measured['listening_cpu']:.0f} s of CPU"],
        ["files located that hold no mark", str(measured["false_locations"])],
    ]
    return [
        *markdown(["", ""], rows),
        "",
        "`benchmarks/catalogue.py cache`: tracks of 210 s; listening is without decoding, for one key.",
    ]


def catalogue_losses_table() -> list[str] | None:
    measured = catalogue_results("cache")
    if measured is None:
        return None
    rows = [
        [
            f"{row['seconds']} s, noise {row['noise']:g}",
            *(f"{row[way]['found']} (+ {row[way]['unreadable']} located)" for way in ("listened", "cached")),
        ]
        for row in measured["losses"]
    ]
    files = measured["losses"][0]["files"]
    return [
        *markdown([f"of {files} files", "found by listening", "found in the cache"], rows),
        "",
        f"`benchmarks/catalogue.py cache`: {files} files of each kind; noise is its standard deviation, full scale 1. "
        f"{interval_note([files])}",
    ]


def catalogue_paper_table() -> list[str] | None:
    listening, overhead = catalogue_results("listening"), catalogue_results("overhead")
    if listening is None or overhead is None:
        return None
    share, rows = max(0.0, overhead["local"]["share"]), []
    for row in listening["rows"]:
        if row["file"] != "mp3":
            continue
        core_hours = row["cpu_seconds"] / listening["hours"] * MILLION_HOURS / 3600 / (1 - share)
        rows.append(
            [
                f"{row['marked']}, {row['mode']}",
                f"{row['cpu_seconds'] / listening['hours']:.1f} s",
                f"{core_hours:,.0f}",
                f"{core_hours / 24:,.0f}",
                f"{core_hours * EUROS_PER_CORE_HOUR:,.0f} €",
            ]
        )
    heads = ["marked from, listened to", "CPU for an hour", "core-hours", "cores for one day", "at 0.04 € a core-hour"]
    return [*markdown(heads, rows), "", "From `benchmarks/catalogue.py listening` and `overhead`; own speed only."]
