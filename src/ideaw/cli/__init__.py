"""The command line: one thin file per command, and the library does the work.

What needs PyTorch, ONNX Runtime or matplotlib is imported when a command runs, so that `--help` stays quick.
"""

import io
import logging
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ideaw.cli import (
    attack,
    bench,
    capacity,
    compare,
    console,
    demo,
    detect,
    embed,
    evidence,
    export,
    issue,
    keygen,
    mark,
    models,
    proxy,
    registry,
    resolve,
    scan,
    serve,
    testcert,
    train,
    verify,
)
from ideaw.errors import IdeawError

app = typer.Typer(
    help="Put an inaudible, robust message into audio, and find it again.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    *(
        embed,
        detect,
        issue,
        verify,
        capacity,
        compare,
        attack,
        serve,
        resolve,
        proxy,
        scan,
        mark,
        models,
        keygen,
        testcert,
    ),
    *(evidence, demo, train, export),
)
for command in COMMANDS:
    app.command()(getattr(command, command.__name__.rpartition(".")[2]))
app.add_typer(bench.app, name="bench")
app.add_typer(registry.app, name="registry")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        console.say(f"ideaw {version('ideaw')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command line (None: this process's own); what the user can mend is one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    logging.getLogger("ideaw").addHandler(console.warning_lines)
    try:
        app(args=arguments, prog_name="ideaw")
    except IdeawError as problem:
        console.complain(str(problem))
    except OSError as problem:
        console.complain(f"{problem.filename}: {(problem.strerror or str(problem)).lower()}")
    sys.exit(2)
