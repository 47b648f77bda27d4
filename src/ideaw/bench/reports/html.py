"""One HTML page for the results of a benchmark: tables, figures and sound in a single file that needs nothing else.

It works offline, on a phone, in light and dark mode; nothing here knows what was measured.
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

import numpy as np
import soundfile
from numpy.typing import NDArray

from ideaw.bench.cache import write_text

REPORT_FILE = "report.html"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows under their heads; all columns but the first are set flush right."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """An SVG or PNG file; SVG that says `currentColor` follows the page into the dark, and two stand side by side."""

    content: bytes
    caption: str


@dataclass(frozen=True, eq=False)
class Track:
    """Sound, `(n,)` at `rate` Hz, with a player of its own."""

    label: str
    samples: NDArray[np.floating]
    rate: int


@dataclass(frozen=True)
class Players:
    """Sounds that belong together."""

    title: str
    tracks: Sequence[Track]


Part = Text | Table | Picture | Players


@dataclass(frozen=True)
class Section:
    """A part of the page under its own heading."""

    title: str
    parts: Sequence[Part]


def write(folder: Path, title: str, sections: Sequence[Section]) -> None:
    """Write `report.html` into a folder; it appears whole or not at all."""
    write_text(folder / REPORT_FILE, page(title, sections))


def page(title: str, sections: Sequence[Section]) -> str:
    """The text of a page."""
    frame = Template(resources.files("ideaw.bench.reports").joinpath("page.html").read_text("utf-8"))
    return frame.substitute(title=escape(title), body="\n".join(map(_section, sections)))


def _section(section: Section) -> str:
    parts = "\n".join(map(_part, section.parts))
    return f"<section>\n<h2>{escape(section.title)}</h2>\n{parts}\n</section>"


def _part(part: Part) -> str:
    if isinstance(part, Text):
        return f"<p>{escape(part.text)}</p>"
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Picture):
        kind = "" if _png(part) else ' class="drawn"'
        return f"<figure{kind}>{_picture(part)}<figcaption>{escape(part.caption)}</figcaption></figure>"
    players = "\n".join(
        f'<figure class="player"><figcaption>{escape(track.label)}</figcaption>'
        f'<audio controls preload="none" src="data:audio/flac;base64,{_flac(track)}"></audio></figure>'
        for track in part.tracks
    )
    return f'<h3>{escape(part.title)}</h3>\n<div class="players">\n{players}\n</div>'


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(_unbreakable(head))}</th>' for head in table.heads)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in table.rows
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    return f'<div class="wide"><table>{caption}<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>'


def _unbreakable(head: str) -> str:
    """A head that may be broken between words, but not within "1e-4" or before "%"."""
    return head.replace("-", "\N{NON-BREAKING HYPHEN}").replace(" %", "\N{NO-BREAK SPACE}%")


def _picture(picture: Picture) -> str:
    if _png(picture):
        data = base64.b64encode(picture.content).decode()
        return f'<img class="paper" alt="{escape(picture.caption)}" src="data:image/png;base64,{data}">'
    drawn = picture.content.decode("utf-8")
    return drawn[drawn.index("<svg") :]


def _png(picture: Picture) -> bool:
    return picture.content.startswith(b"\x89PNG")


def _flac(track: Track) -> str:
    """16 bits, as every browser plays it; what is beyond full scale is clipped."""
    file = io.BytesIO()
    soundfile.write(file, np.clip(track.samples, -1, 1), track.rate, format="FLAC", subtype="PCM_16")
    return base64.b64encode(file.getvalue()).decode()
