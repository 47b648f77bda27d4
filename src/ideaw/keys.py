"""Keys of the spread spectrum: which carriers, locating code and checks a mark has.

Keys separate owners and obscure what a message says. They do not hide that a mark is there, do not stop its removal by
someone who has the software, and a found mark alone does not prove who made it. Everything that depends on a key is
derived from it by HMAC-SHA-256 under a label of its own.
"""

import hashlib
import hmac
import logging
import os
import secrets
import stat
from pathlib import Path
from typing import Any, NoReturn, Self, SupportsIndex

from ideaw.errors import FileError, IdeawError, error_reason

NEW_KEY_BYTES = 32
"""Length in bytes of keys that `Key.fresh` makes."""

MIN_KEY_BYTES, MAX_KEY_BYTES = 16, 64
"""Accepted lengths: from 128 bits up to the block of SHA-256, beyond which HMAC would hash the key first."""

MAX_FILE_BYTES = 1 << 14
"""Length of a file of keys, some 250 of those that `Key.fresh` makes."""

FINGERPRINT_BYTES = 8
"""Length of a fingerprint, which is written as 16 hexadecimal digits."""

_READABLE_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH

_KEY_FORMAT = (
    f"a key is {2 * MIN_KEY_BYTES} to {2 * MAX_KEY_BYTES} hexadecimal digits, two for each byte; "
    "make one with: ideaw keygen"
)

_logger = logging.getLogger("ideaw")


class Key(bytes):
    """The bytes of a key: written as hexadecimal digits, never shown by `repr` or `str`, never pickled.

    Keys separate owners and obscure what a message says. They do not hide that a mark is there, do not stop its removal
    by someone who has the software, and a found mark alone does not prove who made it.

    Args:
        content: 16 to 64 bytes.

    Raises:
        IdeawError: `content` is shorter or longer.
    """

    def __new__(cls, content: bytes) -> Self:
        if not MIN_KEY_BYTES <= len(content) <= MAX_KEY_BYTES:
            raise IdeawError(f"a key of {8 * len(content)} bits cannot be used: {_KEY_FORMAT}")
        return super().__new__(cls, content)

    @classmethod
    def fresh(cls) -> Self:
        """Make a random key of 256 bits, from the operating system's secure generator."""
        return cls(secrets.token_bytes(NEW_KEY_BYTES))

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a key.

        Args:
            text: 32 to 128 hexadecimal digits; spaces and line ends are ignored.

        Raises:
            IdeawError: `text` is no key; it is not repeated in the error.
        """
        try:
            content = bytes.fromhex(text)
        except ValueError:
            raise IdeawError(f"this is not a key: {_KEY_FORMAT}") from None
        return cls(content)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a key file; one that group or others may read is used, with a warning in the log "ideaw".

        Args:
            path: a file of 32 to 128 hexadecimal digits a line, such as `write` makes.

        Returns:
            The key; the newest of a file that `rotate` has added to.

        Raises:
            FileError: The file cannot be read, or holds no key.
        """
        return cls.read_all(path)[0]

    @classmethod
    def read_all(cls, path: str | os.PathLike[str]) -> list[Self]:
        """Read all keys of a file, the newest first: that one marks, and all are searched for; see `read`."""
        name = os.fspath(path)
        try:
            with Path(path).open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read(MAX_FILE_BYTES + 1)  # bounded: somebody may give a recording by mistake
        except OSError as problem:
            raise FileError(f"{name} cannot be read as a key: {error_reason(problem)}") from problem
        try:
            if len(content) > MAX_FILE_BYTES:
                raise IdeawError(_KEY_FORMAT)
            keys = [cls.of(line) for line in content.decode("ascii").splitlines() if line.strip()] or [cls.of("")]
        except (IdeawError, UnicodeDecodeError):
            raise FileError(f"{name} does not hold a key: {_KEY_FORMAT}") from None
        if os.name == "posix" and stat.S_ISREG(mode) and mode & _READABLE_BY_OTHERS:
            _logger.warning("the key file %s can be read by other users; protect it with: chmod 600 %s", name, name)
        return keys

    @classmethod
    def rotate(cls, path: str | os.PathLike[str]) -> Self:
        """Put a fresh key before the others of a file, which stay readable; the file is replaced whole or not at all.

        Args:
            path: a file of keys.

        Raises:
            FileError: The file cannot be read or written, or holds no key, or as many as it may.
        """
        target = Path(path).resolve()
        keys = [cls.fresh(), *cls.read_all(path)]
        content = "".join(f"{key.hex()}\n" for key in keys)
        if len(content) > MAX_FILE_BYTES:
            raise FileError(f"{os.fspath(path)} holds as many keys as a file may; delete the oldest")
        draft = target.with_name(f".{target.name}-{secrets.token_hex(8)}")
        try:
            _write_private(draft, content)
            draft.replace(target)
        except OSError as problem:
            draft.unlink(missing_ok=True)
            raise FileError(f"{os.fspath(path)} cannot be written: {error_reason(problem)}") from problem
        return keys[0]

    def derive(self, label: str) -> "Key":
        """The key of a customer, a show, a year: who has it learns neither this key nor those of other labels.

        Args:
            label: what it is for; the same label gives the same key again.

        Raises:
            IdeawError: `label` is empty or no text.
        """
        if not isinstance(label, str) or not label:
            raise IdeawError("a label of a derived key is a text of one letter or more")
        return Key(derive(self, b"derived key: " + label.encode("utf-8", "surrogatepass")))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the key to a new file that only the user who runs this may read.

        Args:
            path: the file, which must not exist.

        Raises:
            FileError: The file exists already (keys are never overwritten), or cannot be written.
        """
        name = os.fspath(path)
        try:
            _write_private(Path(path), f"{self.hex()}\n")
        except FileExistsError:
            raise FileError(f"{name} is there already, and keys are never overwritten; choose another name") from None
        except OSError as problem:
            raise FileError(f"{name} cannot be written: {error_reason(problem)}") from problem

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that name the key and do not reveal it."""
        return derive(self, b"fingerprint")[:FINGERPRINT_BYTES].hex()

    def __repr__(self) -> str:
        return f"<Key of {8 * len(self)} bits>"

    __str__ = __repr__

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Key is secret and cannot be pickled; store it with Key.write, or store its fingerprint")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self.__reduce__()


PUBLIC = Key(b"ideaw public key 1")
"""The key of marks that every detector finds when no other key is given."""


def require_key(value: object) -> Key:
    """Return `value` if it is a `Key`.

    Raises:
        IdeawError: It is anything else, as a string or plain bytes; it is not repeated in the error.
    """
    if isinstance(value, Key):
        return value
    kind = type(value).__name__
    raise IdeawError(f"a key is an ideaw.Key, not {kind}; make one with Key.read(path), Key.of(digits) or Key.fresh()")


def _write_private(path: Path, content: str) -> None:
    """Write a new file that only its owner may read, whole on the disk or not there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise


def derive(key: bytes, label: bytes) -> bytes:
    """Derive the 32 bytes that belong to a key and a purpose: HMAC-SHA-256 of the label."""
    return hmac.digest(key, label, hashlib.sha256)
