"""What a job does, as `job.json` in its folder says: a folder never mixes two jobs.

Everything that a row depends on is in it, and no secret: keys are there by their fingerprints.
"""

from dataclasses import dataclass, fields
from typing import Literal

import msgspec

from ideaw.catalogue.manifest import MANIFEST
from ideaw.catalogue.settings import MarkOptions, ScanOptions
from ideaw.catalogue.storage import Storage
from ideaw.errors import FileError, IdeawError

JOB = "job.json"
"""Name of the description in the folder of a job."""

Kind = Literal["scan", "mark"]


@dataclass(frozen=True)
class Job:
    """A job.

    Attributes:
        kind: whether files are searched or marked.
        source: what was listed, as it was given.
        version: of ideaw.
        schema: of the rows.
        model: name or folder of the model.
        weights: which weights it has: the start of their SHA-256.
        keys: fingerprints.
        options: how.
        messages: the table of messages, as it was given.
    """

    kind: Kind
    source: str
    version: str
    schema: str
    model: str
    weights: str
    keys: tuple[str, ...]
    options: ScanOptions | MarkOptions
    messages: str | None = None


def read_job(folder: Storage) -> Job | None:
    """The job in a folder; None if there is none.

    Raises:
        FileError: it cannot be read, or is of another version.
    """
    if not folder.exists(JOB):
        return None
    try:
        job: Job = msgspec.json.decode(folder.read(JOB), type=Job)
    except msgspec.DecodeError as problem:
        raise FileError(f"{folder.place(JOB)} is no job of this version: {problem}") from problem
    return job


def write_job(job: Job, folder: Storage) -> None:
    """Begin a job: its manifest must be there, since a folder with this file is a complete beginning."""
    folder.write(JOB, msgspec.json.format(msgspec.json.encode(job)) + b"\n")


def check_same(known: Job, wanted: Job, folder: Storage) -> None:
    """Raise `IdeawError` if the job in a folder is not the one that is wanted."""
    differences = [
        f"{entry.name} {_written(getattr(known, entry.name))} there, {_written(getattr(wanted, entry.name))} now"
        for entry in fields(Job)
        if getattr(known, entry.name) != getattr(wanted, entry.name) and entry.name != "options"
    ]
    before, after = (msgspec.to_builtins(job.options) for job in (known, wanted))
    differences += [
        f"{name} {before.get(name)} there, {after.get(name)} now"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    if differences:
        raise IdeawError(f"{folder.url} holds another job ({'; '.join(differences)}); give another folder")


def _written(value: object) -> str:
    """A value of a job in a line: keys beside each other."""
    return " and ".join(value) if isinstance(value, tuple) else str(value)


def require_job(folder: Storage) -> Job:
    """The job in a folder; raises `FileError` if there is none."""
    job = read_job(folder) if folder.exists(MANIFEST) else None
    if job is None:
        raise FileError(f"{folder.url} is not the folder of a job: it has no {JOB} beside a {MANIFEST}")
    return job
