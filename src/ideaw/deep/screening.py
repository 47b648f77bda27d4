"""Which of many playbacks and offsets deserve a full test: all blocks but the first, whose kind is not known, at once.

Every column is folded evidence under one playback. Shifted by every offset it is added up symbol by symbol in long
rows, and correlated with all words of a block in one matrix product, which is a fraction of the work of a full test.
What is left out here is counted all the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from ideaw.deep.bands import NUM_MEL_BANDS
from ideaw.deep.signs import NUM_CONTENT_TILES, NUM_TILES, PERIOD_TILES, SYMBOLS_PER_BLOCK, KeyPattern
from ideaw.deep.words import KINDS_OF_BYTES, WORDS_PER_BLOCK, Word, reed_muller

BATCH_COLUMNS = 64
"""Columns that are worked on at once: about 30 MB."""

_LONG, _ODD = 4 * SYMBOLS_PER_BLOCK, 3 * SYMBOLS_PER_BLOCK
"""Symbols of words of four bytes, which those of two share, and of three."""


@dataclass(frozen=True)
class Candidate:
    """A column of folded evidence, and the tile that a period begins at in it."""

    column: int
    place: int


def screen(tiles: NDArray[np.float32], pattern: KeyPattern, given: Sequence[Word], count: int) -> list[Candidate]:
    """The columns and places that look most like a mark of a key; at most `count`, and as many for given words.

    Args:
        tiles: (PERIOD_TILES, NUM_MEL_BANDS, columns) evidence under many playbacks.
        pattern: the key's.
        given: words that are looked for by themselves.
        count: how many.
    """
    lengths = np.sqrt(np.square(tiles, dtype=np.float64).sum((0, 1)))
    tiles = np.asarray(tiles / np.maximum(lengths, np.finfo(np.float64).tiny), np.float32)
    symbols = [word.content(pattern) for word in given]
    unknown, known = [], []
    for first in range(0, tiles.shape[-1], BATCH_COLUMNS):
        sums = {size: _symbol_sums(tiles[..., first : first + BATCH_COLUMNS], pattern, size) for size in (_LONG, _ODD)}
        sums[_LONG // 2] = sums[_LONG][: _LONG // 2] + sums[_LONG][_LONG // 2 :]
        unknown.append(_unlikeliness(sums))
        known.append(_best_given(sums, symbols))
    chosen: dict[Candidate, None] = {}
    for scores in (unknown, known) if len(given) else (unknown,):
        chosen |= dict.fromkeys(_strongest(np.concatenate(scores, 1), count))
    return list(chosen)


def _symbol_sums(tiles: NDArray[np.float32], pattern: KeyPattern, size: int) -> NDArray[np.float32]:
    """(PERIOD_TILES, NUM_MEL_BANDS, columns) → (size, PERIOD_TILES, columns) of the content, symbol by symbol."""
    by_band = np.ascontiguousarray(np.concatenate([tiles, tiles[:-1]]).swapaxes(0, 1))
    sums = np.zeros((size, PERIOD_TILES, tiles.shape[-1]), np.float32)
    times, bands = (part.tolist() for part in np.divmod(pattern.order, NUM_MEL_BANDS))
    added = (pattern.signs > 0).tolist()
    for symbol, total in enumerate(sums):
        for number in range(symbol, NUM_CONTENT_TILES, size):
            row = by_band[bands[number], times[number] : times[number] + PERIOD_TILES]
            (np.add if added[number] else np.subtract)(total, row, out=total)
    return sums


def _unlikeliness(sums: dict[int, NDArray[np.float32]]) -> NDArray[np.float32]:
    """(PERIOD_TILES, columns): about −ln of the probability that all blocks but the first look so much like words."""
    best = None
    for num_bytes in KINDS_OF_BYTES:
        others = sums[num_bytes * SYMBOLS_PER_BLOCK][SYMBOLS_PER_BLOCK:]
        blocks = others.reshape(num_bytes - 1, SYMBOLS_PER_BLOCK, -1)
        values = reed_muller()[:SYMBOLS_PER_BLOCK] @ blocks
        total = np.maximum(values.max(1), -values.min(1)).sum(0)
        share = (num_bytes - 1) / num_bytes * NUM_CONTENT_TILES / NUM_TILES  # of the noise, whose power is 1 in all
        score = np.square(total) / (2 * share) - (num_bytes - 1) * log(WORDS_PER_BLOCK)
        best = score if best is None else np.maximum(best, score)
    assert best is not None
    return np.asarray(best.reshape(PERIOD_TILES, -1))


def _best_given(sums: dict[int, NDArray[np.float32]], symbols: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """(PERIOD_TILES, columns) correlation with the content of the likeliest of given words."""
    best = np.full(sums[_LONG].shape[1:], -np.inf, np.float32)
    for word in symbols:
        np.maximum(best, np.tensordot(word, sums[len(word)], 1), out=best)
    return best


def _strongest(scores: NDArray[np.float32], count: int) -> Iterator[Candidate]:
    """The `count` highest of (PERIOD_TILES, columns)."""
    flat = scores.ravel()
    for index in np.argpartition(flat, -count)[-count:]:
        place, column = divmod(int(index), scores.shape[1])
        yield Candidate(column, place)
