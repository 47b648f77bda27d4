"""Cut the README's table and the card's numbers from what `ideaw bench segments --json` measured.

    ideaw bench segments --data DIR --json docs/results/segments-46+10.json
    python benchmarks/publish.py

A test fails when README or card differ from the results.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- segments -->\n", "<!-- /segments -->\n"


def results() -> dict[str, dict[str, Any]]:
    """Model → what was measured of it."""
    return {
        path.stem.removeprefix("segments-"): json.loads(path.read_text())
        for path in sorted((ROOT / "docs/results").glob("segments-*.json"))
    }


def readme(text: str) -> str:
    """The README with the table of the results between its markers."""
    head, rest = text.split(BEGIN)
    return head + BEGIN + _section(results()) + END + rest.split(END)[1]


def card(text: str, measured: dict[str, Any]) -> str:
    """A card with the numbers of its model on it."""
    segments = {row["label"]: round(row["accuracy"], 2) for row in measured["rows"]}
    return json.dumps(json.loads(text) | {"segments": segments}, indent=2) + "\n"


def _section(tables: dict[str, dict[str, Any]]) -> str:
    any_table = next(iter(tables.values()))
    labels = [row["label"] for row in any_table["rows"]]
    lines = [f"| % of bits right | SNR | {' | '.join(labels)} |", "| --- " * (len(labels) + 2) + "|"]
    for name, table in tables.items():
        kinds = table["rows"][0]["by_kind"]
        ours = [("all", [row["accuracy"] for row in table["rows"]])]
        ours += [(kind, [row["by_kind"][kind] for row in table["rows"]]) for kind in kinds]
        for what, values in ours:
            cells = " | ".join(f"{value:.2f}" for value in values)
            lines.append(f"| **{name}**, {what} | ≥ {table['snr']:g} dB | {cells} |")
        printed = " | ".join(f"{row['paper']:.2f}" for row in table["rows"])
        lines.append(f"| the paper's {name}, on its own audio | 35.41 dB | {printed} |")
    return "\n".join(
        [
            *lines,
            "",
            f"`ideaw bench segments --data DIR`: {any_table['segments']} seconds of speech and music above −40 dBFS,",
            "unseen in training, each marked with random bits",
            f"(lowest SNR of any segment {any_table['lowest_snr']:.2f} dB), location known,",
            "code and message bits together. GN noise at 35 dB, LF low-pass 5 kHz, CP MP3 64 kbit/s, QZ 2⁹ levels,",
            "RD 0.1 % of samples dropped, RS resampled to 200 % and back, AM × 0.9, TS stretched to 90 % and back by a",
            "phase vocoder. The paper's rows are of its own audio (VCTK and FMA), which could not be had here.",
            "",
        ]
    )


def main() -> None:
    """Bring README and cards up to the results."""
    path = ROOT / "README.md"
    path.write_text(readme(path.read_text()))
    for name, measured in results().items():
        path = ROOT / "src/ideaw/models" / name / "card.json"
        path.write_text(card(path.read_text(), measured))


if __name__ == "__main__":
    main()
