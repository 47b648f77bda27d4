"""The results of a benchmark in a folder, one JSON line each as they are measured, so that a stopped run goes on.

A folder belongs to one configuration, where one is given. A line that a crash cut off is dropped and measured again.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ideaw.audio import atomic
from ideaw.errors import FileError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Measured = TypeVar("Measured", bound=DataclassInstance)

CONFIGURATION_FILE, RECORDS_FILE, METRICS_FILE = "run.json", "trials.jsonl", "metrics.json"
"""Files of the folder; the metrics are written by the benchmark once it is complete."""

Record = dict[str, Any]


class ResultCache:
    """Records that were measured, in `folder`, or only in memory without one.

    Args:
        folder: Made if it does not exist.
        configuration: What all records have in common; the folder of another configuration is refused, and so is one
            with files that are not of a run. None: the folder may hold anything else, and each record carries its
            inputs (`measure`).

    Raises:
        FileError: The folder cannot be used, or belongs to another configuration.
    """

    def __init__(self, folder: Path | None, configuration: Mapping[str, Any] | None = None) -> None:
        self.records: list[Record] = []
        self._file: Path | None = None
        if folder is not None:
            if folder.exists() and not folder.is_dir():
                raise FileError(f"{folder} is a file; give a folder for the results")
            with atomic.file_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
            if configuration is not None:
                _claim(folder, json.loads(json.dumps(configuration)))
            self._file = folder / RECORDS_FILE
            self.records = _read(self._file)

    def add(self, record: Record) -> None:
        """Append one record."""
        if self._file is not None:
            with atomic.file_errors(self._file), self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        self.records.append(record)

    def measure(
        self,
        name: str,
        inputs: dict[str, Any],
        measure: "Callable[[], Measured]",
        restore: "Callable[[dict[str, Any]], Measured]",
    ) -> "Measured":
        """What `measure` returns, or what it returned before under this name for the same inputs.

        `restore` makes the result of its JSON form; where it cannot, since another version wrote it, it is measured.
        """
        for record in reversed(self.records):
            if record["name"] == name and record["inputs"] == inputs:
                with contextlib.suppress(TypeError, KeyError):
                    return restore(record["result"])
        result = measure()
        self.add({"name": name, "inputs": inputs, "result": asdict(result)})
        return result


def write_text(path: Path, content: str) -> None:
    """Write a file that appears whole or not at all."""
    with atomic.replace_on_success(path) as temporary:
        temporary.write_text(content, "utf-8")


def _claim(folder: Path, configuration: Mapping[str, Any]) -> None:
    """Make the folder one of this configuration, or see that it is."""
    with atomic.file_errors(folder):
        names = sorted(path.name for path in folder.iterdir())
    file = folder / CONFIGURATION_FILE
    if CONFIGURATION_FILE not in names:
        if names:
            raise FileError(f"{folder} holds other files and no run; choose another folder")
        write_text(file, json.dumps(configuration, indent=2) + "\n")
        return
    before = {}
    with contextlib.suppress(OSError, ValueError):
        before = json.loads(file.read_text("utf-8"))
    differing = [name for name in configuration if before.get(name) != configuration[name]]
    if differing:
        raise FileError(f"{folder} holds another run, with other {differing[0]}; choose another folder")


def _read(file: Path) -> list[Record]:
    """The records in a file, which is truncated where it is damaged."""
    if not file.exists():
        return []
    records: list[Record] = []
    valid_bytes = 0
    with atomic.file_errors(file), file.open("rb+") as lines:
        for line in lines:
            try:
                if not line.endswith(b"\n"):
                    break
                records.append(json.loads(line))
            except ValueError:
                break
            valid_bytes += len(line)
        lines.truncate(valid_bytes)
    return records
