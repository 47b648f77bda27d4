"""The tables on marking files: what stays in them, what reading back and looking for older marks cost, how much audio
a mark needs.
"""

import json
from pathlib import Path

from intervals import interval_note
from result_tables import DEFAULT, ROOT, Result, markdown, results

CONTAINERS_FILE, MARKING_FILE = (ROOT / "docs/results" / name for name in ("containers.json", "marking.json"))


def containers_table() -> list[str] | None:
    """What stays of files beside their samples, by format: kinds of metadata, and the programs that read them."""
    content = _read(CONTAINERS_FILE)
    if content is None:
        return None
    by_format: dict[str, list[Result]] = {}
    for cell in content["cells"]:
        by_format.setdefault(cell["format"], []).append(cell)
    rows = []
    for name, group in by_format.items():
        shown = [(f"{cell['kind']} ({cell['program']})", cell["kept"]) for cell in group]
        kept, lost = ([text for text, stays in shown if stays is wanted] for wanted in (True, False))
        rows.append((name, f"{len(kept)} of {len(group)}", "; ".join(kept), "; ".join(lost) or "–"))
    num_cells, num_kept = len(content["cells"]), sum(cell["kept"] for cell in content["cells"])
    note = (
        f"`benchmarks/container_matrix.py`: {num_kept} of {num_cells} cells kept, in {len(by_format)} marked files; in "
        "brackets the program that read both, source and marked file."
    )
    return [*markdown(("format", "kept", "what stays", "what does not"), rows), "", note]


def lengths_table() -> list[str] | None:
    """Messages read right, by length and edit."""
    table = results("lengths").get(DEFAULT)
    if table is None:
        return None
    rows: dict[str, list[str]] = {}
    for cell in table["cells"]:
        exact, found = (100 * cell[kind] / cell["pieces"] for kind in ("right", "found"))
        seen = "" if found == exact else f" ({found:.0f})"
        rows.setdefault(cell["edit"], []).append(f"{exact:.0f}{seen}")
    by_length = {cell["seconds"]: cell for cell in table["cells"]}
    counts = sorted({cell["pieces"] for cell in table["cells"]})
    refused = ", ".join(f"{cell['refused']} of {s:g} s" for s, cell in by_length.items() if cell["refused"])
    note = (
        f"`ideaw bench lengths` ({'–'.join(map(str, counts))} pieces a cell, 44.1 kHz stereo; per cent of them whose "
        "message was right, in brackets in which a mark was found, where that is more); "
        f"{sum(cell['wrong'] for cell in table['cells'])} wrong messages; refused by `embed`: {refused or 'none'}. "
        f"{interval_note(counts)}"
    )
    return [*markdown(("", *(f"{seconds:g} s" for seconds in by_length)), [(k, *v) for k, v in rows.items()]), "", note]


def marking_table() -> list[str] | None:
    """What reading back and looking for older marks add to the time of marking a file."""
    content = _read(MARKING_FILE)
    if content is None:
        return None
    rows = [
        (
            f"{row['seconds']} s of {row['audio']}, {row['format']}",
            f"{row['mark']:.2f} s",
            f"{100 * row['verify'] / row['mark']:.0f} %",
            f"{100 * row['search'] / row['mark']:.0f} %",
        )
        for row in content["rows"]
    ]
    heads = ("file", "marking alone, CPU time", "reading back adds", "looking for an older mark adds")
    note = f"`benchmarks/marking_cost.py`: one thread, the least of {content['repeats']} runs each."
    return [*markdown(heads, rows), "", note]


def _read(path: Path) -> Result | None:
    return json.loads(path.read_text()) if path.exists() else None
