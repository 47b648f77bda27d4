"""The table on verdicts: which one each kind of edit or forgery gets, and how often."""

import json

from intervals import of
from result_tables import ROOT, markdown

VERDICTS_FILE = ROOT / "docs/results/verdicts.json"


def verdicts_table() -> list[str] | None:
    """Verdicts by what was done to the files."""
    if not VERDICTS_FILE.exists():
        return None
    content = json.loads(VERDICTS_FILE.read_text())
    rows = []
    for row in content["rows"]:
        statuses, expected = row["statuses"], row["expected"]
        others = [f"{count} {status}" for status, count in sorted(statuses.items()) if status != expected]
        right = of(statuses.get(expected, 0), sum(statuses.values()))
        rows.append((row["label"], f"`{expected}`", right, ", ".join(others) or "–"))
    note = f"`benchmarks/verdicts.py`: {content['clips']} clips of speech and music, each row on all of them."
    return [*markdown(("what was done", "right verdict", "given (95 %)", "others given"), rows), "", note]
