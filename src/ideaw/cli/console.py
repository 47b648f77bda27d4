"""What the commands print: results on stdout, progress and complaints on stderr.

Names and messages come from files that others made, so what could steer a terminal is printed escaped.
"""

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from ideaw.audio.blocks import Progress

BROKEN_PIPE_EXIT_CODE = 141
"""Exit code when nobody reads any more, as shells have it: 128 + SIGPIPE."""

PIPE_COLUMNS = 240
"""Columns of a table that goes into a file or a pipe."""


def say(text: str) -> None:
    """One line of result."""
    _print(_printable(text))


def say_json(content: Any) -> None:
    """A result for a machine."""
    _print(json.dumps(content, indent=2, allow_nan=False))


def complain(text: str) -> None:
    """One line on stderr about what is wrong."""
    print(f"ideaw: {_printable(text)}", file=sys.stderr, flush=True)


def note(text: str) -> None:
    """One line of result on stderr, where stdout is for audio."""
    print(_printable(text), file=sys.stderr, flush=True)


def note_json(content: Any) -> None:
    """A result for a machine on stderr, where stdout is for audio."""
    print(json.dumps(content, indent=2, allow_nan=False), file=sys.stderr, flush=True)


class WarningLines(logging.Handler):
    """Warnings of the library, such as of a key file that others may read, as one line each on stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())


warning_lines = WarningLines()
"""For the library's logger, which takes it once, however often commands are run."""


def say_table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """A table; the columns named in `numbers` are set flush right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if head in numbers else "left")
    for row in rows:
        table.add_row(*(Text(_printable(cell)) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS)
    with console.capture() as drawn:
        console.print(table)
    _print("\n".join(line.rstrip() for line in drawn.get().splitlines() if line.strip()))


@contextmanager
def progress(what: str) -> Iterator[Progress | None]:
    """A bar on a terminal that is gone once the work is done; None where there is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars
    from rich.console import Console
    from rich.markup import escape

    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TaskProgressColumn())
    with bars.Progress(*columns, bars.TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(_printable(what)), total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains as it ends
        raise typer.Exit(BROKEN_PIPE_EXIT_CODE) from None


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
