"""Playbacks and offsets are screened by part of a word, and what deserves it is tested in full."""

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.deep.bands import analyse, powers
from ideaw.deep.decode import decode, decode_near
from ideaw.deep.screening import Candidate, screen
from ideaw.deep.search import SCREENED_PHASES
from ideaw.deep.signs import PERIOD_CELLS, PERIOD_TILES, TILE_CELLS, KeyPattern
from ideaw.deep.speeds import TEMPO_REFINEMENTS, Playback, PlayedExcerpt, count_playbacks, playbacks
from ideaw.deep.words import Word
from ideaw.payload.message import Message

KEY = ideaw.Key(bytes(range(32)))


def _noisy_tiles(word: Word, seed: int) -> tuple[NDArray[np.float32], Candidate]:
    """Evidence of 40 playbacks, of which one holds a word, 8 standard deviations strong; and where that is."""
    rng = np.random.default_rng(seed)
    tiles = rng.standard_normal((PERIOD_TILES, 20, 40)).astype(np.float32)
    where = Candidate(int(rng.integers(40)), int(rng.integers(PERIOD_TILES)))
    pattern = KeyPattern(KEY)
    signs = np.roll(pattern.modulate(word.symbols(pattern)), where.place, 0)
    tiles[..., where.column] += 8 / np.sqrt(signs.size) * signs
    return tiles, where


@pytest.mark.parametrize("content", [b"ab", b"abc", b"abcd"])
def test_a_mark_among_many_playbacks_is_a_candidate(content: bytes) -> None:
    word = Word.of(Message(content), KEY)
    for seed in range(8):
        tiles, where = _noisy_tiles(word, seed)
        assert where in screen(tiles, KeyPattern(KEY), [word], 4)
    strong = [
        where in screen(tiles, KeyPattern(KEY), [], 12) for tiles, where in map(_noisy_tiles, [word] * 8, range(8))
    ]
    assert sum(strong) >= 5


def test_a_test_at_every_offset_is_the_test_of_all(speech: NDArray[np.float32]) -> None:
    pattern, word = KeyPattern(KEY), Word.of(Message("ab"), KEY)
    rng = np.random.default_rng(1)
    folded = rng.standard_normal((PERIOD_CELLS, 20)).astype(np.float32)
    folded += np.repeat(0.3 * pattern.modulate(word.symbols(pattern)), TILE_CELLS, 0)
    everywhere = decode_near(folded, np.arange(PERIOD_CELLS), pattern, [word])
    for one, other in zip(decode(folded, pattern, [word]), everywhere, strict=True):
        assert (one.word, one.offset) == (other.word, other.offset)
        assert one.score == pytest.approx(other.score, rel=1e-5)


def test_an_excerpt_that_was_played_faster_is_read_at_its_tempo(speech: NDArray[np.float32]) -> None:
    marked = ideaw.load(key=KEY, threads=1).embed(np.tile(speech, 2), SAMPLE_RATE, "ab", layers="deep")
    faster = soxr.resample(marked, SAMPLE_RATE * 1.1, SAMPLE_RATE).astype(np.float32)
    played, pattern, word = PlayedExcerpt(powers(analyse(faster))), KeyPattern(KEY), Word.of(Message("ab"), KEY)
    at_tempo = decode(played.folded(Playback(1.1, 3)), pattern, [word])[1]
    as_it_is = decode(played.folded(Playback()), pattern, [word])[1]
    assert at_tempo.score > 2 * as_it_is.score
    tried = playbacks("all")
    columns = [candidate.column for candidate in screen(played.tiles(tried, SCREENED_PHASES), pattern, [], 3)]
    found = {round(tried[column // len(SCREENED_PHASES)].tempo, 1) for column in columns}
    assert found == {1.1}


def test_every_playback_with_its_refinements_is_counted() -> None:
    for speeds, most in (("near", 1.06), ("all", 1.245)):
        tried = playbacks(speeds)
        assert count_playbacks(speeds) == len(tried) * len(TEMPO_REFINEMENTS)
        assert len(set(tried)) == len(tried)
        assert Playback() not in tried
        tempos = [played.tempo for played in tried]
        assert (min(tempos), max(tempos)) == pytest.approx((1 / most, most), rel=0.005)
