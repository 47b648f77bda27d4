"""A folder of results: one `report.html` that needs no other file, and its tables and pictures beside it.

Of a section named `table-1` there are `table-1.csv`, with numbers as they were measured, and `table-1.png`. In the page
numbers have two digits, and pictures and sounds lie within it, so that it can be sent around.
"""

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from ideaw.audio import plain

Cell = str | float | None
"""Of a table; None: it was not measured."""

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; background: white; }
figure { display: inline-block; margin: .5rem 1rem .5rem 0; }
"""


@dataclass(frozen=True)
class Table:
    """Numbers under their heads, row by row."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Section:
    """One part of a report: words, then a table, a picture (PNG) and sounds (label → FLAC), as far as there are any."""

    name: str
    title: str
    notes: Sequence[str] = ()
    table: Table | None = None
    picture: bytes | None = None
    sounds: Mapping[str, bytes] = field(default_factory=dict)


def write(folder: Path, title: str, sections: Sequence[Section]) -> Path:
    """Write the report and what lies beside it; the page's path."""
    for section in sections:
        if section.table is not None:
            _place(folder / f"{section.name}.csv", _csv(section.table).encode())
        if section.picture is not None:
            _place(folder / f"{section.name}.png", section.picture)
    page = folder / "report.html"
    _place(page, _page(title, sections).encode())
    return page


def shown(cell: Cell) -> str:
    """A cell as people read it."""
    return "–" if cell is None else f"{cell:.2f}" if isinstance(cell, float) else cell


def _page(title: str, sections: Sequence[Section]) -> str:
    parts = [_section(section) for section in sections]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en">{head}\n<h1>{escape(title)}</h1>\n{"".join(parts)}</html>\n'


def _section(section: Section) -> str:
    lines = [f'<h2 id="{escape(section.name)}">{escape(section.title)}</h2>']
    lines += [f"<p>{escape(note)}</p>" for note in section.notes]
    if section.table is not None:
        rows = [_row("th", section.table.heads), *(_row("td", row) for row in section.table.rows)]
        lines.append(f"<div><table>{''.join(rows)}</table></div>")
    if section.picture is not None:
        lines.append(f'<img alt="{escape(section.title)}" src="{_within("image/png", section.picture)}">')
    for label, sound in section.sounds.items():
        player = f'<audio controls src="{_within("audio/flac", sound)}"></audio>'
        lines.append(f"<figure><figcaption>{escape(label)}</figcaption>{player}</figure>")
    return "\n".join([*lines, ""])


def _row(kind: str, cells: Sequence[Cell]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(shown(cell))}</{kind}>' for cell in cells)}</tr>\n"


def _within(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _csv(table: Table) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.heads, *table.rows])
    return text.getvalue()


def _place(path: Path, content: bytes) -> None:
    with plain.placed(path) as temporary:
        temporary.write_bytes(content)
