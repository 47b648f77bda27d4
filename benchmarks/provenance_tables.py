"""The tables on fingerprints: recordings that are missed, other audio that is taken for one, and what was replaced."""

import json

from intervals import interval, interval_note
from result_tables import ROOT, Result, markdown

FINGERPRINT_FILE = ROOT / "docs/results/fingerprint.json"


def fingerprint_table() -> list[str] | None:
    """Missed cuts by edit, length and kind, and the errors with which other recordings are told from them."""
    content = _read()
    if content is None:
        return None
    cells = {(row["edit"], row["seconds"], row["kind"]): row for row in content["rates"]}
    columns = sorted({(seconds, kind) for _, seconds, kind in cells})
    rows = [
        (
            f"missed, {edit}",
            *(f"{cells[edit, *column]['missed']} of {cells[edit, *column]['cuts']}" for column in columns),
        )
        for edit in dict.fromkeys(row["edit"] for row in content["rates"])
    ]
    others = {(row["seconds"], row["kind"]): row for row in content["others"] if row["what"] == "another recording"}
    rows.append(
        ("another recording taken", *(f"{others[key]['taken']} of {others[key]['pairs']:,}" for key in columns))
    )
    errors = {(row["seconds"], row["kind"]): row for row in content["errors"]}
    names = {
        "equal_error": "equal error rate, all edits",
        "equal_error_hardest": "equal error rate, the last edit",
        "chromaprint_hardest": "the same, Chromaprint",
        "chromaprint_clean": "Chromaprint, no edit",
    }
    for name, label in names.items():
        if all(name in row for row in errors.values()):
            rows.append((label, *(f"{100 * errors[key][name]:.2f} %" for key in columns)))
    cost = content["cost"]
    note = (
        f"`benchmarks/fingerprint.py`: {content['recordings']} marked recordings of two clips each, one cut of each "
        f"length from anywhere; {cost['bytes_per_second']:.0f} bytes and {cost['cpu_ms_per_second']:.1f} ms of CPU a "
        f"second; {cost['compared_seconds'] / 60:.1f} minutes compared with as many others in "
        f"{cost['compare_cpu_seconds']:.2f} s. {interval_note(row['cuts'] for row in content['rates'])}"
    )
    return [*markdown(["", *(f"{kind}, {seconds} s" for seconds, kind in columns)], rows), "", note]


def other_audio_table() -> list[str] | None:
    """What is not the recording, and how often something of it is taken for it."""
    content = _read()
    if content is None:
        return None
    rows = [
        (
            f"{row['what']}, {row['kind']}",
            f"{row['pairs']:,}",
            str(row["taken"]),
            f"{interval(row['taken'], row['pairs'])} %",
            f"{row['highest']:.2f}",
        )
        for row in content["others"]
        if row["what"] != "another recording"
    ]
    note = "`benchmarks/fingerprint.py`."
    if "pairs" in content:
        pairs = content["pairs"]
        rows.append(
            (
                "3 s in another clip",
                f"{pairs['pairs']:,}",
                str(pairs["above_threshold"]),
                f"{interval(pairs['above_threshold'], pairs['pairs'], decimals=3)} %",
                f"{pairs['highest']:.2f}",
            )
        )
        scores = ", ".join(f"{name} reaches {score:.3f}" for name, score in pairs["scores"].items())
        note = (
            f"`benchmarks/fingerprint.py`: 3 s of {pairs['clips']} clips of training audio in all of the others "
            f"({pairs['hours']:.1f} h; {pairs['shared']} pairs whose waveforms share a recording are left out): "
            f"{scores}; the threshold is {pairs['threshold']:g}."
        )
    return [*markdown(["audio", "pairs", "taken for the recording", "95 %", "highest score"], rows), "", note]


def fingerprint_speeds_table() -> list[str] | None:
    """Cuts at another speed."""
    content = _read()
    if content is None:
        return None
    rows = [
        (
            f"{100 * (row['speed'] - 1):+.1f} %",
            _share(row, "agree", "cuts"),
            _share(row, "agree_undone", "cuts"),
        )
        for row in content["speeds"]
    ]
    note = f"`benchmarks/fingerprint.py`: cuts of 5 s of {content['speeds'][0]['cuts']} recordings. "
    note += interval_note([content["speeds"][0]["cuts"]])
    return [*markdown(["speed", "agree as they are", "agree with the speed undone"], rows), "", note]


def replaced_table() -> list[str] | None:
    """Files of which a stretch was replaced, and files that were only edited."""
    content = _read()
    if content is None:
        return None
    rows = [
        (f"{row['seconds']} s replaced", str(row["files"]), str(row["in_part"]), f"{row['border']:.2f} s")
        for row in content["replaced"]
    ]
    for row in content["whole"]:
        rows.append((f"whole, {row['edit']}", str(row["files"]), str(row["files"] - row["agree"]), "–"))
    note = "`benchmarks/fingerprint.py`: other audio as long as what was there; MP3 at 64 kbit/s of it all. "
    note += interval_note(row["files"] for row in (*content["replaced"], *content["whole"]))
    return [*markdown(["file", "files", "noticed as not whole", "borders off by (median)"], rows), "", note]


def _read() -> Result | None:
    return json.loads(FINGERPRINT_FILE.read_text()) if FINGERPRINT_FILE.exists() else None


def _share(row: Result, part: str, whole: str) -> str:
    return f"{row[part]:,} of {row[whole]:,}"
