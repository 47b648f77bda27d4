"""A file of a catalogue marked: into a new file that appears whole, is read back, and is never marked again."""

import time
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pyarrow as pa

from ideaw.catalogue.manifest import Entry, is_audio
from ideaw.catalogue.rows import Row
from ideaw.catalogue.searching import FileSearcher
from ideaw.catalogue.settings import MarkOptions, ScanOptions
from ideaw.catalogue.storage import Storage, local_copy
from ideaw.errors import AudioError, FileError, IdeawError, MessageError
from ideaw.keys import Key
from ideaw.marker import Marker
from ideaw.payload.message import Content, Message, Notation
from ideaw.results import Detection, message_kind

MARKED_FOLDER = "marked"
"""Where marked files lie below the folder of the job."""

SOURCE_PROBES = 3
"""Excerpts of a source, heard before it is marked: a mark of the same key would be replaced in part."""


@dataclass
class FileMarker:
    """Marks files under a key.

    Args:
        marker: with the key.
        key: the same, to look for marks that are there.
        options: the level, and what is too long.
        folder: of the job.
    """

    marker: Marker
    key: Key
    options: MarkOptions
    folder: Storage
    _source: FileSearcher = field(init=False)
    _target: FileSearcher = field(init=False)

    def __post_init__(self) -> None:
        options = ScanOptions(speeds="none", until_sure=True, longest=self.options.longest)
        self._target = FileSearcher(self.marker.network, [self.key], options)
        self._source = FileSearcher(
            self.marker.network, [self.key], ScanOptions("none", True, SOURCE_PROBES, self.options.longest)
        )

    def mark(self, entry: Entry, path: Path) -> Row:
        """Mark the local copy `path` of a file; the columns that this fills.

        Raises:
            IdeawError: it cannot be marked or read back, holds a mark of this key, or something else lies at its place.
        """
        began = time.process_time()
        message = written_message(entry.message or "", self.options.message_kind).content
        name = f"{MARKED_FOLDER}/{target_name(entry)}"
        with self.folder.work_file(PurePosixPath(name).suffix) as complete:
            if self.folder.exists(name):
                answer, seconds = self._read_back(name)
                if answer.message != message:
                    raise FileError(f"{self.folder.place(name)} is there already, and was not marked by this job")
            else:
                found, cost = self._source.search(path)
                if found.status != "none":
                    raise AudioError(f"it holds a mark of this key already, and is not marked again: {found}")
                self._embed(path, complete, message)
                seconds = cost.seconds
                self.folder.put(complete, name)
        return {
            "status": "marked",
            "message": entry.message,
            "message_kind": message_kind(message),
            "key": self.key.fingerprint,
            "target": self.folder.place(name),
            "seconds": seconds,
            "cpu_seconds": time.process_time() - began,
        }

    def _embed(self, source: Path, target: Path, message: Content) -> None:
        """Mark a file, and read it back; older marks were looked for already, in less of it."""
        snr, audibility, longest = self.options.snr, self.options.audibility, self.options.longest
        try:
            self.marker.embed_file(source, target, message, snr=snr, audibility=audibility, longest=longest, over=True)
        except IdeawError as problem:  # the name of a file that is not there yet says nothing to anybody
            raise AudioError(str(problem).removeprefix(f"{target}: ")) from problem

    def _read_back(self, name: str) -> tuple[Detection, float | None]:
        with local_copy(self.folder.place(name), None) as path:
            answer, cost = self._target.search(path)
            return answer, cost.seconds


def written_message(text: str, kind: Notation) -> Message:
    """A message as a table has it: text, or the digits of bits or bytes.

    Raises:
        MessageError: it is empty, or its digits are none.
    """
    if not text:
        raise MessageError("there is no message")
    return Message.written(text, kind)


def target_name(entry: Entry) -> str:
    """The name of a marked file below MARKED_FOLDER: the id, with the extension of the source where it has none.

    Raises:
        FileError: the id leads elsewhere.
    """
    name = entry.id if is_audio(entry.id) else entry.id + PurePosixPath(entry.path.partition("?")[0]).suffix
    if name.startswith("/") or ".." in PurePosixPath(name).parts or "\\" in name:
        raise FileError(f"the id {entry.id} is no name of a file; give relative paths without ..")
    return name


def check_markable(table: pa.Table, kind: Notation) -> None:
    """Raise `IdeawError` unless every file of a manifest has a message in these digits, and a place of its own."""
    names = set()
    for number, row in enumerate(table.to_pylist()):
        try:
            written_message(row["message"], kind)
        except MessageError as problem:
            raise MessageError(f"{row['path']}: {problem}") from None
        entry = Entry(number, **row)
        if (name := target_name(entry)) in names:
            raise FileError(f"two files would be marked as {name}; give them other ids")
        names.add(name)
