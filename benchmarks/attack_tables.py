"""Tables of attacks with their cost, and of attacks whose code elsewhere differs; see `result_tables.py`."""

import json
from typing import Any

import result_tables as tables
from result_tables import count_alarms, markdown, percent, protocol_results

COSTS = ("PESQ", "STOI")
"""Quality that an attack leaves."""


def cost_table(preset: str) -> list[str]:
    """The rows of a preset, the worst first, with what each attack leaves of the audio; or that it was not measured."""
    table = protocol_results([preset]).get(preset)
    if table is None:
        return [f"`ideaw bench {preset}` was not measured with this version yet."]
    rows = [
        [row["label"], percent(row["exact"]), *(_left(row["cost"].get(name)) for name in COSTS)]
        for row in sorted(table["rows"], key=lambda row: row["exact"]["value"])
    ]
    skipped = "".join(f" {label}: {why}." for label, why in table["skipped"].items())
    return [
        *markdown(["attack", "message right", *(f"{name} left" for name in COSTS)], rows),
        "",
        f"`ideaw bench {preset} --data DIR --limit {table['clips']}`: clips of {table['seconds']:g} s, "
        f"{table['system']}, {count_alarms(table)} false alarms; "
        f"intervals in docs/results/{preset}/report.csv.{skipped}",
    ]


def _left(cost: dict[str, Any] | None) -> str:
    return "–" if cost is None else f"{cost['value']:.2f}"


def other_code_table() -> list[str] | None:
    """Attacks of other benchmarks by their code's settings and by ours."""
    path = tables.ROOT / "docs/results/other-code.json"
    if not path.exists():
        return None
    content = json.loads(path.read_text())
    rows = [
        [row["benchmark"], row["attack"], *(f"{row[level]} of {row['clips']}" for level in ("by_hearing", "fixed_snr"))]
        for row in content["rows"]
    ]
    return [
        *markdown(["benchmark", "attack", "level by hearing", f"SNR of {content['snr']:g} dB"], rows),
        "",
        f"`benchmarks/other_code.py`: messages right in clips of {content['seconds']:g} s, mono at "
        f"{content['rate'] / 1000:g} kHz.",
    ]
