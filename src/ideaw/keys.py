"""Keys: who may find, read and write a mark.

Everything secret is derived from a key by HMAC-SHA-256 under a label of its own: the carriers of the message and of
the code, the locating code, the checks. A key is bytes, so it goes wherever the public one goes.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Self

from ideaw.errors import FileError, IdeawError

FRESH_BYTES = 32
"""Of keys that are made here."""

LEAST_BYTES, MOST_BYTES = 16, 64
"""Of keys that are taken: from 128 bits, up to what HMAC uses as it is."""

_WANTED = (
    f"a key is {2 * LEAST_BYTES} to {2 * MOST_BYTES} hexadecimal digits, two for each byte; make one with: ideaw keygen"
)


class Key(bytes):
    """The bytes of a key; written as hexadecimal digits, and never shown by accident."""

    def __new__(cls, content: bytes) -> Self:
        if not LEAST_BYTES <= len(content) <= MOST_BYTES:
            raise IdeawError(f"a key of {8 * len(content)} bits cannot be used: {_WANTED}")
        return super().__new__(cls, content)

    @classmethod
    def fresh(cls) -> Self:
        """A new key from the system's source of randomness."""
        return cls(secrets.token_bytes(FRESH_BYTES))

    @classmethod
    def of(cls, text: str) -> Self:
        """The key that is written as `text`; what is no key is not repeated in the error."""
        try:
            content = bytes.fromhex(text)
        except ValueError:
            raise IdeawError(f"this is not a key: {_WANTED}") from None
        return cls(content)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """The key in the file at `path`."""
        try:
            with Path(path).open("rb") as file:
                content = file.read(8 * MOST_BYTES)  # somebody may give a recording by mistake
        except OSError as problem:
            raise FileError(f"{os.fspath(path)} cannot be read as a key: {_why(problem)}") from problem
        try:
            return cls.of(content.decode("ascii"))
        except (IdeawError, UnicodeDecodeError):
            raise FileError(f"{os.fspath(path)} does not hold a key: {_WANTED}") from None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a file that only its owner may read; one that is there already is never touched."""
        name = os.fspath(path)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise FileError(f"{name} is there already, and keys are never overwritten; choose another name") from None
        except OSError as problem:
            raise FileError(f"{name} cannot be written: {_why(problem)}") from problem
        try:
            with os.fdopen(file, "w", encoding="ascii") as opened:
                opened.write(f"{self.hex()}\n")
        except OSError as problem:
            os.unlink(path)
            raise FileError(f"{name} cannot be written: {_why(problem)}") from problem

    def __repr__(self) -> str:
        return f"<Key of {8 * len(self)} bits>"

    __str__ = __repr__


PUBLIC = Key(b"ideaw public key 1")
"""The key of marks that anyone may find."""


def derive(key: bytes, label: bytes) -> bytes:
    """The 32 secret bytes that belong to a key and a purpose."""
    return hmac.digest(key, label, hashlib.sha256)


def _why(problem: OSError) -> str:
    return (problem.strerror or str(problem)).lower()
