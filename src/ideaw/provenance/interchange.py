"""A registry as JSON lines, for archives and for the way from one database to another.

A head, a line for each record, lines of the ids that were allotted without one, so that nobody gives them again, and an
end, so that nothing is missed that was cut off. Bytes are base64, times RFC 3339, ids hexadecimal digits.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from ideaw.audio.read import open_regular
from ideaw.errors import FileError, RegistryError, error_reason
from ideaw.provenance.records import Record, read_id, written_id

INTERCHANGE_FORMAT = 1
"""Version of the lines, which their head names."""

IDS_PER_LINE = 256


def write_lines(path: Path, records: Iterable[Record], unrecorded: Iterator[int]) -> int:
    """Write records, and ids that have none; returns how many records there were."""
    count = 0
    with path.open("wb") as file:
        file.write(_line({"ideaw_registry": INTERCHANGE_FORMAT}))
        for record in records:
            fields = {name.name: getattr(record, name.name) for name in dataclasses.fields(record)}
            file.write(_line(fields | {"id": written_id(record.id)}))
            count += 1
        while ids := list(islice(unrecorded, IDS_PER_LINE)):
            file.write(_line({"ids": list(map(written_id, ids))}))
        file.write(_line({"end": count}))
    return count


def read_lines(path: Path) -> Iterator[Record | int]:
    """The records in a file, and the ids that have none, one after the other.

    Raises:
        FileError: the file cannot be read.
        RegistryError: it is no export of a registry, or a line of it is damaged.
    """
    with open_regular(path) as file:
        number, records, end = 0, 0, None
        try:
            for number, line in enumerate(file, 1):
                if number == 1:
                    _check_head(path, line)
                    continue
                fields = msgspec.json.decode(line, type=dict[str, Any])
                end = fields.get("end")
                if end is None:
                    records += "ids" not in fields
                    yield from _entries(fields)
        except OSError as problem:
            raise FileError(f"{path} cannot be read: {error_reason(problem)}") from problem
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            raise RegistryError(f"{path} is damaged in line {number}: {problem}") from None
        if end != records:
            raise RegistryError(f"{path} is incomplete: it does not end with the number of its records, {records}")


def _check_head(path: Path, line: bytes) -> None:
    """Raise `RegistryError` unless the first line is that of an export that can be read."""
    try:
        written = msgspec.json.decode(line, type=dict[str, Any]).get("ideaw_registry")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        written = None
    if written is None:
        raise RegistryError(f"{path} is not what `ideaw registry export` writes")
    if written != INTERCHANGE_FORMAT:
        raise RegistryError(f"{path} has format {written}, and this version of ideaw reads {INTERCHANGE_FORMAT}")


def _entries(fields: dict[str, Any]) -> Iterator[Record | int]:
    if "ids" in fields:
        yield from map(read_id, msgspec.convert(fields["ids"], list[str]))
    else:
        number = read_id(msgspec.convert(fields.get("id"), str))
        yield msgspec.convert(fields | {"id": number}, Record)


def _line(content: dict[str, Any]) -> bytes:
    return msgspec.json.encode(content) + b"\n"
