"""`ideaw registry`: look into a registry, back it up, and carry it from one database to another."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ideaw.cli import console, options
from ideaw.cli.extras import extra

if TYPE_CHECKING:
    from ideaw.provenance.records import Record
    from ideaw.provenance.registry import Registry

app = typer.Typer(help="Look into a registry of marked files, back it up, export and import it.", no_args_is_help=True)

Url = Annotated[
    str,
    typer.Option("--registry", metavar="URL", help="sqlite:///FILE, or postgresql://USER@HOST/DATABASE."),
]
DEFAULT_URL = "sqlite:///ideaw.db"


@app.command()
def show(
    id: Annotated[str, typer.Argument(metavar="ID", help="8 hexadecimal digits: the message of the mark.")],
    url: Url = DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Print the record of an id; exit code 1 if it has none."""
    with _open(url) as registry:
        from ideaw.provenance.records import read_id

        record = registry.get(read_id(id))
        if record is None:
            console.complain(f"{id} has no record in {registry.name}")
            raise typer.Exit(1)
        entries = _entries(record)
        if as_json:
            console.say_json(entries)
        else:
            for name, value in entries.items():
                console.say(f"{name.replace('_', ' ')}: {'–' if value is None else value}")


@app.command()
def export(
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file of JSON lines to write.")],
    url: Url = DEFAULT_URL,
) -> None:
    """Write all records and ids as JSON lines."""
    with _open(url) as registry:
        count = registry.export(target)
        console.say(f"{target}: {count:,} records of {registry.name}")


@app.command("import")
def load(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` wrote.")], url: Url = DEFAULT_URL
) -> None:
    """Take in what `export` wrote, all of it or nothing; the registry is made where there is none."""
    with _open(url, create=True) as registry:
        count = registry.load(source)
        console.say(f"{registry.name}: {count:,} new records from {source}")


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")], url: Url = DEFAULT_URL
) -> None:
    """Copy the file of SQLite as it is at one moment, while others may write."""
    with _open(url) as registry:
        registry.back_up(target)
        console.say(f"{target}: a copy of {registry.name}")


@contextmanager
def _open(url: str, create: bool = False) -> Iterator["Registry"]:
    with extra("provenance", "ideaw registry"):
        from ideaw.provenance.registry import Registry
    with Registry(url, create=create) as registry:
        yield registry


def _entries(record: "Record") -> dict[str, Any]:
    """A record for people: bytes by their number."""
    from ideaw.provenance.records import written_id

    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    sizes = {"fingerprint_bytes": len(record.fingerprint), "manifest_bytes": len(record.manifest or b"")}
    plain = {name: value for name, value in fields.items() if name not in ("fingerprint", "manifest", "data")}
    return plain | {"id": written_id(record.id), "created": record.created.isoformat()} | sizes | {"data": record.data}
