"""Where pieces of found audio lie in a recording, by their fingerprints, and whether a place agrees.

First pieces of 3 s are searched in all of the recording by their correlation. Then every half second is judged at the
places that were found near it: one place instead of thousands, so that shorter pieces suffice and borders get sharper.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ideaw.provenance.prints import PRINT_BITS

Prints = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Signs and masks, as `read_prints` gives them."""

PIECE_FRAMES, PIECE_STEP_FRAMES = 94, 47
"""Frames of a piece that is searched, 3 s, and between two of them."""

CELL_FRAMES, JUDGED_FRAMES = 16, 62
"""Frames of a cell, half a second, and of the piece around it by which it is judged, 2 s."""

PRIOR_SHARE = 0.2
"""Share of a piece's bits that are added as ones that say nothing, so that few reliable bits never mean much."""

SEARCHED_SCORE, PLACED_SCORE = 0.28, 0.12
"""Least scores of a piece of 3 s that was searched, and of one at a place that is known."""

BORDER_RATIO = 0.4
"""Share of the score of a piece that what lies near it must have too, so that borders are where the audio changes."""

LENGTH_EXPONENT = 0.5
"""How the first of them grows as pieces get shorter than 3 s."""

SOUNDING_SHARE = 0.1
"""Share of reliable bits below which a piece of found audio is silence and says nothing."""

TRANSFORM_FRAMES, PIECES_AT_ONCE = 1 << 10, 128
"""Frames of the recording, and pieces, that are correlated at once."""


@dataclass(frozen=True)
class Place:
    """Where a piece of found audio lies in the recording."""

    start: int
    """Its first frame in the found audio."""
    shift: int
    """Frames by which the recording is later."""
    least: float
    """Score that what lies near it must have there."""


def place_pieces(
    record: Prints, signs: NDArray[np.float32], masks: NDArray[np.float32]
) -> tuple[float | None, list[Place]]:
    """The best score of all pieces of found audio, and the places of those that agree; None if all of it is silent."""
    size = min(PIECE_FRAMES, len(signs))
    every = [*range(0, len(signs) - size, PIECE_STEP_FRAMES), len(signs) - size]  # the last one ends where it does
    starts = [start for start in every if size and masks[start : start + size].mean() >= SOUNDING_SHARE]
    if not starts:
        return None, []
    scores, shifts = search_pieces(record, signs, starts, size)
    least = SEARCHED_SCORE * (PIECE_FRAMES / size) ** LENGTH_EXPONENT
    places = [
        Place(start, int(shift), max(PLACED_SCORE, BORDER_RATIO * float(score)))
        for start, score, shift in zip(starts, scores, shifts, strict=True)
        if score >= least
    ]
    return float(scores.max()), places


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


def judge(
    record: Prints, signs: NDArray[np.float32], masks: NDArray[np.float32], first: int, places: Sequence[Place]
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
