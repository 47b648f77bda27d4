"""Folders, buckets and web servers through fsspec: whole objects in and out, with patience for servers that are busy.

What is written appears whole or not at all: on a disk by a rename, in a bucket by one request.
"""

import getpass
import os
import platform
import random
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fsspec.core import url_to_fs

from ideaw.audio.atomic import file_errors
from ideaw.errors import FileError, error_reason

RETRY_PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses before a request is made again that a server did not answer as it should, each ± a half by chance."""

WORK_FOLDER = ".ideaw-work"
"""Where files lie until they are complete; what a kill leaves there is removed by the next run."""

SCRATCH = Path(tempfile.gettempdir(), f"ideaw-{getpass.getuser()}")
"""Where copies of remote files lie while they are worked on."""

PROBE = f"{WORK_FOLDER}/probe"
"""An empty object that tells whether a bucket can be written."""

OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "az")
"""Protocols of buckets that can be written: an object appears there when its upload is complete."""

_FINAL_ERRORS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_FINAL_ERROR_NAMES = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "ParamValidationError")
"""What another attempt does not mend; names of classes of botocore, which may not be installed."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Found:
    """A file as its folder lists it."""

    path: str
    """Its full path or URL."""
    size: int | None
    """Bytes, if that is known."""
    etag: str | None
    """What changes with the content: the ETag of an object, or when a file was changed."""


