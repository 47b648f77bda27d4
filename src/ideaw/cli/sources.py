"""What `embed` and `detect` are given: files, folders, or a pipe; and which file each becomes."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ideaw.audio import atomic
from ideaw.audio.formats import EXTENSIONS
from ideaw.audio.pcm_pipe import PcmForm
from ideaw.audio.read import open_audio
from ideaw.audio.spool import SPOOL, as_path, extension_for, name_in_errors
from ideaw.errors import FileError, IdeawError

PIPE = Path("-")
"""How standard input and output are written."""

READ_EXTENSIONS = (*EXTENSIONS, ".aac", ".wma", ".mp2", ".3gp", ".bw64", ".snd", ".aifc")
"""Extensions that make a file of a folder an audio file."""


@dataclass(frozen=True)
class Task:
    """One file to mark: where it is, and what it becomes, of which a folder may have to be made."""

    source: Path
    target: Path
    weight: float = 1.0
    """Share of the work in all, by its bytes."""


def plan_tasks(paths: Sequence[Path], into: Path | None) -> tuple[list[Task], int]:
    """The files to mark, and how many files of folders are no audio by their names.

    Args:
        paths: an input and an output; with `into`, inputs and folders of inputs.
        into: folder of the outputs.

    Raises:
        IdeawError: there is no output, or two inputs would become one file.
    """
    if into is None:
        if len(paths) != 2:
            raise IdeawError("give an input and an output, or any number of inputs and --into FOLDER")
        if paths[0] != PIPE and paths[0].is_dir():
            raise FileError(f"{paths[0]} is a directory; to mark all that is in it, give --into FOLDER")
        return [Task(paths[0], paths[1])], 0
    if PIPE in paths:
        raise IdeawError("a pipe has no name that an output in a folder could get; give - and an output")
    if into.exists() and not into.is_dir():
        raise FileError(f"{into} is a file; give a folder for the outputs")
    found: list[tuple[Path, Path]] = []
    num_skipped = 0
    for path in paths:
        if path.is_dir():
            inside = [file for file in _files_below(path) if into.resolve() not in file.resolve().parents]
            audio = [file for file in inside if file.suffix.lower() in READ_EXTENSIONS]
            num_skipped += len(inside) - len(audio)
            found += [(file, into / file.relative_to(path)) for file in audio]
        else:
            found.append((path, into / path.name))
    if not found:
        raise FileError(f"there is no audio file in {', '.join(map(str, paths))}")
    _check_names(found)
    sizes = [file.stat().st_size if file.is_file() else 0 for file, _ in found]
    total = max(sum(sizes), 1)
    return [Task(*pair, size / total) for pair, size in zip(found, sizes, strict=True)], num_skipped


def fitting_target(task: Task) -> Path:
    """The output of a task in a folder: of its input's name, and of another extension if that cannot be written.

    Raises:
        FileError: the input cannot be read.
    """
    with open_audio(task.source) as opened:
        suffix = task.target.suffix
        extension = extension_for(opened.encoding, suffix.lower())
    return task.target if suffix.lower() == extension else task.target.with_name(task.target.name + extension)


@contextmanager
def piped_in(pcm: PcmForm | None) -> Iterator[Path]:
    """Yield where the content of standard input lies, with a header if it is bare PCM."""
    if pcm is None:
        with as_path(sys.stdin.buffer) as path:
            yield path
    else:
        with atomic.scratch_file(SPOOL) as path:
            pcm.add_header(sys.stdin.buffer, path)
            with name_in_errors(path):
                yield path


def piped_out() -> BinaryIO:
    """Standard output, for audio."""
    return sys.stdout.buffer


def _files_below(folder: Path) -> list[Path]:
    """All files of a folder and of those in it, without hidden ones."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _check_names(found: Sequence[tuple[Path, Path]]) -> None:
    former: dict[Path, Path] = {}
    for source, target in found:
        if target in former:
            raise FileError(f"{former[target]} and {source} would both become {target}; mark them one by one")
        former[target] = source
