"""Plain files, whatever is in them: read only if they are such, written whole or not at all.

What is written goes to a temporary file beside its place, reaches the disk, and is then renamed; so a
process that is killed leaves at most a stray `.ideaw-…`, which nothing ever reads or writes again.
"""

import contextlib
import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from ideaw.errors import FileError


@contextlib.contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """The file at `path`, or the one line that says why it cannot be one with something in it."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise FileError(f"{path} is a directory; give an audio file")
        if not stat.S_ISREG(status.st_mode):  # a pipe might never end, nor even begin
            raise FileError(f"{path} is a pipe or a device; give an audio file")
        if not status.st_size:
            raise FileError(f"{path} is empty (0 bytes)")
        file = path.open("rb")
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except (OSError, ValueError) as problem:
        raise FileError(f"{path} cannot be read: {reason(problem)}") from problem
    with file:
        yield file


def check_place(path: Path) -> None:
    """Whether a file can appear at `path`; raises `FileError` if not."""
    with told(path, ValueError):
        target = _followed(path)
        try:
            mode = target.stat().st_mode
        except FileNotFoundError:
            mode = stat.S_IFREG
        else:
            if not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, "")
        folder = target.parent.is_dir()
    if stat.S_ISDIR(mode):
        raise FileError(f"{path} is a directory; give a file name for the output")
    if not stat.S_ISREG(mode):
        raise FileError(f"{path} cannot be written: it is not a plain file")
    if not folder:
        raise FileError(f"the folder {path.parent} does not exist; make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise FileError(f"{path} cannot be written: permission denied; choose another place")


@contextlib.contextmanager
def placed(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of `path` if all goes well, and vanishes if anything does not."""
    check_place(path)
    target = _followed(path)
    temporary = target.with_name(f".ideaw-{secrets.token_hex(8)}{target.suffix}")
    try:
        with told(path):
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        yield temporary
        with told(path):
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def prepend(path: Path, head: bytes) -> None:
    """Put `head` before what a file holds, which moves up piece by piece, the last one first."""
    piece_size = 1 << 20
    with path.open("rb+") as file:
        for start in reversed(range(0, file.seek(0, os.SEEK_END), piece_size)):
            file.seek(start)
            piece = file.read(piece_size)
            file.seek(start + len(head))
            file.write(piece)
        file.seek(0)
        file.write(head)


def same(one: Path, other: Path) -> bool:
    """Whether both names lead to one file, by another spelling or a link too."""
    with contextlib.suppress(OSError, ValueError):
        return os.path.samefile(one, other)
    with contextlib.suppress(OSError, ValueError):
        return _followed(one) == _followed(other)
    return False


@contextlib.contextmanager
def told(path: Path, *problems: type[Exception]) -> Iterator[None]:
    """What goes wrong while `path` is written, as one line; an `OSError` or one of `problems`."""
    expected: tuple[type[Exception], ...] = (OSError, *problems)
    try:
        yield
    except expected as problem:
        raise FileError(f"{path} cannot be written: {reason(problem)}") from problem


def reason(problem: Exception) -> str:
    """What went wrong, in the words of the system where it has some."""
    if isinstance(problem, OSError) and problem.errno is not None:
        return os.strerror(problem.errno).lower()
    return " ".join(str(problem).split()) or os.strerror(errno.EIO).lower()


def _followed(path: Path) -> Path:
    """Where a name leads; a link is written through, not replaced."""
    return Path(os.path.realpath(path))