@dataclass
class Storage:
    """A folder on a disk or in a bucket, or a web server's.

    Args:
        url: a path, or a URL that fsspec knows.

    Raises:
        FileError: there is no such protocol, or what it needs is not installed.
    """

    url: str
    fs: Any = field(init=False)
    root: str = field(init=False)

    def __post_init__(self) -> None:
        self.url = self.url if "://" in self.url else os.path.abspath(self.url)
        try:
            self.fs, self.root = url_to_fs(self.url, **_options(self.url))
        except (ImportError, ValueError) as problem:
            raise FileError(f"{self.url} cannot be reached: {error_reason(problem)}") from problem

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine."""
        return _protocol(self.fs) == "file"

    def place(self, name: str) -> str:
        """The path or URL of something in it."""
        return f"{self.url.rstrip('/')}/{name}"

    def check_kind(self) -> None:
        """Raise `FileError` unless it is of a kind in which files appear whole."""
        if not self.is_local and _protocol(self.fs) not in OBJECT_STORES:
            raise FileError(f"{self.url} cannot be written safely; give a folder, or a URL of s3:// or gs://")

    def check_writable(self) -> None:
        """Raise `FileError` unless files can be written here; make the folder where there is none."""
        if self.is_local:
            with self.work_file("") as temporary, file_errors(Path(self.url)):
                temporary.write_bytes(b"")
        else:
            self.write(PROBE, b"")

    def clear_work(self) -> None:
        """Remove what processes left incomplete that are no more, and the folder of such files once it is empty."""
        if self.is_local:
            remove_strays(Path(self.root, WORK_FOLDER))

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        place = f"{self.root}/{name}"
        # Not `exists`, which takes any error for a no.
        return patiently(lambda: _size_of(self.fs, place) is not None, self.place(name), "read")

    def names(self, prefix: str) -> list[str]:
        """The names of the files here that begin with `prefix`, in order."""
        self.fs.invalidate_cache()
        entries = patiently(lambda: _listed(self.fs, self.root), self.url, "listed")
        names = (str(entry).rstrip("/").rpartition("/")[2] for entry in entries)
        return sorted(name for name in names if name.startswith(prefix))

    def read(self, name: str) -> bytes:
        """What a file holds; raises `FileError`."""
        content = patiently(lambda: self.fs.cat_file(f"{self.root}/{name}"), self.place(name), "read")
        assert isinstance(content, bytes)
        return content

    def write(self, name: str, content: bytes) -> None:
        """Make or replace a file as a whole; raises `FileError`."""
        if self.is_local:
            with self.work_file(Path(name).suffix) as temporary:
                with file_errors(Path(self.place(name))):
                    temporary.write_bytes(content)
                self.put(temporary, name)
        else:
            patiently(lambda: self.fs.pipe_file(f"{self.root}/{name}", content), self.place(name), "written")

    def put(self, complete: Path, name: str) -> None:
        """Make or replace a file as a whole by one of the `work_file`s; raises `FileError`."""
        place = f"{self.root}/{name}"
        if not self.is_local:
            patiently(lambda: self.fs.put_file(str(complete), place), self.place(name), "written")
            return
        with file_errors(Path(place)):
            with complete.open("rb") as file:
                os.fsync(file.fileno())
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            os.replace(complete, place)

    @contextmanager
    def work_file(self, suffix: str) -> Iterator[Path]:
        """A local file to be written and then `put` here, which is removed at the end."""
        with temporary_file(Path(self.root, WORK_FOLDER) if self.is_local else SCRATCH, suffix) as path:
            yield path


def find_files(source: str) -> Iterator[Found]:
    """The files of a folder with all below it, of a pattern with * ? or [, or the one file of this name.

    Raises:
        FileError: it does not exist, or cannot be listed.
    """
    storage = Storage(source)
    listing = patiently(lambda: _details(storage.fs, storage.root), storage.url, "listed")
    for path, info in sorted(listing.items()):
        etag = info.get("ETag") or info.get("etag") or info.get("mtime")
        yield Found(_full_name(storage, path), info.get("size"), None if etag is None else str(etag).strip('"'))


def read_file(path: str) -> bytes:
    """What the file at a path or URL holds; raises `FileError`."""
    folder, _, name = Storage(path).url.rpartition("/")
    return Storage(folder or "/").read(name)


@contextmanager
def local_copy(path: str, size: int | None) -> Iterator[Path]:
    """A file on this machine's disk with the content of the file at a path or URL, for as long as it is used.

    Raises:
        FileError: it cannot be read, or is not of the size that it had.
    """
    if "://" not in path:
        _check_size(path, _local_size(Path(path)), size)
        yield Path(path)
        return
    storage = Storage(path)
    with temporary_file(SCRATCH, os.path.splitext(storage.root)[1]) as copy:
        patiently(lambda: storage.fs.get_file(storage.root, str(copy)), path, "read")
        _check_size(path, _local_size(copy), size)
        yield copy


@contextmanager
def temporary_file(folder: Path, suffix: str) -> Iterator[Path]:
    """A place for a file in a folder of its own, which is removed at the end; its name tells whose it is."""
    own = folder / f"{platform.node()}-{os.getpid()}-{secrets.token_hex(8)}"
    try:
        own.mkdir(parents=True)
    except OSError as problem:
        raise FileError(f"{folder} cannot be made: {error_reason(problem)}") from problem
    try:
        yield own / f"file{suffix}"
    finally:
        shutil.rmtree(own, ignore_errors=True)


def remove_strays(folder: Path) -> None:
    """Remove the temporary files of processes of this machine that are no more, and the folder if it is then empty."""
    with suppress(OSError):
        for path in folder.iterdir():
            host, pid, _ = path.name.rsplit("-", 2)
            if host == platform.node() and not _is_alive(int(pid)):
                shutil.rmtree(path, ignore_errors=True)
        folder.rmdir()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def patiently(request: Callable[[], Answer], name: str, done: str) -> Answer:
    """What a request gives, made again after a pause as long as a server is busy or does not answer.

    Args:
        request: may raise anything, since every kind of storage has its own errors.
        name: of what is asked for.
        done: what was to be done with it, as a participle.

    Raises:
        FileError: it failed, or failed too often.
    """
    local = "://" not in name
    for pause in (*RETRY_PAUSES_SECONDS, None):
        try:
            return request()
        except Exception as problem:
            final = isinstance(problem, _FINAL_ERRORS) or type(problem).__name__ in _FINAL_ERROR_NAMES
            if local or final or pause is None:
                raise FileError(f"{name} cannot be {done}: {_reason(problem)}") from problem
        time.sleep(pause * random.uniform(0.5, 1.5))
    raise AssertionError("the last pause is None")


def _reason(problem: Exception) -> str:
    if isinstance(problem, FileNotFoundError):
        return "it does not exist"
    if isinstance(problem, PermissionError):
        return "permission denied"
    return error_reason(problem)


def _options(url: str) -> dict[str, Any]:
    # Another worker's writes must be seen at once.
    return {"use_listings_cache": False} if url.startswith(("s3://", "s3a://")) else {}


def _protocol(fs: Any) -> str:
    return fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]


def _details(fs: Any, root: str) -> dict[str, dict[str, Any]]:
    """Path → what is known of it, of every file that a folder, a pattern or a name stands for."""
    if any(letter in root for letter in "*?[") and not (_protocol(fs) == "file" and os.path.exists(root)):
        return {path: info for path, info in fs.glob(root, detail=True).items() if info["type"] == "file"}
    if _protocol(fs) in ("http", "https") and not root.endswith("/"):
        return {root: fs.info(root)}
    found: dict[str, dict[str, Any]] = fs.find(root, detail=True)
    if not found and not fs.exists(root):
        raise FileNotFoundError(root)
    # What a kill left incomplete, here or of `ideaw embed`, is no file of the catalogue.
    return {path: info for path, info in found.items() if "/.ideaw-" not in path}


def _listed(fs: Any, root: str) -> list[str]:
    try:
        return list(fs.ls(root, detail=False))
    except FileNotFoundError:
        return []


def _size_of(fs: Any, place: str) -> int | None:
    try:
        return int(fs.info(place)["size"])
    except FileNotFoundError:
        return None


def _full_name(storage: Storage, path: str) -> str:
    return path if storage.is_local else str(storage.fs.unstrip_protocol(path))


def _local_size(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_size
    return None


def _check_size(path: str, size: int | None, listed: int | None) -> None:
    if None not in (size, listed) and size != listed:
        raise FileError(f"{path} has changed since the manifest was made: {size} bytes instead of {listed}")
