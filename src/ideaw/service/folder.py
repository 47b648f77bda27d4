"""A private folder for uploads that is gone when the server is, however it ends.

While the server lives it holds a lock on the folder. A tiny process (`guard.py`), in a session of its own so that what
is typed at a terminal does not reach it, waits for the end of a pipe that only the server holds, and then deletes the
folder. If both are killed, the next server finds a folder that nobody locks and deletes it.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ideaw.service import guard

if sys.platform != "win32":
    import fcntl

FOLDER_PREFIX = "ideaw-serve-"


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder in the temporary directory that only this user can enter; deleted in the end, or after a kill."""
    sweep(Path(tempfile.gettempdir()))
    path, lock = _locked_folder()
    command = [sys.executable, "-I", "-S", guard.__file__, str(path)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, cwd="/", start_new_session=True):
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            if lock is not None:
                os.close(lock)


def sweep(parent: Path) -> None:
    """Delete the folders of this user's servers that are no more."""
    if sys.platform == "win32":
        return
    for path in parent.glob(f"{FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            lock = _lock(path)
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _locked_folder() -> tuple[Path, int | None]:
    """A new folder with a lock on it; another server may have swept the first before it was locked."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))  # with rights for its owner alone
        if sys.platform == "win32":
            return path, None
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            lock = _lock(path)
            if path.is_dir():
                return path, lock
            os.close(lock)


def _lock(path: Path) -> int:
    """The descriptor of a folder that is locked from here on; `OSError` if somebody else holds it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
