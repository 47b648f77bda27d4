"""The search for deep marks of some keys in audio that arrives in blocks: the whole, its pieces, and other speeds.

Everything that is tried is counted, and the error budget is shared out beforehand: for the whole audio, for pieces of
it (a splice, or a mark in a part only), and for other speeds, tempos and pitches.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log, log2
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import SampleBuffer
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.deep.bands import CELLS_PER_SECOND, NUM_MEL_BANDS, analyse, powers
from ideaw.deep.decode import MAX_WORD_ERROR, Decoding, decode, decode_near, fold
from ideaw.deep.loudness import Chunk, EvidenceStream
from ideaw.deep.screening import screen
from ideaw.deep.signs import PERIOD_CELLS, TILE_CELLS, KeyPattern
from ideaw.deep.speeds import (
    EXCERPT_SECONDS,
    TEMPO_REFINEMENTS,
    Playback,
    PlayedExcerpt,
    count_playbacks,
    playbacks,
)
from ideaw.deep.words import Word
from ideaw.payload.message import Message

PIECE_CELLS, PIECE_HOP_CELLS = 10 * CELLS_PER_SECOND, 5 * CELLS_PER_SECOND
"""Frames of a piece that is searched by itself, and from one to the next."""

MIN_PIECE_CELLS = 3 * CELLS_PER_SECOND
"""Least frames of the last piece of a chunk."""

WHOLE_SHARE, PIECES_SHARE, SPEEDS_SHARE = 0.45, 0.05, 0.5
"""Shares of the error budget."""

SCREENED_PHASES = (0, 2)
"""Of the five frames of a tile, those that are tried as its centre while playbacks are screened."""

REFINED_FRAMES = np.arange(-2, 3)
"""Frames around such a centre that are tried where that deserves it."""

NUM_CANDIDATES = 12
"""Playbacks and offsets of a key that deserve a look at whole words, and as many more for given ones."""

NUM_TESTED = 4
"""Of these, the ones that are tested, on refined evidence."""

PIECE_CELL_STEP = 2
"""Of the frames of a tile, every second is tried as its centre in pieces."""


@dataclass(frozen=True)
class DeepFinding:
    """What speaks most for a mark.

    Attributes:
        log_p: ln of a bound on the probability by accident, everything counted.
        decoding: the word, and how sure it is.
        key_index: which of the keys.
        start, end: seconds of the audio as it was given.
        playback: how it was played.
    """

    log_p: float = inf
    decoding: Decoding = field(default_factory=Decoding)
    key_index: int = 0
    start: float = 0.0
    end: float = 0.0
    playback: Playback = field(default_factory=Playback)

    @property
    def p_value(self) -> float:
        """The bound as a probability."""
        return exp(min(self.log_p, 0.0))


@dataclass(frozen=True)
class Wanted:
    """A key, and the messages that are looked for by themselves: each as its word, and as its tag."""

    key: bytes
    messages: Sequence[Message] = ()

    def words(self) -> tuple[list[Word], list[int]]:
        """All different words, and the message of each."""
        found: dict[Word, int] = {}
        for index, message in enumerate(self.messages):
            for word in (Word.of(message, self.key), Word.tag(message, self.key)):
                found.setdefault(word, index)
        return list(found), list(found.values())


class DeepSearch:
    """Looks for deep marks in 16 kHz audio.

    Args:
        wanted: the keys.
        layers: how many layers of marks are searched in all: each spends its share of the error budget.
        speeds: "none", "near" or "all": which other speeds are tried where nothing is significant.
        limit: seconds of audio → p-value below which nothing more is tried.
    """

    def __init__(self, wanted: Sequence[Wanted], layers: int, speeds: str, limit: Callable[[float], float]) -> None:
        self._patterns = [KeyPattern(want.key) for want in wanted]
        self._wanted = wanted
        self._words = [want.words() for want in wanted]
        self._trials = len(wanted) * layers
        self._speeds, self._limit = speeds, limit
        self._stream = EvidenceStream()
        self._whole = np.zeros((PERIOD_CELLS, NUM_MEL_BANDS), np.float32)
        self._cells = self._pieces = self._answers = self._tries = 0
        self._best_piece = DeepFinding()
        self._audio = SampleBuffer()
        self._excerpt: NDArray[np.float32] | None = None
        self._loudness = -inf

    def push(self, audio: NDArray[np.float32]) -> None:
        """Go on with `(n, channels)` samples."""
        self._audio.append(audio)
        for chunk in self._stream.push(audio):
            self._take(chunk)

    def finish(self) -> DeepFinding:
        """There is no more: the answer."""
        for chunk in self._stream.finish():
            self._take(chunk)
        best = self.answer() if self._answers else self._best()
        seconds = self._cells / CELLS_PER_SECOND
        if self._speeds != "none" and best.p_value >= self._limit(seconds) and self._excerpt is not None:
            best = min(best, self._search_speeds(self._excerpt), key=_log_p)
        return best

    def answer(self) -> DeepFinding:
        """The answer so far; each is a trial of its own, of which the k-th spends 1 / (k · (k + 1))."""
        self._answers += 1
        best = self._best()
        return replace(best, log_p=best.log_p + log(self._answers * (self._answers + 1)))

    def _best(self) -> DeepFinding:
        """The strongest of the whole and its pieces so far."""
        best = self._test(self._whole, 0, self._cells, log(1 / WHOLE_SHARE))
        piece = replace(self._best_piece, log_p=self._best_piece.log_p + log(max(self._pieces, 1) / PIECES_SHARE))
        return min(best, piece, key=_log_p)

    def message(self, finding: DeepFinding) -> Message | None:
        """The message of a finding: the one that was given, or the one that was read if it is sure and checked."""
        decoding, wanted = finding.decoding, self._wanted[finding.key_index]
        if decoding.given is not None:
            return wanted.messages[self._words[finding.key_index][1][decoding.given]]
        unsure = decoding.word is None or decoding.error > MAX_WORD_ERROR or decoding.check_score <= 0
        return None if unsure or decoding.word is None else decoding.word.message(wanted.key)

    def check_bits(self, finding: DeepFinding) -> float:
        """Bits of proof that a word was made with the key; every word that was looked at up to now is a try."""
        return max(0.0, -finding.decoding.log_check_p / log(2) - log2(max(self._tries, 1)))

    def _take(self, chunk: Chunk) -> None:
        """Add a chunk to the whole, and search its pieces."""
        cells = len(chunk.evidence)
        self._whole += fold(chunk.evidence, chunk.start)
        self._cells = chunk.start + cells
        if chunk.loudness > self._loudness:
            self._loudness = chunk.loudness
            first = chunk.start * SAMPLE_RATE // CELLS_PER_SECOND
            self._excerpt = self._audio.get(first, first + EXCERPT_SECONDS * SAMPLE_RATE).copy()
        self._audio.drop_before(self._cells * SAMPLE_RATE // CELLS_PER_SECOND)
        for start, stop in _pieces(cells):
            self._pieces += 1
            place = chunk.start + start
            piece = self._test(fold(chunk.evidence[start:stop], place), place, chunk.start + stop, 0.0, PIECE_CELL_STEP)
            self._best_piece = min(self._best_piece, piece, key=_log_p)

    def _search_speeds(self, excerpt: NDArray[np.float32]) -> DeepFinding:
        """The best under any other playback of an excerpt."""
        spectra = analyse(np.ascontiguousarray(excerpt.T)) if len(excerpt) > SAMPLE_RATE else None
        if spectra is None:
            return DeepFinding()
        played, tried = PlayedExcerpt(powers(spectra).sum(0)), playbacks(self._speeds)
        tiles = played.tiles(tried, SCREENED_PHASES)
        spent = log(count_playbacks(self._speeds) / SPEEDS_SHARE)
        promising: list[tuple[float, int, Playback, NDArray[np.int64]]] = []
        for index, (pattern, (words, _)) in enumerate(zip(self._patterns, self._words, strict=True)):
            for candidate in screen(tiles, pattern, words, NUM_CANDIDATES):
                playback, phase = divmod(candidate.column, len(SCREENED_PHASES))
                frames = candidate.place * TILE_CELLS + SCREENED_PHASES[phase] + REFINED_FRAMES
                for factor in TEMPO_REFINEMENTS:
                    refined = replace(tried[playback], tempo=tried[playback].tempo * factor)
                    either = decode_near(played.folded(refined, linear=True), frames, pattern, words)
                    self._tries += 1
                    promising.append((min(decoding.log_p for decoding in either), index, refined, frames))
        best = DeepFinding()
        for _, index, refined, frames in sorted(promising, key=itemgetter(0))[:NUM_TESTED]:
            either = decode_near(played.folded(refined), frames, self._patterns[index], self._words[index][0])
            found = replace(self._finding(either, index, 0, self._cells, spent), playback=refined)
            best = min(best, found, key=_log_p)
        return best

    def _test(
        self, folded: NDArray[np.float32], start: int, stop: int, spent: float, cell_step: int = 1
    ) -> DeepFinding:
        """The best of all keys in folded evidence of frames `start` to `stop`; `spent` is ln of other trials."""
        self._tries += len(self._patterns) * len(range(0, TILE_CELLS, cell_step))
        findings = [
            self._finding(decode(folded, pattern, words, cell_step), index, start, stop, spent)
            for index, (pattern, (words, _)) in enumerate(zip(self._patterns, self._words, strict=True))
        ]
        return min(findings, key=_log_p)

    def _finding(
        self, either: tuple[Decoding, Decoding], key_index: int, start: int, stop: int, spent: float
    ) -> DeepFinding:
        """The likelier of any word and a given one, with everything counted; arguments as `_test` has them."""
        decoding = min(either, key=lambda decoding: decoding.log_p)
        tests = 2 if self._words[key_index][0] else 1
        return DeepFinding(
            decoding.log_p + spent + log(self._trials * tests),
            decoding,
            key_index,
            start / CELLS_PER_SECOND,
            stop / CELLS_PER_SECOND,
        )


def _pieces(cells: int) -> Iterator[tuple[int, int]]:
    """Pieces of a chunk of so many frames that are searched by themselves."""
    if cells > PIECE_HOP_CELLS + MIN_PIECE_CELLS:
        for start in range(0, max(cells - PIECE_HOP_CELLS, 1), PIECE_HOP_CELLS):
            yield start, min(start + PIECE_CELLS, cells)


def _log_p(finding: DeepFinding) -> float:
    return finding.log_p
