"""The level by hearing: what a second, a band and a moment of a mark may have, and that they have it."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import HOP_SAMPLES, NUM_BINS, SAMPLE_RATE, WINDOW_SAMPLES
from ideaw.audio.masking import BarkBands
from ideaw.audio.spectrum import stft
from ideaw.engine.audibility import (
    LOW_BAND_HEADROOM_DB,
    MAX_SNR_BY_EAR_DB,
    MIN_SNR_BY_EAR_DB,
    SELF_MASKING_OFFSET_DB,
    GainByEar,
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
    return masking(host, marker.embed(host, SAMPLE_RATE, "hey", audibility=audibility, layers="fast")).ratio


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
        marked = marker.embed(samples, SAMPLE_RATE, "hey", audibility=audibility, layers="fast")
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


@pytest.mark.slow
def test_no_tail_reaches_through_a_gap_to_the_next_onset(marker: ideaw.Marker) -> None:
    host, gap = np.concatenate([_noise(1.5), _noise(1.5, 1)]), SAMPLE_RATE * 6 // 100
    onset = int(1.5 * SAMPLE_RATE)
    host[onset - gap : onset] *= 1e-5
    difference = marker.embed(host, SAMPLE_RATE, "hey") - host
    window = SAMPLE_RATE // 200  # 5 ms, of a gap of 60
    before = np.square(difference[onset - 4 * window : onset], dtype=np.float64).reshape(4, window).mean(1)
    assert 10 * np.log10(before.max()) < -80
    assert 10 * np.log10(np.square(difference[: onset - gap], dtype=np.float64).mean()) > -60


def test_no_band_is_more_than_its_headroom_above_the_mask() -> None:
    host, rng = stft(_noise(1)[:SAMPLE_RATE]), np.random.default_rng(1)
    shape = (len(host), NUM_BINS)
    residual = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)
    loudness = np.ones(len(host), np.float32)
    loud, faint = residual * 10 ** ((LOW_BAND_HEADROOM_DB + 20) / 20), residual * 1e-3
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


def _by_second(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, channels) → (samples, seconds, channels)."""
    return samples.reshape(-1, SAMPLE_RATE, samples.shape[1]).swapaxes(0, 1)


def _uneven(seconds: int = 6) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(n, 2) host and residual at 16 kHz, whose levels jump at and between the borders of seconds."""
    levels = np.random.default_rng(5).choice([0.1, 0.3, 1.0], (2, 4 * seconds, 2)).repeat(SAMPLE_RATE // 4, 1)
    noise = (np.stack([_noise(seconds, 2 * kind), _noise(seconds, 2 * kind + 1)], 1) for kind in range(2))
    host, residual = (x * level for x, level in zip(noise, levels, strict=True))
    return host.astype(np.float32), (0.03 * residual).astype(np.float32)


@pytest.mark.parametrize("wanted", [-24.0, -18.0])
def test_the_gain_brings_the_whole_to_its_ratio(wanted: float) -> None:
    host, residual = _uneven()
    gains, highest = GainByEar(SAMPLE_RATE, wanted).push(_by_second(residual), _by_second(host), last=True)
    assert gains.shape == host.shape
    assert highest.shape == (6, 2)
    assert np.abs(np.diff(np.square(gains), axis=0)).max() <= np.square(gains).max() / (SAMPLE_RATE / 2) * (1 + 1e-6)
    for channel in range(2):
        marked = host[:, channel] + residual[:, channel].astype(np.float64) * gains[:, channel]
        assert masking(host[:, channel], marked).ratio == pytest.approx(wanted, abs=0.3)


@pytest.mark.parametrize("rate", [8_001, 16_000, 44_100])
def test_the_gain_does_not_depend_on_how_seconds_arrive(rate: int) -> None:
    residual, host = (_by_second(samples) for samples in reversed(_uneven()))
    whole, highest = GainByEar(rate, -20.0).push(residual, host, last=True)
    assert len(whole) == 6 * rate
    envelope, pieces = GainByEar(rate, -20.0), []
    for part in (slice(0, 1), slice(1, 4), slice(4, 6)):
        gains, nodes = envelope.push(residual[:, part], host[:, part])
        np.testing.assert_array_equal(nodes, highest[part])
        pieces.append(gains)
        assert sum(map(len, pieces)) == (part.stop - 1) * rate + rate // 2
    pieces.append(envelope.push(residual[:, :0], host[:, :0], last=True)[0])
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_the_gain_keeps_its_bounds_and_needs_sound() -> None:
    host, residual = _uneven()
    even = np.stack([_noise(6, 7), _noise(6, 8)], 1)
    for wanted, snr in ((-60.0, MAX_SNR_BY_EAR_DB), (20.0, MIN_SNR_BY_EAR_DB)):
        heard = 1e-4 * even if wanted > 0 else even  # under the threshold in quiet nothing is
        gains, _ = GainByEar(SAMPLE_RATE, wanted).push(_by_second(even[::-1]), _by_second(heard), last=True)
        powers = [np.square(x, dtype=np.float64).sum() for x in (heard, even[::-1] * gains)]
        assert 10 * np.log10(powers[0] / powers[1]) == pytest.approx(snr, abs=0.1)
    silence = np.zeros_like(_by_second(host))
    assert not GainByEar(SAMPLE_RATE, 0.0).push(_by_second(residual), silence, last=True)[0].any()
    assert not GainByEar(SAMPLE_RATE, 0.0).push(silence, _by_second(host), last=True)[0].any()


def test_a_gap_between_tones_masks_what_its_own_energy_would() -> None:
    moments = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    tone, floor = 0.5 * np.sin(2 * np.pi * 1000 * moments), 1e-2 * _noise(1)[:SAMPLE_RATE]
    host = stft((tone + floor).astype(np.float32))
    residual = np.full((len(host), NUM_BINS), 1e6, np.complex64)
    limited = limit_bands(host, residual, np.ones(len(host), np.float32))
    bands = BarkBands.for_window(WINDOW_SAMPLES, NUM_BINS)
    gap = (bands.hertz > 1250) & (bands.hertz < 1500)
    # Windows at the borders see the tone begin, which is wide.
    energies = (np.square(np.abs(x[10:-10])) @ bands.inside[gap].T for x in (limited, host))
    ratios = 10 * np.log10(np.divide(*energies))
    np.testing.assert_allclose(ratios, LOW_BAND_HEADROOM_DB - SELF_MASKING_OFFSET_DB, atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_streams_and_files_have_the_level_of_arrays(
    marker: ideaw.Marker, speech: NDArray[np.float32], rate: int, tmp_path: Path
) -> None:
    samples = soxr.resample(speech, SAMPLE_RATE, rate)[: 5 * rate]
    whole = marker.embed(samples, rate, "hey", audibility=-2, layers="fast")
    blocks = (samples[start : start + 7_777] for start in range(0, len(samples), 7_777))
    stream = np.concatenate(list(marker.embed_stream(blocks, rate, "hey", audibility=-2, latency=4)))
    np.testing.assert_allclose(stream, whole, rtol=0, atol=1e-6)
    soundfile.write(tmp_path / "host.wav", samples, rate, subtype="FLOAT")
    marker.embed_file(tmp_path / "host.wav", tmp_path / "marked.wav", "hey", audibility=-2, layers="fast")
    np.testing.assert_allclose(soundfile.read(tmp_path / "marked.wav")[0], whole, rtol=0, atol=1e-6)
    assert marker.detect(whole, rate).message == "hey"
