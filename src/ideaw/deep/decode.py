"""List of all words, one matched filter: the strongest word at any offset, and how sure it is against its rivals.

Content alone says which word is the strongest; all tiles, those that check it among them, say how unlikely that is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from ideaw.deep.bound import log_p_any, log_p_given, log_tail
from ideaw.deep.signs import (
    NUM_CONTENT_TILES,
    PERIOD_CELLS,
    PERIOD_TILES,
    SYMBOLS_PER_BLOCK,
    TILE_CELLS,
    KeyPattern,
)
from ideaw.deep.words import KINDS_OF_BYTES, Word, reed_muller

MAX_WORD_ERROR = 1e-3
"""Posterior probability of another word above which a word is not taken as read."""


@dataclass(frozen=True)
class Decoding:
    """What speaks most for a mark in one piece of evidence."""

    log_p: float = inf
    """ln of the bound on its probability by accident: over words and offsets, not over pieces, speeds and keys."""
    word: Word | None = None
    """The strongest word."""
    given: int | None = None
    """Which of the given words it is; None where the word was not looked for by itself."""
    error: float = 1.0
    """Posterior probability that another word was written."""
    offset: int = 0
    """The frame that the period begins at, modulo the period."""
    score: float = 0.0
    """Correlation in standard deviations."""
    check_score: float = 0.0
    """Correlation of the tiles that check the word, in standard deviations."""

    @property
    def log_check_p(self) -> float:
        """ln of a bound on the probability that somebody without the key makes tiles that check so well."""
        return log_tail(self.check_score)


def fold(evidence: NDArray[np.float32], start: int = 0) -> NDArray[np.float32]:
    """(frames, bands) evidence, its first frame number `start` → (PERIOD_CELLS, bands) sums over all periods."""
    before = start % PERIOD_CELLS
    after = -(before + len(evidence)) % PERIOD_CELLS
    padded = np.pad(evidence, ((before, after), (0, 0)))
    return np.asarray(padded.reshape(-1, PERIOD_CELLS, evidence.shape[1]).sum(0))


def decode(
    folded: NDArray[np.float32], pattern: KeyPattern, given: Sequence[Word] = (), cell_step: int = 1
) -> tuple[Decoding, Decoding]:
    """The likeliest of all words, and the likeliest of the given ones, at any offset of folded evidence.

    Args:
        folded: (PERIOD_CELLS, bands).
        pattern: the key's.
        given: words that are looked for by themselves.
        cell_step: of the 5 frames of a tile, every so manieth is tried as its centre.
    """
    known, places = _GivenWords(given, pattern), TILE_CELLS * np.arange(PERIOD_TILES)
    found = []
    for phase in range(0, TILE_CELLS, cell_step):
        tiles = folded[phase::TILE_CELLS]
        lengths = np.full(PERIOD_TILES, np.linalg.norm(tiles))
        found.append(_decode_rows(pattern.demodulate(tiles), lengths, places + phase, pattern, known))
    anything, given = zip(*found, strict=True)
    return min(anything, key=_log_p), min(given, key=_log_p)


def decode_near(
    folded: NDArray[np.float32], frames: NDArray[np.int64], pattern: KeyPattern, given: Sequence[Word] = ()
) -> tuple[Decoding, Decoding]:
    """The same where only some offsets are looked at: those of `frames`, on which first tiles are centred."""
    tiles = folded[(frames[:, None] + TILE_CELLS * np.arange(PERIOD_TILES)) % PERIOD_CELLS].reshape(len(frames), -1)
    lengths = np.linalg.norm(tiles, axis=1)
    return _decode_rows(tiles[:, pattern.order] * pattern.signs, lengths, frames, pattern, _GivenWords(given, pattern))


def _decode_rows(
    sums: NDArray[np.float32],
    lengths: NDArray[np.floating],
    frames: NDArray[np.int64],
    pattern: KeyPattern,
    known: "_GivenWords",
) -> tuple[Decoding, Decoding]:
    """The likeliest of all words and of the given ones in rows of demodulated evidence.

    Args:
        sums: (rows, NUM_TILES).
        lengths: (rows,) root of the sum of squares of each.
        frames: (rows,) frame on which the first tile of each is centred.
        pattern: the key's.
        known: the given words.
    """
    if not lengths.all():
        return Decoding(), Decoding()
    contents, checks = sums[:, :NUM_CONTENT_TILES], sums[:, NUM_CONTENT_TILES:]
    strongest, given = [], []
    for num_bytes, kinds in KINDS_OF_BYTES.items():
        values = _correlate(contents, num_bytes, pattern.kind_masks[list(kinds)])
        peaks = np.maximum(values.max(-1), -values.min(-1))
        totals = peaks[:, : len(kinds)].max(-1) + peaks[:, len(kinds) :].sum(-1)
        row = int((totals / lengths).argmax())
        content = float(totals[row]) / _length(contents[row])
        strongest.append((log_p_any(content, num_bytes), row, kinds, float(totals[row]), values[row]))
        scores = known.scores(values, num_bytes)
        if scores.size:
            likeliest = (scores + known.check_scores(checks, num_bytes)) / lengths[:, None]
            row, which = divmod(int(likeliest.argmax()), scores.shape[1])
            index = known.indices[num_bytes][which]
            given.append((float(likeliest[row, which]), row, index, float(scores[row, which])))

    def found(row: int, word: Word, content: float, given: int | None = None, error: float = 0.0) -> Decoding:
        check = float(checks[row] @ word.check(pattern.key))
        score = (content + check) / float(lengths[row])
        log_p = log_p_any(score, len(word.data)) if given is None else log_p_given(score, len(known.words))
        return Decoding(log_p, word, given, error, _offset(frames[row]), score, check / _length(checks[row]))

    log_p, row, kinds, content, values = min(strongest, key=itemgetter(0))
    word, error = _read(values / np.float32(_length(contents[row])), kinds)
    if log_p < 0:
        best = found(row, word, content, error=error)
    else:  # nothing that its check could save
        best = Decoding(log_p, word, None, error, _offset(frames[row]), content / float(lengths[row]))
    if not given:
        return best, Decoding()
    _, row, index, content = max(given, key=itemgetter(0))
    return best, found(row, known.words[index], content, index)


class _GivenWords:
    """Words that are looked for by themselves, by their length."""

    def __init__(self, words: Sequence[Word], pattern: KeyPattern) -> None:
        self.words = words
        self.indices = {
            num_bytes: [index for index, word in enumerate(words) if len(word.data) == num_bytes]
            for num_bytes in KINDS_OF_BYTES
        }
        self._rows: dict[int, NDArray[np.int64]] = {}
        self._bytes: dict[int, NDArray[np.int64]] = {}
        self._checks: dict[int, NDArray[np.float32]] = {}
        for num_bytes, indices in self.indices.items():
            kinds, chosen = KINDS_OF_BYTES[num_bytes], [words[index] for index in indices]
            others = list(range(len(kinds), len(kinds) + num_bytes - 1))
            self._rows[num_bytes] = np.array([[kinds.index(word.kind), *others] for word in chosen], np.int64)
            self._bytes[num_bytes] = np.array([list(word.data) for word in chosen], np.int64)
            self._checks[num_bytes] = np.array([word.check(pattern.key) for word in chosen], np.float32)

    def scores(self, values: NDArray[np.float32], num_bytes: int) -> NDArray[np.float32]:
        """(places, rows, SYMBOLS_PER_BLOCK) correlations → (places, words of this length), of their content."""
        rows, data = self._rows[num_bytes], self._bytes[num_bytes]
        if not len(rows):
            return np.empty((len(values), 0), np.float32)
        signs = np.where(data < SYMBOLS_PER_BLOCK, 1, -1).astype(np.float32)
        picked = values[:, rows, data % SYMBOLS_PER_BLOCK] * signs
        return np.asarray(picked.sum(-1))

    def check_scores(self, checks: NDArray[np.float32], num_bytes: int) -> NDArray[np.float32]:
        """(places, NUM_CHECK_TILES), demodulated → (places, words of this length), of what checks them."""
        return np.asarray(checks @ self._checks[num_bytes].T)


def _correlate(sums: NDArray[np.float32], num_bytes: int, kind_masks: NDArray[np.float32]) -> NDArray[np.float32]:
    """Correlations with every word of every block.

    Args:
        sums: (places, NUM_CONTENT_TILES), demodulated.
        num_bytes: blocks.
        kind_masks: (kinds, SYMBOLS_PER_BLOCK) of the first block.

    Returns:
        (places, kinds + num_bytes − 1, SYMBOLS_PER_BLOCK): the first block under every kind, then the others; a value
        of the opposite sign speaks for the opposite word.
    """
    symbols = num_bytes * SYMBOLS_PER_BLOCK
    whole = sums.shape[1] // symbols * symbols
    blocks = sums[:, :whole].reshape(len(sums), -1, symbols).sum(1)
    blocks[:, : sums.shape[1] - whole] += sums[:, whole:]
    blocks = blocks.reshape(len(sums), num_bytes, SYMBOLS_PER_BLOCK)
    stacked = np.concatenate([blocks[:, :1] * kind_masks, blocks[:, 1:]], 1)
    return np.asarray(
        (stacked.reshape(-1, SYMBOLS_PER_BLOCK) @ reed_muller()[:SYMBOLS_PER_BLOCK].T).reshape(stacked.shape)
    )


def _read(values: NDArray[np.float32], kinds: tuple[int, ...]) -> tuple[Word, float]:
    """The strongest word in (kinds + others, SYMBOLS_PER_BLOCK) correlations, and the posterior of all others.

    In units where a sign's noise sums to 1 over the content of a period, a block's share is 1 / blocks of that power.
    With amplitude a, estimated from the word itself, the log-likelihood ratio of two words is a · (their difference).
    """
    both = np.concatenate([values, -values], 1)
    blocks = [both[: len(kinds)].ravel(), *both[len(kinds) :]]
    amplitude = sum(float(block.max()) for block in blocks)  # of the sum over all blocks, whose noise has power 1
    certainty = 1.0
    for block in blocks:
        certainty /= float(np.exp(amplitude * (block - block.max())).sum())
    first = int(blocks[0].argmax())
    rest = [int(block.argmax()) for block in blocks[1:]]
    width = both.shape[1]
    return Word(kinds[first // width], bytes([first % width, *rest])), 1 - certainty


def _length(values: NDArray[np.float32]) -> float:
    return max(float(np.linalg.norm(values)), float(np.finfo(np.float32).tiny))


def _offset(frame: np.int64) -> int:
    return int(frame - TILE_CELLS // 2) % PERIOD_CELLS


def _log_p(decoding: Decoding) -> float:
    return decoding.log_p
