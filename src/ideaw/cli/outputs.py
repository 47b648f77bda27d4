"""Output files of commands: checked before the work begins, so that an error comes at once.

What is written here appears whole or not at all (`audio/atomic.py`).
"""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ideaw.audio import atomic
from ideaw.audio.formats import EXTENSIONS
from ideaw.audio.write import check_distinct, written_by_pyav
from ideaw.errors import FileError, MissingExtraError


def check_audio(source: Path, target: Path) -> None:
    """Raise `IdeawError` unless the audio of `source` can be written as `target`, as far as is known beforehand."""
    check_distinct(source, target)
    check(target, EXTENSIONS)
    if written_by_pyav(target) and find_spec("av") is None:
        raise MissingExtraError(f'{target} needs PyAV; install it with: pip install "ideaw[formats]"')


def check(target: Path, extensions: Sequence[str]) -> None:
    """Raise `FileError` unless a file with one of these extensions can be written at `target`."""
    if target.is_dir():
        raise FileError(f"{target} is a directory; give a file name for the output")
    if target.suffix.lower() not in extensions:
        named = f'of the unknown type "{target.suffix}"' if target.suffix else "without an extension"
        raise FileError(f"{target} is an output {named}; use one of {', '.join(extensions)}")
    if not target.parent.is_dir():
        raise FileError(f"the folder {target.parent} does not exist; make it first")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise FileError(f"{target} cannot be written: permission denied; choose another place")


def write(target: Path, content: bytes) -> None:
    """Write a file, or leave what is there as it was."""
    with atomic.replace_on_success(target) as temporary, atomic.file_errors(target):
        temporary.write_bytes(content)
