"""The deep embedder: any rate, type and cut of the audio; what is silent stays silent; gains that hearing allows."""

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from ideaw.audio.blocks import split_blocks
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.deep.bands import analyse, gain_bands, measuring_bands, powers, synthesise
from ideaw.deep.embedder import DeepEmbedder, DeepSettings, choose_start
from ideaw.deep.gains import MAX_GAIN_DB, tile_course, tile_gains
from ideaw.deep.signs import PERIOD_TILES, TILE_CELLS, KeyPattern
from ideaw.deep.words import Word
from ideaw.errors import AudioError
from ideaw.payload.message import Message
from ideaw.quality.modulation import modulation_audibility

PATTERN = KeyPattern(bytes(range(16)))
WORD = Word.of(Message("ab"), PATTERN.key)


def _marked(samples: NDArray[np.generic], rate: int, block: int = 80_000, step: float = 0.0) -> NDArray[np.generic]:
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    embedder = DeepEmbedder(PATTERN, WORD, DeepSettings(rate, channels, step), 5)
    pieces = [embedder.push(piece) for piece in split_blocks(samples, block)]
    return np.concatenate([*pieces, embedder.finish()])


def _tones(*hertz: float, seconds: float = 8.0) -> NDArray[np.float64]:
    moments = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return np.asarray(0.1 * sum(np.sin(2 * np.pi * f * moments + f) for f in hertz) / len(hertz))


def test_spectra_without_gains_give_the_same_audio(speech: NDArray[np.float32]) -> None:
    again = synthesise(analyse(speech))
    assert np.abs(again - speech[: len(again)])[480:-480].max() < 1e-5
    assert gain_bands().sum(0)[10:190] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("block", [16_000, 7_777, 200_000])
def test_the_result_does_not_depend_on_how_the_audio_is_cut(speech: NDArray[np.float32], block: int) -> None:
    audio = np.tile(speech, 4)
    np.testing.assert_allclose(_marked(audio, SAMPLE_RATE, block), _marked(audio, SAMPLE_RATE, 33_333), atol=1e-7)


@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100, 48_000])
def test_as_many_samples_come_out_at_any_rate(speech: NDArray[np.float32], rate: int) -> None:
    audio = soxr.resample(speech, SAMPLE_RATE, rate)[:-3]
    marked = _marked(audio, rate)
    assert marked.shape == audio.shape
    assert marked.dtype == audio.dtype
    assert 0.02 < np.std(marked - audio) / np.std(audio) < 0.3


def test_channels_get_the_same_gains_and_their_own_audio(music: NDArray[np.float32]) -> None:
    panned = np.stack([music[:, 0], 0.25 * music[:, 0]], 1)
    marked = _marked(panned, 44_100)
    np.testing.assert_allclose(marked[:, 1], 0.25 * marked[:, 0], atol=1e-5)


def test_integers_stay_on_their_grid_and_silence_stays_silent(speech: NDArray[np.float32]) -> None:
    integers = np.rint(speech * 32_767).astype(np.int16)
    integers[20_000:40_000] = 0
    marked = _marked(integers, SAMPLE_RATE, step=2**-15)
    assert marked.dtype == np.int16
    assert not marked[20_000:40_000].any()
    assert (marked != integers).any()


def test_peaks_near_full_scale_are_spared_and_the_rest_is_as_it_was(speech: NDArray[np.float32]) -> None:
    audio = (0.2 * speech / np.abs(speech).max()).astype(np.float32)
    loud = audio.copy()
    place = int(np.abs(audio).argmax())
    loud[place - 40 : place + 40] *= 5
    plain, marked = _marked(audio, SAMPLE_RATE), _marked(loud, SAMPLE_RATE)
    change = np.abs(marked - loud)
    assert change[place - 300 : place + 300].max() < 0.3
    assert np.abs(marked).max() <= 1
    far = np.r_[: place - 20_000, place + 20_000 : len(audio)]
    assert np.std((marked - loud)[far]) == pytest.approx(np.std((plain - audio)[far]), rel=0.2)


@pytest.mark.parametrize("audio", [np.zeros(SAMPLE_RATE), np.zeros((SAMPLE_RATE, 2)), np.full(100, 0.5)])
def test_what_cannot_be_marked_is_said_at_the_end(audio: NDArray[np.float64]) -> None:
    embedder = DeepEmbedder(PATTERN, WORD, DeepSettings(SAMPLE_RATE, audio.ndim, 0.0))
    embedder.push(audio)
    assert len(embedder.finish()) == len(audio)
    with pytest.raises(AudioError):
        embedder.check()


def test_the_start_is_where_the_audio_speaks_for_the_word(speech: NDArray[np.float32]) -> None:
    audio = np.tile(speech, 3)[:, None]
    start = choose_start(PATTERN, WORD, split_blocks(audio, 10_000), SAMPLE_RATE)
    assert start == choose_start(PATTERN, WORD, [audio], SAMPLE_RATE)
    assert 0 <= start < PERIOD_TILES
    assert choose_start(PATTERN, WORD, [], SAMPLE_RATE) == 0


def test_a_steady_tone_gets_next_to_nothing_and_speech_more(speech: NDArray[np.float32]) -> None:
    signs = np.resize(PATTERN.modulate(WORD.symbols(PATTERN)), (100, 20))

    def depth(audio: NDArray[np.floating]) -> float:
        power = powers(analyse(audio[: 100 * TILE_CELLS * 160 + 320].astype(np.float32)))[None]
        gains = np.abs(tile_gains(power, signs))
        assert gains.max() <= MAX_GAIN_DB
        loud = (power[0] @ measuring_bands()).reshape(100, TILE_CELLS, -1).mean(1)
        return float((gains * loud).sum() / loud.sum())

    assert depth(_tones(1_000.0)) < 0.6 < 1.2 < depth(speech)


@pytest.mark.parametrize("hertz", [(440.0,), (1_000.0,), (3_000.0,), (130.8, 261.6, 392.0, 523.2, 784.0, 1_568.0)])
def test_sustained_tones_stay_below_the_threshold_of_hearing(hertz: tuple[float, ...]) -> None:
    audio = _tones(*hertz)
    heard = modulation_audibility(audio, np.asarray(_marked(audio, SAMPLE_RATE), np.float64))
    assert heard.percentile_99 < 1
    fixed = audio * 10 ** (1.5 / 20 * np.sign(np.sin(2 * np.pi * 10 * np.arange(len(audio)) / SAMPLE_RATE)))
    assert modulation_audibility(audio, fixed).percentile_99 > 9


def test_gains_go_from_tile_to_tile_without_steps() -> None:
    gains = np.array([[1.0], [-1.0], [1.0]], np.float32)
    course = tile_course(gains)[:, 0]
    assert course[TILE_CELLS] == pytest.approx(0, abs=1e-6)  # between two tiles
    assert course[TILE_CELLS + 2] == -1
    assert np.array_equal(tile_course(gains[1:], gains[0])[:, 0], course[TILE_CELLS:])
