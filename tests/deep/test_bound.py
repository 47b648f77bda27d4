"""The bound on false alarms is a theorem: it holds for any audio, over many keys, with everything that is tried."""

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.deep.bands import NUM_MEL_BANDS
from ideaw.deep.bound import log_p_any, log_p_given
from ideaw.deep.decode import decode, decode_near, fold
from ideaw.deep.loudness import EvidenceStream
from ideaw.deep.search import PIECES_SHARE, SPEEDS_SHARE, WHOLE_SHARE, DeepSearch, Wanted
from ideaw.deep.signs import PERIOD_CELLS, PERIOD_TILES, TILE_CELLS, KeyPattern
from ideaw.deep.words import KINDS_OF_BYTES, Word, count_words
from ideaw.engine.significance import file_limit
from ideaw.payload.message import Message


def _folded(audio: NDArray[np.floating]) -> NDArray[np.float32]:
    stream = EvidenceStream()
    chunks = [*stream.push(np.asarray(audio, np.float32)[:, None]), *stream.finish()]
    total = np.zeros((PERIOD_CELLS, NUM_MEL_BANDS), np.float32)
    for chunk in chunks:
        total += fold(chunk.evidence, chunk.start)
    return total


def _keys(count: int) -> list[bytes]:
    return [number.to_bytes(16, "big") for number in range(count)]


def _metronome(period_seconds: float) -> NDArray[np.float64]:
    """A click every period, which the 50-ms tiles may divide: 30 s."""
    moments = np.arange(30 * SAMPLE_RATE) / SAMPLE_RATE % period_seconds
    return np.asarray(0.5 * np.exp(-moments / 0.01) * np.sin(2 * np.pi * 1_000 * moments))


@pytest.fixture(scope="module")
def hosts(speech: NDArray[np.float32], strings: NDArray[np.float32]) -> dict[str, NDArray[np.floating]]:
    marked = ideaw.load(threads=1).embed(np.tile(speech, 3), SAMPLE_RATE, "hi", layers="deep")
    return {
        "speech": speech,
        "strings": strings,
        "loop of a period": np.tile(speech[: int(4.8 * SAMPLE_RATE)], 5),
        "metronome of a tile": _metronome(0.05),
        "metronome of 120 beats": _metronome(0.5),
        "marked with another key": marked,
    }


@pytest.mark.slow
def test_no_key_of_thousands_exceeds_the_bound_by_accident(hosts: dict[str, NDArray[np.floating]]) -> None:
    frames = np.arange(0, PERIOD_CELLS, TILE_CELLS)
    keys, given = _keys(340), [Word(2, bytes([number, 7])) for number in range(50)]
    for name, audio in hosts.items():
        folded = _folded(audio)
        either = np.array([[d.log_p for d in decode_near(folded, frames, KeyPattern(key), given)] for key in keys])
        for bound in either.T:
            for level in (0.5, 0.1, 0.02):
                # A bound at `level` is reached by at most that share of keys, up to 4 sigmas of counting.
                most = level * len(keys) + 4 * np.sqrt(level * len(keys))
                assert (bound <= np.log(level)).sum() <= most, (name, level)


def test_a_single_sum_of_keyed_signs_stays_below_hoeffdings_bound(speech: NDArray[np.float32]) -> None:
    tiles = _folded(speech)[::TILE_CELLS]
    length = np.sqrt(np.square(tiles).sum())
    scores = np.concatenate([KeyPattern(key).demodulate(tiles).sum(1) / length for key in _keys(100)])
    for sigmas in (1.0, 2.0, 3.0):
        assert (scores >= sigmas).mean() <= np.exp(log_p_given(sigmas, 1)) / PERIOD_CELLS
    assert scores.std() == pytest.approx(1, abs=0.1)


def test_every_word_and_offset_is_counted() -> None:
    assert count_words(2) == 6 * 2**16
    lengths, offsets = len(KINDS_OF_BYTES), PERIOD_TILES * TILE_CELLS
    log_tail = np.log(3.179 / (10 * np.sqrt(2 * np.pi))) - 50
    assert log_p_any(10.0, 2) == pytest.approx(log_tail + np.log(6 * 2**16 * lengths * offsets))
    assert log_p_given(10.0, 9) == pytest.approx(log_tail + np.log(9 * offsets))
    assert log_p_given(0.5, 1) == pytest.approx(-0.125 + np.log(offsets))  # Hoeffding


def test_shares_of_the_error_budget_and_all_trials_are_in_the_answer(speech: NDArray[np.float32]) -> None:
    message = Message("hi")
    marked = ideaw.load(threads=1).embed(np.tile(speech, 2), SAMPLE_RATE, "hi", layers="deep")
    key = bytes(ideaw.keys.PUBLIC)

    def log_p(wanted: list[Wanted], layers: int) -> float:
        search = DeepSearch(wanted, layers, "none", file_limit)
        search.push(np.asarray(marked, np.float32)[:, None])
        return search.finish().log_p

    alone = log_p([Wanted(key)], 1)
    assert log_p([Wanted(key)], 2) == pytest.approx(alone + np.log(2))
    assert log_p([Wanted(key), Wanted(bytes(16))], 1) == pytest.approx(alone + np.log(2))
    any_word, _ = decode(_folded(marked), KeyPattern(key))
    assert alone == pytest.approx(any_word.log_p - np.log(WHOLE_SHARE))
    given = log_p([Wanted(key, [message])], 1)
    _, best = decode(_folded(marked), KeyPattern(key), Wanted(key, [message]).words()[0])
    assert given == pytest.approx(best.log_p + np.log(2 / WHOLE_SHARE))


def test_the_error_budget_is_spent_once() -> None:
    assert pytest.approx(1) == WHOLE_SHARE + PIECES_SHARE + SPEEDS_SHARE


def test_answers_of_a_stream_spend_a_budget_together(speech: NDArray[np.float32]) -> None:
    search = DeepSearch([Wanted(bytes(16))], 1, "none", file_limit)
    search.push(np.tile(speech, 8)[:, None])
    log_p = np.array([search.answer().log_p for _ in range(6)])
    shares = np.exp(log_p[0] - log_p) / 2
    assert shares == pytest.approx([1 / (k * (k + 1)) for k in range(1, 7)])
    assert shares.sum() < 1
