"""Whether found audio is the recording that an id was given to, all of it or in part, by their fingerprints.

`prints.py` makes fingerprints, and `matching.py` finds the places where they agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ideaw.audio.formats import PathLike
from ideaw.audio.read import open_audio
from ideaw.provenance.matching import CELL_FRAMES, judge, place_pieces
from ideaw.provenance.prints import MIDDLE_SECONDS, PRINTS_PER_SECOND, Fingerprinter, fingerprint, read_prints

__all__ = ["Agreement", "Fingerprinter", "compare", "file_fingerprint", "fingerprint"]

MIN_DENIED_FRAMES = 62
"""Least frames of found audio, 2 s, of which it can be said that it is another recording."""

MAX_GAP_CELLS = 2
"""Most cells in a row, 1 s, that may disagree in audio that agrees."""


@dataclass(frozen=True)
class Agreement:
    """Whether found audio is the recording that a fingerprint was made of."""

    agrees: bool
    """Whether all of it is: the whole recording, or a piece from anywhere."""
    score: float
    """Correlation of the piece of 3 s that agrees best, at most 1; below 0.2 for other recordings."""
    seconds: list[tuple[float, float]]
    """Stretches of the found audio that agree, start and end: if there are some and `agrees` is false, it agrees in
    part; if there are none, it is another recording."""
    compared_seconds: float = 0.0
    """How much of the found audio could be compared. Silence says nothing, and less than 2 s too little to be called
    another recording; 0 means that there is no answer."""


def compare(recorded: bytes, found: bytes) -> Agreement:
    """Tell whether found audio is the recording that an id was given to, all of it or a piece from anywhere.

    Args:
        recorded: fingerprint of the recording.
        found: fingerprint of the found audio.

    Raises:
        RegistryError: one of them is no fingerprint, or of a later version.
    """
    record, (signs, masks) = read_prints(recorded), read_prints(found)
    best, places = place_pieces(record, signs, masks)
    if best is None:
        return Agreement(False, 0.0, [])
    cells = [judge(record, signs, masks, first, places) for first in range(0, len(signs), CELL_FRAMES)]
    agreeing = _runs([cell is True for cell in cells])
    # Silence neither agrees nor disagrees, and does not keep two stretches apart that disagree.
    opposed = _runs([cell is False for cell in cells if cell is not None])
    agrees = bool(agreeing) and all(stop - start <= MAX_GAP_CELLS for start, stop in opposed)
    compared = sum(cell is not None for cell in cells) * CELL_FRAMES / PRINTS_PER_SECOND
    if not agreeing and len(signs) < MIN_DENIED_FRAMES:
        compared = 0.0
    return Agreement(agrees, best, [_seconds(run, len(signs)) for run in agreeing], compared)


def file_fingerprint(path: PathLike, speed: float = 1.0, tempo: float = 1.0) -> tuple[bytes, float]:
    """The fingerprint of a file's audio as it was before it was played otherwise; and its length in seconds as it is.

    Args:
        path: of the file.
        speed, tempo: at which it is played, as a `Detection` tells them.

    Raises:
        AudioError, FileError: it cannot be read.
    """
    with open_audio(path) as opened:
        whole, length = Fingerprinter(opened.rate / speed, tempo), 0
        for block in opened.blocks():
            whole.push(block)
            length += len(block)
        return whole.finish(), length / opened.rate


def _runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """First and one behind the last of each row of true ones."""
    edges = np.flatnonzero(np.diff(np.array([False, *flags, False]).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _seconds(run: tuple[int, int], count: int) -> tuple[float, float]:
    """Cells as seconds of audio of `count` frames; the first begins where the audio does, and the last ends there."""
    first, stop = (cell * CELL_FRAMES for cell in run)
    start = first / PRINTS_PER_SECOND + MIDDLE_SECONDS if first else 0.0
    return start, min(stop, count) / PRINTS_PER_SECOND + MIDDLE_SECONDS * (1 if stop < count else 2)
