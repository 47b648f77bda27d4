"""Cut the README's tables and the cards' numbers from what the benchmarks measured.

    for model in 46+10 22+10 10+10; do
        ideaw bench segments --data DIR --model $model --limit 372 --others --json docs/results/segments-$model.json
    done
    ideaw bench quality --data DIR --json docs/results/quality-46+10.json
    ideaw bench levels --data DIR --json docs/results/levels-46+10.json --plot docs/results/levels-46+10.png
    python benchmarks/publish.py

A test fails when README or cards differ from the results.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MODELS = ("46+10", "22+10", "10+10")
PAPER_SNR = {"46+10": 35.41, "22+10": 37.72, "10+10": 40.43}
"""What the paper says of its models, in dB, on average."""


def results(kind: str) -> dict[str, dict[str, Any]]:
    """Model → what a benchmark measured of it."""
    paths = {name: ROOT / "docs/results" / f"{kind}-{name}.json" for name in MODELS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def readme(text: str) -> str:
    """The README with the results between its markers."""
    sections = {"segments": _segments, "others": _others, "quality": _quality}
    for name, section in sections.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        head, rest = text.split(begin)
        text = head + begin + section() + end + rest.split(end)[1]
    return text


def card(text: str, name: str) -> str:
    """A card with the numbers of its model on it."""
    measured = results("segments")[name]
    numbers = {
        "segments": {row["label"]: round(row["accuracy"], 2) for row in measured["rows"]},
        "other_attacks": {row["label"]: round(row["accuracy"], 2) for row in measured["others"]},
    }
    quality = results("quality").get(name)
    if quality:
        numbers["quality"] = {kind: _rounded(values) for kind, values in quality["by_kind"].items()}
    return json.dumps(json.loads(text) | numbers, indent=2) + "\n"


def _segments() -> str:
    tables = results("segments")
    any_table = next(iter(tables.values()))
    labels = [row["label"] for row in any_table["rows"]]
    lines = [f"| % of bits right | SNR | {' | '.join(labels)} |", "| --- " * (len(labels) + 2) + "|"]
    for name, table in tables.items():
        ours = [("all", [row["accuracy"] for row in table["rows"]])]
        ours += [(kind, [row["by_kind"][kind] for row in table["rows"]]) for kind in table["rows"][0]["by_kind"]]
        for what, values in ours:
            cells = " | ".join(f"{value:.2f}" for value in values)
            lines.append(f"| **{name}**, {what} | ≥ {table['snr']:g} dB | {cells} |")
        printed = " | ".join(f"{row['paper']:.2f}" for row in table["rows"])
        lines.append(f"| the paper's {name} | {PAPER_SNR[name]} dB | {printed} |")
    lowest = min(table["lowest_snr"] - table["snr"] for table in tables.values())
    counts = ", ".join(str(table["segments"]) for table in tables.values())
    return "\n".join(
        [
            *lines,
            "",
            f"`ideaw bench segments --data DIR --model NAME --limit N`: {counts} seconds of speech and music",
            "above −40 dBFS, unseen in training, each marked with random bits at the SNR given or above",
            f"(the lowest of any segment is {abs(lowest):.2f} dB off), location known, code and message bits together.",
            "GN noise at 35 dB, LF low-pass 5 kHz, CP MP3 64 kbit/s, QZ 2⁹ levels, RD 0.1 % of samples dropped,",
            "RS resampled to 200 % and back, AM × 0.9, TS stretched to 90 % and back by a phase vocoder. The paper's",
            "rows are of its own audio (VCTK and FMA), which could not be had here, and its SNR is an average.",
            "",
        ]
    )


def _others() -> str:
    rows = results("segments")["46+10"]["others"]
    half = -(-len(rows) // 2)
    lines = []
    for some in (rows[:half], rows[half:]):
        cells = [f"{row['accuracy']:.2f}" for row in some]
        lines += [f"| {' | '.join(row['label'] for row in some)} |", "| --- " * len(some) + "|"]
        lines += [f"| {' | '.join(cells)} |", ""]
    return "\n".join([*lines, "The same segments of 46+10 (`--others`): % of bits right, nothing searched for.", ""])


def _quality() -> str:
    measured = results("quality")["46+10"]
    names = ["SNR", "PESQ", "lowest PESQ", "STOI", "ViSQOL"]
    lines = [f"| 46+10 at {measured['snr']:g} dB | files | {' | '.join(names)} |", "| --- " * (len(names) + 2) + "|"]
    for kind, values in measured["by_kind"].items():
        shown = _rounded(values)
        lines.append(f"| {kind} | {values['files']:.0f} | {' | '.join(str(shown[name]) for name in names)} |")
    return "\n".join([*lines, "", "`ideaw bench quality --data DIR`: whole files, means over them.", ""])


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3 if name == "STOI" else 2) for name, value in values.items()}


def main() -> None:
    """Bring README and cards up to the results."""
    path = ROOT / "README.md"
    path.write_text(readme(path.read_text()))
    for name in results("segments"):
        path = ROOT / "src/ideaw/models" / name / "card.json"
        path.write_text(card(path.read_text(), name))


if __name__ == "__main__":
    main()
