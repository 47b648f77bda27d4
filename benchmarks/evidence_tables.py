"""The figures that an installed ideaw carries for `ideaw evidence`: tables of docs/results, each with the commands that
measured it and how old they are. `publish.py` writes them, since a wheel does not carry docs/results.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import deep_tables
import file_tables
import make_results
import provenance_tables
import result_tables as tables
import stream_tables
import verdict_tables
from intervals import span
from stamps import Stamp, stamp

from ideaw.attacks.catalogue import ATTACKS

FILE = tables.ROOT / "src/ideaw/evidence/figures.json"


@dataclass(frozen=True)
class Evidence:
    """A table of the report, and the figures of `make_results.py` that it shows."""

    table: Callable[[], list[str] | None]
    figures: tuple[str, ...]


def preset_table(name: str) -> list[str] | None:
    """Every row of a preset of attacks, with its intervals."""
    table = tables.protocol_results([name]).get(name)
    if table is None:
        return None
    rows = [
        [row["label"], str(row["clips"]), *(_share(row[what]) for what in ("exact", "seen", "wrong", "alarms"))]
        for row in table["rows"]
    ]
    heads = ["after", "clips", "message right, % (95 %)", "mark seen, %", "wrong message, %", "false alarms, %"]
    count = f"{table['clips']} clips of {table['seconds']:g} s at {table['rate']} Hz"
    skipped = "".join(f" Not measured: {label} ({why})." for label, why in table["skipped"].items())
    return [
        *tables.markdown(heads, rows),
        "",
        f"`ideaw bench {name}`: {count}, {tables.system_at_level(table)}, intervals of 95 %.{skipped}",
    ]


def _share(share: tables.Result | None) -> str:
    if share is None:
        return "–"
    return f"{100 * share['value']:.0f} ({span(share['low'], share['high'])})"


def _deep(table: str, *figures: str) -> Evidence:
    return Evidence(deep_tables.FRAGMENTS[table], tuple(f"deep/{name}.json" for name in figures))


def _preset(name: str) -> Evidence:
    return Evidence(partial(preset_table, name), (name,))


EVIDENCE: dict[str, Evidence] = {
    "lengths": Evidence(file_tables.lengths_table, ("lengths-46+10.json",)),
    "shortness": Evidence(stream_tables.shortness_table, ("stream.json",)),
    "borders": Evidence(tables.borders_table, ("files-46+10.json",)),
    "files": Evidence(tables.files_table, ("files-46+10.json", "files-stereo.json")),
    **{name: _preset(name) for name in ("edits", "rawbench-strict", "audiomarkbench", "resynthesis", "voice")},
    "deep-speech": _deep("deep-speech", "rates-speech"),
    "deep-music": _deep("deep-music", "rates-music"),
    "deep-stereo": _deep("deep-stereo", "stereo"),
    "deep-edits": _deep("deep-edits", "edits"),
    "deep-streams": _deep("deep-streams", "streams"),
    "deep-messages": _deep("deep-messages", "messages"),
    "unmarked": Evidence(tables.unmarked_table, ("unmarked-46+10.json",)),
    "deep-alarms": _deep("deep-alarms", "alarms"),
    "quality": Evidence(tables.quality_table, ("quality-46+10.json",)),
    "deep-quality": _deep("deep-quality", "quality-speech", "quality-music"),
    "stream": Evidence(stream_tables.stream_table, ("stream.json",)),
    "security": Evidence(tables.security_table, ("security",)),
    "deep-security": _deep("deep-security", "security"),
    "verdicts": Evidence(verdict_tables.verdicts_table, ("verdicts.json",)),
    "fingerprint": Evidence(provenance_tables.fingerprint_table, ("fingerprint.json",)),
    "other-audio": Evidence(provenance_tables.other_audio_table, ("fingerprint.json",)),
    "containers": Evidence(file_tables.containers_table, ("containers.json",)),
}
"""Name in the report → what it shows."""


def figures() -> str:
    """The JSON text that the package carries, one line for each table."""
    made, now = make_results.read_stamps(), stamp()
    lines = [f"{json.dumps(name)}: {_json(_figure(evidence, made, now))}" for name, evidence in EVIDENCE.items()]
    return f'{{"source": {_json(now)}, "figures": {{\n' + ",\n".join(lines) + "\n}}\n"


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)


def _figure(evidence: Evidence, made: dict[str, Stamp], now: Stamp) -> dict[str, Any]:
    """A table taken apart, without its Markdown; no rows where it was not measured."""
    by_name = {figure.name: figure for figure in make_results.FIGURES}
    sources = [
        {
            "name": name.removesuffix(".json"),
            "command": make_results.command_of(by_name[name], made),
            "made_with": make_results.made_with(by_name[name], made, now),
        }
        for name in evidence.figures
    ]
    lines = evidence.table()
    if lines is None:
        return {"sources": sources, "heads": [], "rows": [], "note": ""}
    border = lines.index("")
    heads, _, *rows = (line[2:-2].replace("**", "").replace("`", "").split(" | ") for line in lines[:border])
    note = " ".join(line for line in lines[border:] if line).replace("`", "")
    rows = [[_spelt_out(label), *cells] for label, *cells in rows]
    return {"sources": sources, "heads": [head.strip() for head in heads], "rows": rows, "note": note}


def _spelt_out(label: str) -> str:
    """A row's label with the paper's abbreviation of an attack in words."""
    before, comma, last = label.rpartition(", ")
    summary = next((attack.summary for attack in ATTACKS.values() if attack.label == last), last)
    return before + comma + summary
