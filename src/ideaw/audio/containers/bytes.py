"""Copying stretches of files into others, piece by piece, so that a file of any size takes little memory."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

from ideaw.errors import FileError

COPIED_AT_ONCE_BYTES = 1 << 20
"""Bytes that are in memory while a stretch is copied."""


class UnfitContainerError(FileError):
    """A container whose parts cannot be carried over; the message lacks the name of the file."""


@dataclass(frozen=True)
class Stretch:
    """`size` bytes of `file` from `start` on."""

    file: BinaryIO
    start: int
    size: int

    @property
    def end(self) -> int:
        """Where the byte after the last lies."""
        return self.start + self.size

    def read(self) -> bytes:
        """All of it, which should not be much."""
        return read_at(self.file, self.start, self.size)


def read_at(file: BinaryIO, start: int, size: int) -> bytes:
    """`size` bytes of a file from `start` on; fewer at its end."""
    file.seek(start)
    return file.read(size)


def num_bytes(file: BinaryIO) -> int:
    """Length of a file."""
    return file.seek(0, os.SEEK_END)


def append(output: BinaryIO, parts: Iterable[Stretch | bytes]) -> None:
    """Write parts one after the other.

    Raises:
        UnfitContainerError: a stretch ends before it should.
    """
    for part in parts:
        if isinstance(part, bytes):
            output.write(part)
            continue
        part.file.seek(part.start)
        left = part.size
        while left:
            piece = part.file.read(min(left, COPIED_AT_ONCE_BYTES))
            if not piece:
                raise UnfitContainerError("it ends before its header says")
            output.write(piece)
            left -= len(piece)


def copy_except(output: BinaryIO, source: BinaryIO, replaced: Iterable[tuple[int, Stretch | bytes]]) -> None:
    """Write all of `source`, with other bytes, as many, from each of some places on."""
    at = 0
    for start, part in sorted(replaced, key=lambda pair: pair[0]):
        append(output, [Stretch(source, at, start - at), part])
        at = start + (len(part) if isinstance(part, bytes) else part.size)
    append(output, [Stretch(source, at, num_bytes(source) - at)])
