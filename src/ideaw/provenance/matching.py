"""Whether found audio is a recording, by their fingerprints: where pieces lie in it, and which stretches agree there.

First pieces of 3 s are searched in all of the recording by their correlation. Then every half second is judged at the
places that were found near it: one place instead of thousands, so that shorter pieces suffice and borders get sharper.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.provenance.fingerprint import MIDDLE_SECONDS, PRINT_BITS, PRINTS_PER_SECOND, read_prints

Prints = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Signs and masks, as `read_prints` gives them."""

PIECE_FRAMES, PIECE_STEP_FRAMES = 94, 47
"""Frames of a piece that is searched, 3 s, and between two of them."""

CELL_FRAMES, JUDGED_FRAMES = 16, 62
"""Frames of a cell, half a second, and of the piece around it by which it is judged, 2 s."""

MIN_DENIED_FRAMES = 62
"""Least frames of found audio, 2 s, of which it can be said that it is another recording."""

PRIOR_SHARE = 0.2
"""Share of a piece's bits that are added as ones that say nothing, so that few reliable bits never mean much."""

SEARCHED_SCORE, PLACED_SCORE = 0.22, 0.12
"""Least scores of a piece of 3 s that was searched, and of one at a place that is known."""

BORDER_RATIO = 0.4
"""Share of the score of a piece that what lies near it must have too, so that borders are where the audio changes."""

LENGTH_EXPONENT = 0.75
"""How the first of them grows as pieces get shorter than 3 s."""

SOUNDING_SHARE = 0.1
"""Share of reliable bits below which a piece of found audio is silence and says nothing."""

MAX_GAP_CELLS = 2
"""Most cells in a row, 1 s, that may disagree in audio that agrees."""

TRANSFORM_FRAMES, PIECES_AT_ONCE = 1 << 10, 128
"""Frames of the recording, and pieces, that are correlated at once."""


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


@dataclass(frozen=True)
class _Place:
    """Where a piece of found audio lies in the recording."""

    start: int
    """Its first frame in the found audio."""
    shift: int
    """Frames by which the recording is later."""
    least: float
    """Score that what lies near it must have there."""


def compare(recorded: bytes, found: bytes) -> Agreement:
    """Tell whether found audio is the recording that an id was given to, all of it or a piece from anywhere.

    Args:
        recorded: fingerprint of the recording.
        found: fingerprint of the found audio.

    Raises:
        RegistryError: one of them is no fingerprint, or of a later version.
    """
    record, (signs, masks) = read_prints(recorded), read_prints(found)
    size = min(PIECE_FRAMES, len(signs))
    starts = piece_starts(masks, size)
    if not starts:
        return Agreement(False, 0.0, [])
    scores, shifts = search_pieces(record, signs, starts, size)
    least = SEARCHED_SCORE * (PIECE_FRAMES / size) ** LENGTH_EXPONENT
    places = [
        _Place(start, int(shift), max(PLACED_SCORE, BORDER_RATIO * score))
        for start, score, shift in zip(starts, scores, shifts, strict=True)
        if score >= least
    ]
    cells = [_judge(record, signs, masks, first, places) for first in range(0, len(signs), CELL_FRAMES)]
    agreeing = _runs([cell is True for cell in cells])
    # Silence neither agrees nor disagrees, and does not keep two stretches apart that disagree.
    opposed = _runs([cell is False for cell in cells if cell is not None])
    agrees = bool(agreeing) and all(stop - start <= MAX_GAP_CELLS for start, stop in opposed)
    compared = sum(cell is not None for cell in cells) * CELL_FRAMES / PRINTS_PER_SECOND
    if not agreeing and len(signs) < MIN_DENIED_FRAMES:
        compared = 0.0
    return Agreement(agrees, float(scores.max()), [_seconds(run, len(signs)) for run in agreeing], compared)


