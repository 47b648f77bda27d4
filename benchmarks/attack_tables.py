"""Tables of attacks with their cost, and of attacks whose code elsewhere differs; see `result_tables.py`."""

import json
from typing import Any

import result_tables as tables
from intervals import of
from result_tables import count_alarms, markdown, percent_with_interval, protocol_results

COSTS = ("PESQ", "STOI")
"""Quality that an attack leaves."""


def cost_table(preset: str) -> list[str]:
    """The rows of a preset, the worst first, with what each attack leaves of the audio; or that it was not measured."""
    table = protocol_results([preset]).get(preset)
    if table is None:
        return [f"`ideaw bench {preset}` was not measured with this version yet."]
    rows = [
        [row["label"], percent_with_interval(row["exact"]), *(_left(row["cost"].get(name)) for name in COSTS)]
        for row in sorted(table["rows"], key=lambda row: row["exact"]["value"])
    ]
    skipped = "".join(f" {label}: {why}." for label, why in table["skipped"].items())
    return [
        *markdown(["attack", "message right (95 %)", *(f"{name} left" for name in COSTS)], rows),
        "",
        f"`ideaw bench {preset} --data DIR --limit {table['clips']}`: {table['clips']} clips of "
        f"{table['seconds']:g} s, {tables.system_at_level(table)}, {count_alarms(table)} false alarms; "
        f"more columns and their intervals in docs/results/{preset}/report.csv.{skipped}",
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
        [row["benchmark"], row["attack"], *(of(row[level], row["clips"]) for level in ("by_hearing", "fixed_snr"))]
        for row in content["rows"]
    ]
    return [
        *markdown(["benchmark", "attack", "level by hearing", f"SNR of {content['snr']:g} dB"], rows),
        "",
        f"`benchmarks/other_code.py`: messages right (and 95 % intervals) in clips of {content['seconds']:g} s, mono "
        f"at {content['rate'] / 1000:g} kHz.",
    ]
