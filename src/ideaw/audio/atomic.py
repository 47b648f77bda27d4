"""Files and folders that are replaced atomically when they are written.

Content goes to a file without a name on the disk of its place, is synced, and then gets its name: however the process
ends, in whatever thread it writes, nothing is left. Where the system or the disk has no files without a name (other
systems than Linux, most network drives), it goes to a hidden temporary file that an error, Ctrl-C or a signal such as
SIGTERM removes; only there may SIGKILL, or a signal while another thread than the main one writes, leave a stray
`.ideaw-…` that nothing reads again.
"""

import contextlib
import errno
import os
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ideaw.errors import FileError, error_reason

_ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)  # not every system has each; SIGINT is KeyboardInterrupt already

_OPEN_FILES = "/proc/self/fd"
"""Where Linux lists the open files of a process, by their descriptors."""


def check_writable(path: Path) -> None:
    """Raise `FileError` if no file can be created or replaced at `path`."""
    with file_errors(path, ValueError):
        target = _resolve(path)
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
def replace_on_success(path: Path, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary file that becomes `path` when the block succeeds, and is removed when it does not.

    Args:
        path: the file to write.
        overwrite: whether it may be there already.

    Raises:
        FileError: nothing can be written at `path`.
        SystemExit: a signal that ends the process arrived meanwhile, and nobody else handles it.
    """
    check_writable(path)
    if not overwrite:
        check_absent(path)
    with _temporary_file(path) as temporary:
        yield temporary.path
        with file_errors(path):
            temporary.publish(overwrite)


@contextlib.contextmanager
def scratch_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file on the disk of `path` for something that is needed on the way; it is always removed.

    Raises:
        FileError, SystemExit: as for `replace_on_success`.
    """
    with _temporary_file(path) as temporary:
        yield temporary.path


def check_absent(path: Path) -> None:
    """Raise `FileError` if there is something at `path` already."""
    if os.path.lexists(path):
        raise FileError(f"{path} exists already; choose another name, or allow it to be overwritten (--overwrite)")


@contextlib.contextmanager
def replace_folder_on_success(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that takes the place of the folder `path` when the block succeeds, and else is removed.

    Folders above it are made. What the folder held before goes with it: the caller makes sure that it may.

    Raises:
        FileError: no folder can be made at `path`.
        SystemExit: as for `replace_on_success`.
    """
    with file_errors(path, ValueError):
        target = _resolve(path)
        target.parent.mkdir(parents=True, exist_ok=True)
    temporary, former = (target.with_name(f".ideaw-{secrets.token_hex(8)}") for _ in range(2))
    with _exit_on_signals():
        try:
            with file_errors(path):
                temporary.mkdir()
            yield temporary
            with file_errors(path):
                if target.exists():
                    target.rename(former)
                temporary.rename(target)
        finally:
            if former.exists() and not target.exists():
                former.rename(target)
            for folder in (temporary, former):
                shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class _TemporaryFile:
    """What is written: `path` leads to it, which has no name on the disk if `descriptor` is its only one."""

    target: Path
    path: Path
    hidden: Path
    descriptor: int | None

    def publish(self, overwrite: bool) -> None:
        """Give the content to the disk, and the file its place."""
        if self.descriptor is None:
            with self.path.open("rb+") as file:
                os.fsync(file.fileno())
            self._rename(overwrite)
            return
        os.fsync(self.descriptor)
        if self.target.exists() and overwrite:
            os.fchmod(self.descriptor, stat.S_IMODE(self.target.stat().st_mode))
            self._give_name(self.hidden)  # which replaces nothing, so it takes two steps
            self._rename(overwrite)
        else:
            self._give_name(self.target)

    def _give_name(self, name: Path) -> None:
        """Make the file without a name visible; Python follows the link to it only where a folder is given too."""
        os.link(self.path, name, src_dir_fd=self.descriptor)

    def _rename(self, overwrite: bool) -> None:
        if not overwrite:
            check_absent(self.target)
        os.replace(self.hidden, self.target)


@contextlib.contextmanager
def _temporary_file(path: Path) -> Iterator[_TemporaryFile]:
    """An empty file on the disk of `path` that is gone in the end, unless it was published."""
    target = _resolve(path)
    hidden = target.with_name(f".ideaw-{secrets.token_hex(8)}{target.suffix}")
    descriptor = _open_unnamed(target.parent)
    with _exit_on_signals():
        try:
            if descriptor is not None:
                yield _TemporaryFile(target, Path(f"{_OPEN_FILES}/{descriptor}"), hidden, descriptor)
                return
            with file_errors(path):
                os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
                if target.exists():
                    hidden.chmod(stat.S_IMODE(target.stat().st_mode))
            yield _TemporaryFile(target, hidden, hidden, None)
        finally:
            if descriptor is not None:
                os.close(descriptor)
            with contextlib.suppress(OSError):
                hidden.unlink()


def _open_unnamed(folder: Path) -> int | None:
    """A descriptor of a new file without a name in `folder`; None where there are none."""
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError:
        return None
    if os.path.exists(f"{_OPEN_FILES}/{descriptor}"):
        return descriptor
    os.close(descriptor)
    return None


def prepend(path: Path, head: bytes) -> None:
    """Put `head` before what a file holds, which moves up piece by piece, the last one first."""
    piece_bytes = 1 << 20
    with path.open("rb+") as file:
        for start in reversed(range(0, file.seek(0, os.SEEK_END), piece_bytes)):
            file.seek(start)
            piece = file.read(piece_bytes)
            file.seek(start + len(head))
            file.write(piece)
        file.seek(0)
        file.write(head)


def is_same_file(first: Path, second: Path) -> bool:
    """Whether both names lead to one file, also by another spelling or a link."""
    with contextlib.suppress(OSError, ValueError):
        return os.path.samefile(first, second)
    with contextlib.suppress(OSError, ValueError):
        return _resolve(first) == _resolve(second)
    return False


@contextlib.contextmanager
def file_errors(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Turn an `OSError`, or an error of one of `kinds`, while `path` is written into a `FileError` of one line."""
    expected: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except expected as problem:
        raise FileError(f"{path} cannot be written: {error_reason(problem)}") from problem


@contextlib.contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Let signals that would end the process at once raise `SystemExit` instead, so that `finally` blocks run.

    Only in the main thread, where Python runs handlers, and only for signals that still have their default action.
    """
    taken: list[signal.Signals] = []

    def leave(number: int, frame: FrameType | None) -> None:
        for ending in taken:  # a second signal must not interrupt the clean-up
            signal.signal(ending, signal.SIG_IGN)
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():
        taken += [ending for ending in _ENDING_SIGNALS if signal.getsignal(ending) == signal.SIG_DFL]
    try:
        for ending in taken:
            signal.signal(ending, leave)
        yield
    finally:
        for ending in taken:
            signal.signal(ending, signal.SIG_DFL)


def _resolve(path: Path) -> Path:
    """Where a name leads; a link is written through, not replaced."""
    return Path(os.path.realpath(path))
