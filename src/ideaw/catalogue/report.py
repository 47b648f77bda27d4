"""A job summed up, from its parts: as lines, as JSON, and as a page of its own.

Names, messages and reasons come from files that others made, so the page escapes all of them.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from ideaw.catalogue.job import require_job
from ideaw.catalogue.manifest import Manifest
from ideaw.catalogue.shards import read_parts
from ideaw.catalogue.storage import Storage

MOST_SHOWN = 50
"""Messages, and reasons of errors, that are listed, the most frequent first; the parts have all."""

OF_ONE_FILE = re.compile(
    r'(?<=")[^"]+(?=")|\d[\d.,]*(?= (?:s|bytes|samples|kbit/s|Hz|dB)\b)|(?<=\bp = )[\d.]+(?:e[-+]?\d+)?'
)
"""What reasons say of one file alone: messages in quotation marks, measures with their unit, p-values."""

COLUMNS = ["path", "status", "error", "message", "key", "seconds", "cpu_seconds"]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: #1c2326; background: #fff }
table { border-collapse: collapse; margin: .5rem 0 2rem; width: 100% }
th, td { border-bottom: 1px solid #ccd5d8; padding: .3rem .6rem; text-align: left; overflow-wrap: anywhere }
td:last-child, th:last-child { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
@media (prefers-color-scheme: dark) { body { color: #e4eaec; background: #12181a } th, td { border-color: #3a474c } }
"""


@dataclass
class Summary:
    """What a job has come to.

    Attributes:
        job: its folder.
        kind: "scan" or "mark".
        files: in the manifest.
        done: of these, in the parts.
        statuses: status → files.
        messages: message → files it was found in, or that were marked with it; the most frequent MOST_SHOWN.
        distinct_messages: how many there are.
        keys: fingerprint → files.
        errors: reason → files, without what each says of one file alone; the most frequent MOST_SHOWN.
        hours, heard_hours: of audio that was done, and that was listened to of it.
        cpu_hours: hours of one core that this took.
    """

    job: str
    kind: str
    files: int
    done: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    messages: dict[str, int] = field(default_factory=dict)
    distinct_messages: int = 0
    keys: Counter[str] = field(default_factory=Counter)
    errors: dict[str, int] = field(default_factory=dict)
    hours: float = 0.0
    heard_hours: float = 0.0
    cpu_hours: float = 0.0

    @property
    def real_time_ratio(self) -> float | None:
        """Hours of audio for an hour of one core."""
        return self.hours / self.cpu_hours if self.cpu_hours else None

    def as_json(self) -> dict[str, object]:
        """For a machine."""
        content = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return content | {"hours_per_core_hour": self.real_time_ratio}

    def tables(self) -> Iterable[tuple[str, list[tuple[str, str]]]]:
        """Title and rows of each table."""
        ratio = "–" if self.real_time_ratio is None else f"{self.real_time_ratio:,.0f} × real time"
        yield (
            f"{self.kind} {self.job}",
            [
                ("files done", f"{self.done:,} of {self.files:,}"),
                ("hours of audio", f"{self.hours:,.2f}"),
                ("hours listened to", f"{self.heard_hours:,.2f}"),
                ("core hours", f"{self.cpu_hours:,.3f}"),
                ("speed of a core", ratio),
            ],
        )
        yield "status", [(status, f"{count:,}") for status, count in sorted(self.statuses.items())]
        shown = f", {len(self.messages)} of {self.distinct_messages:,} shown"
        yield (
            f"messages{shown if len(self.messages) < self.distinct_messages else ''}",
            [(message, f"{count:,}") for message, count in self.messages.items()],
        )
        yield "keys", [(key, f"{count:,}") for key, count in self.keys.most_common()]
        yield "errors", [(reason, f"{count:,}") for reason, count in self.errors.items()]

    def lines(self) -> list[str]:
        """For a reader: the tables as text."""
        lines = []
        for title, rows in self.tables():
            lines += [title, *(f"  {count:>12}  {name}" for name, count in rows)] if rows else []
        return lines

    def page(self) -> str:
        """For a reader: a page that needs nothing else."""
        parts = []
        for level, (title, rows) in enumerate(self.tables()):
            heading = f"<h2>{html.escape(title)}</h2>" if level else ""  # the first is that of the page
            cells = "".join(f"<tr><td>{html.escape(a)}</td><td>{html.escape(b)}</td></tr>" for a, b in rows)
            parts.append(f"{heading}<table>{cells}</table>" if rows else "")
        head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        title = html.escape(f"{self.kind} {self.job}")
        body = f"<main><h1>{title}</h1>{''.join(parts)}</main>"
        return f'<!doctype html><html lang="en"><head>{head}<title>{title}</title></head><body>{body}</body></html>\n'


def sum_up(url: str) -> Summary:
    """Sum up the job in a folder, finished or not.

    Raises:
        FileError: there is no job, or a part cannot be read.
    """
    folder = Storage(url)
    job = require_job(folder)
    summary = Summary(folder.url, job.kind, Manifest(folder).num_files)
    messages: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    columns = COLUMNS + ["heard_seconds"] * (job.kind == "scan")
    for part in read_parts(folder, columns):
        for row in part.to_pylist():
            summary.done += 1
            summary.statuses[row["status"]] += 1
            summary.hours += (row["seconds"] or 0.0) / 3600
            summary.heard_hours += (row.get("heard_seconds", row["seconds"]) or 0.0) / 3600
            summary.cpu_hours += (row["cpu_seconds"] or 0.0) / 3600
            if row["message"] is not None:
                messages[row["message"]] += 1
            if row["key"] is not None:
                summary.keys[row["key"]] += 1
            if row["error"] is not None:
                errors[in_general(row["error"], row["path"])] += 1
    summary.messages, summary.errors = dict(messages.most_common(MOST_SHOWN)), dict(errors.most_common(MOST_SHOWN))
    summary.distinct_messages = len(messages)
    return summary


def write_report(url: str) -> Summary:
    """Sum up the job in a folder, and leave `report.txt`, `report.json` and `report.html` there."""
    summary, folder = sum_up(url), Storage(url)
    folder.write("report.txt", "\n".join([*summary.lines(), ""]).encode())
    folder.write("report.json", json.dumps(summary.as_json(), indent=2).encode() + b"\n")
    folder.write("report.html", summary.page().encode())
    return summary


def in_general(reason: str, path: str) -> str:
    """A reason as it is for other files too."""
    return OF_ONE_FILE.sub("…", reason.replace(path, "the file"))