def piece_starts(masks: NDArray[np.float32], size: int) -> list[int]:
    """Where pieces of found audio begin that are no silence; the last one ends where the audio does."""
    starts = [*range(0, len(masks) - size, PIECE_STEP_FRAMES), len(masks) - size]
    return [start for start in starts if size and masks[start : start + size].mean() >= SOUNDING_SHARE]


def search_pieces(
    record: Prints, signs: NDArray[np.float32], starts: Sequence[int], size: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """(pieces,) best score of each piece of `size` frames, and by how much the recording is later there, in frames."""
    margin = size // 2  # the recording may begin or end within a piece
    masks = np.pad(record[1], ((margin, margin + size), (0, 0)))
    weighted = masks * np.pad(record[0], ((margin, margin + size), (0, 0)))
    reliable = np.concatenate([[0.0], np.cumsum(masks.sum(1, dtype=np.float64))])
    count = len(masks) - size
    norms = reliable[size : size + count] - reliable[:count] + PRIOR_SHARE * size * PRINT_BITS
    step = TRANSFORM_FRAMES - size + 1
    best, places = np.full(len(starts), -1.0), np.zeros(len(starts), np.int64)
    for begin in range(0, len(starts), PIECES_AT_ONCE):
        some = slice(begin, begin + PIECES_AT_ONCE)
        pieces = np.stack([signs[start : start + size] for start in starts[some]], axis=2)
        spectra = np.conj(np.fft.rfft(pieces, TRANSFORM_FRAMES, axis=0)).astype(np.complex64)
        for first in range(0, count, step):
            part = np.fft.rfft(weighted[first : first + TRANSFORM_FRAMES], TRANSFORM_FRAMES, axis=0)
            products = np.matmul(part.astype(np.complex64)[:, None], spectra)[:, 0]
            sums = np.fft.irfft(products, TRANSFORM_FRAMES, axis=0)[: min(step, count - first)]
            scores = sums / norms[first : first + step, None]
            better = scores.max(0) > best[some]
            best[some] = np.where(better, scores.max(0), best[some])
            places[some] = np.where(better, first + scores.argmax(0), places[some])
    return best, places - margin - np.array(starts)


def _judge(
    record: Prints, signs: NDArray[np.float32], masks: NDArray[np.float32], first: int, places: Sequence[_Place]
) -> bool | None:
    """Whether a cell of found audio agrees at one of the places that were found near it; None for silence."""
    middle = first + CELL_FRAMES // 2
    start = min(max(middle - JUDGED_FRAMES // 2, 0), max(len(signs) - JUDGED_FRAMES, 0))
    stop = min(start + JUDGED_FRAMES, len(signs))
    if masks[start:stop].mean() < SOUNDING_SHARE:
        return None
    near = (place for place in places if abs(place.start + PIECE_FRAMES // 2 - middle) <= PIECE_FRAMES)
    return any(_score_at(record, signs, start, stop, place.shift) >= place.least for place in near)


def _score_at(record: Prints, signs: NDArray[np.float32], start: int, stop: int, shift: int) -> float:
    """The score of a piece of found audio at one place of the recording."""
    begin, end = max(start + shift, 0), min(stop + shift, len(record[0]))
    if begin >= end:
        return 0.0
    mask = record[1][begin:end]
    agreeing = np.vdot(mask * record[0][begin:end], signs[begin - shift : end - shift])
    return float(agreeing / (mask.sum() + PRIOR_SHARE * (stop - start) * PRINT_BITS))


def _runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """First and one behind the last of each row of true ones."""
    edges = np.flatnonzero(np.diff(np.array([False, *flags, False]).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _seconds(run: tuple[int, int], count: int) -> tuple[float, float]:
    """Cells as seconds of audio of `count` frames; the first begins where the audio does, and the last ends there."""
    first, stop = (cell * CELL_FRAMES for cell in run)
    start = first / PRINTS_PER_SECOND + MIDDLE_SECONDS if first else 0.0
    return start, min(stop, count) / PRINTS_PER_SECOND + MIDDLE_SECONDS * (1 if stop < count else 2)
