"""The level by hearing: what a second, a band and a moment of a mark may have, and that they have it."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import HOP_SAMPLES, NUM_BINS, SAMPLE_RATE
from ideaw.audio.spectrum import stft
from ideaw.engine.audibility import (
    BAND_HEADROOM_DB,
    MAX_SNR_BY_EAR_DB,
    MIN_SNR_BY_EAR_DB,
    gain_by_ear,
    limit_bands,
    temporal_mask,
)
from ideaw.quality.masking import masking


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


def _noise(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    return (0.1 * np.random.default_rng(seed).standard_normal(int(seconds * SAMPLE_RATE))).astype(np.float32)


def _noise_to_mask(marker: ideaw.Marker, host: NDArray[np.float32], audibility: float = -2.0) -> float:
    return masking(host, marker.embed(host, SAMPLE_RATE, "hey", audibility=audibility)).ratio


@pytest.mark.slow
@pytest.mark.parametrize("audibility", [-8.0, -2.0, 0.0])
def test_the_noise_to_mask_ratio_is_what_was_asked_for(
    marker: ideaw.Marker, speech: NDArray[np.float32], strings: NDArray[np.float32], audibility: float
) -> None:
    for host in (speech, strings):
        # Measured over the whole file in other frames than those that set it, with a gain that has no steps.
        assert _noise_to_mask(marker, host, audibility) == pytest.approx(audibility, abs=1.5)


@pytest.mark.slow
def test_how_loud_the_audio_is_hardly_matters(marker: ideaw.Marker, strings: NDArray[np.float32]) -> None:
    loud, soft = (_noise_to_mask(marker, (level * strings).astype(np.float32)) for level in (1.0, 0.3))
    assert loud == pytest.approx(soft, abs=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.int16])
def test_no_second_is_louder_or_fainter_than_the_bounds(
    marker: ideaw.Marker, speech: NDArray[np.float32], kind: type
) -> None:
    # A mark as loud as noise under the threshold in quiet would not be heard; one in speech always is a little.
    pauses = np.concatenate([speech[: 2 * SAMPLE_RATE], 3e-3 * _noise(2), speech[: 2 * SAMPLE_RATE]])
    for host, audibility, bound in ((pauses, 0.0, MIN_SNR_BY_EAR_DB), (speech, -40.0, MAX_SNR_BY_EAR_DB)):
        samples = (32_767 * host).astype(kind) if kind is np.int16 else host
        marked = marker.embed(samples, SAMPLE_RATE, "hey", audibility=audibility)
        before, difference = samples.astype(np.float64), marked.astype(np.float64) - samples
        energies = (np.square(x).reshape(-1, SAMPLE_RATE).sum(1) for x in (before, difference))
        ratios = 10 * np.log10(np.divide(*energies))
        assert ratios.min() >= MIN_SNR_BY_EAR_DB - 1e-3
        assert np.median(np.abs(ratios - bound)) < 6 if bound == MAX_SNR_BY_EAR_DB else np.abs(ratios - bound).min() < 1


def test_a_level_is_asked_for_in_one_way(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    with pytest.raises(ideaw.IdeawError, match="give one of them"):
        marker.embed(speech, SAMPLE_RATE, "hey", snr=38, audibility=0)
    for nonsense in (-41, 21, float("nan"), "loud"):
        with pytest.raises(ideaw.IdeawError, match="dB of noise to mask"):
            marker.embed(speech, SAMPLE_RATE, "hey", audibility=nonsense)  # type: ignore[arg-type]


@pytest.mark.slow
def test_digital_silence_stays_digital_silence(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    host = np.concatenate([speech[: 2 * SAMPLE_RATE], np.zeros(SAMPLE_RATE, np.float32), speech[: 2 * SAMPLE_RATE]])
    for samples in (host, (32_767 * host).astype(np.int16)):
        marked = marker.embed(samples, SAMPLE_RATE, "hey", audibility=-2)
        assert not marked[samples == 0].any()
        assert (marked != samples).any()


@pytest.mark.slow
def test_nothing_sounds_before_an_onset(marker: ideaw.Marker) -> None:
    host = np.concatenate([1e-5 * _noise(1.5), _noise(1.5, 1)])  # −120 dBFS, then −20
    onset = int(1.5 * SAMPLE_RATE)
    difference = marker.embed(host, SAMPLE_RATE, "hey", audibility=-2) - host
    before, after = difference[onset - SAMPLE_RATE // 50 : onset], difference[onset:]
    assert 10 * np.log10(np.square(before, dtype=np.float64).mean()) < -80
    assert 10 * np.log10(np.square(after, dtype=np.float64).mean()) > -60


def test_no_band_is_more_than_its_headroom_above_the_mask() -> None:
    host, rng = stft(_noise(1)[:SAMPLE_RATE]), np.random.default_rng(1)
    shape = (len(host), NUM_BINS)
    residual = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)
    loudness = np.ones(len(host), np.float32)
    loud, faint = residual * 10 ** ((BAND_HEADROOM_DB + 20) / 20), residual * 1e-3
    limited = limit_bands(host, loud.astype(np.complex64), loudness)
    # Twice as much becomes the same; what is below the headroom stays as it is.
    np.testing.assert_allclose(limited, limit_bands(host, (2 * loud).astype(np.complex64), loudness), rtol=1e-4)
    assert (np.abs(limited) <= np.abs(loud) * (1 + 1e-6)).all()
    np.testing.assert_array_equal(limit_bands(host, faint.astype(np.complex64), loudness), faint.astype(np.complex64))


def test_what_lasts_is_masked_all_the_time() -> None:
    gains = temporal_mask(_noise(1)[:SAMPLE_RATE])
    assert np.median(gains) > 0.85
    assert gains.max() <= 1


def test_a_moment_before_a_sound_is_not_masked_and_a_moment_after_it_is() -> None:
    audio = np.zeros(SAMPLE_RATE, np.float32)
    begin, end = SAMPLE_RATE // 2, SAMPLE_RATE // 2 + 40 * HOP_SAMPLES // 10
    audio[begin:end] = _noise(1)[: end - begin]
    gains = temporal_mask(audio)
    assert gains[begin - SAMPLE_RATE // 50 : begin].max() < 1e-3
    assert gains[begin + 40 * SAMPLE_RATE // 1000 : end].mean() > 0.5
    assert gains[end : end + 5 * SAMPLE_RATE // 1000].mean() > 0.3
    falling = [gains[end + delay * SAMPLE_RATE // 1000] for delay in (2, 10, 20, 30)]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] < 0.7


def test_the_mask_of_a_moment_depends_on_what_is_near_alone() -> None:
    audio = _noise(2) * np.repeat([1.0, 0.01, 0.3, 0.0], SAMPLE_RATE // 2).astype(np.float32)
    middle = slice(40 * HOP_SAMPLES, 80 * HOP_SAMPLES)
    context = 12 * HOP_SAMPLES
    piece = temporal_mask(audio[middle.start - context : middle.stop + context])
    np.testing.assert_allclose(piece[context:-context], temporal_mask(audio)[middle], rtol=1e-5)


def test_the_gain_brings_a_second_to_its_ratio() -> None:
    audio = np.stack([_noise(1)[:SAMPLE_RATE], 0.1 * _noise(1, 1)[:SAMPLE_RATE]], 1)
    residual = 0.01 * np.stack([_noise(1, 2)[:SAMPLE_RATE], _noise(1, 3)[:SAMPLE_RATE]], 1)
    for wanted in (-32.0, -26.0):
        gains = gain_by_ear(residual, audio, wanted)
        assert gains.shape == (2,)
        again = gain_by_ear(residual * gains, audio, wanted)
        np.testing.assert_allclose(again, 1, rtol=1e-3)
    louder, quieter = (gain_by_ear(residual, audio, wanted) for wanted in (-26.0, -32.0))
    np.testing.assert_allclose(louder / quieter, 10 ** (6 / 20), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_streams_and_files_have_the_level_of_arrays(
    marker: ideaw.Marker, speech: NDArray[np.float32], rate: int, tmp_path: Path
) -> None:
    samples = soxr.resample(speech, SAMPLE_RATE, rate)[: 5 * rate]
    whole = marker.embed(samples, rate, "hey", audibility=-2)
    blocks = (samples[start : start + 7_777] for start in range(0, len(samples), 7_777))
    stream = np.concatenate(list(marker.embed_stream(blocks, rate, "hey", audibility=-2, latency=4)))
    np.testing.assert_allclose(stream, whole, rtol=0, atol=1e-6)
    soundfile.write(tmp_path / "host.wav", samples, rate, subtype="FLOAT")
    marker.embed_file(tmp_path / "host.wav", tmp_path / "marked.wav", "hey", audibility=-2)
    np.testing.assert_allclose(soundfile.read(tmp_path / "marked.wav")[0], whole, rtol=0, atol=1e-6)
    assert marker.detect(whole, rate).message == "hey"
