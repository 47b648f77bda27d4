"""What is heard of a difference: levels are those of a listener, and what lies below the curve is told."""

from dataclasses import astuple

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.hearing import FULL_SCALE_DB_SPL
from ideaw.quality.masking import MASKING_HOP_SAMPLES, masking


def test_a_sine_at_full_scale_has_its_level() -> None:
    sine = np.sin(2 * np.pi * 1_000 * np.arange(SAMPLE_RATE) / SAMPLE_RATE)
    heard = masking(sine, sine)
    whole = 10 * np.log10((10 ** (heard.host / 10)).sum(1))
    assert whole[:-1] == pytest.approx(FULL_SCALE_DB_SPL, abs=0.1)  # the last frame is not full
    assert heard.host.shape == (-(-(SAMPLE_RATE - 512) // MASKING_HOP_SAMPLES) + 1, len(heard.hertz))


def test_nothing_is_heard_where_nothing_differs(speech: NDArray[np.float32]) -> None:
    heard = masking(speech, speech)
    assert heard.masked == 1
    assert heard.ratio < -50


def test_louder_noise_is_heard_more(speech: NDArray[np.float32]) -> None:
    noise = np.random.default_rng(0).standard_normal(len(speech)) * speech.std()
    shares, ratios = zip(
        *(
            (heard.masked, heard.ratio)
            for heard in (masking(speech, speech + gain * noise) for gain in (1e-6, 1e-3, 0.1))
        ),
        strict=True,
    )
    assert shares[0] > 0.999  # below the threshold in quiet
    assert shares[0] > shares[1] > shares[2]
    assert ratios[2] == pytest.approx(ratios[1] + 40, abs=0.01)


def test_the_most_audible_moment_is_where_the_noise_is(speech: NDArray[np.float32]) -> None:
    marked = speech.astype(np.float64)
    marked[SAMPLE_RATE : SAMPLE_RATE + 400] += 0.05 * np.random.default_rng(0).standard_normal(400)
    heard = masking(speech, marked)
    assert heard.seconds[heard.most_audible] == pytest.approx(1, abs=0.04)
    assert heard.frame_ratios[heard.most_audible] > np.delete(heard.frame_ratios, heard.most_audible).max()


def test_over_time_every_stretch_tells_its_most_audible_frame(speech: NDArray[np.float32]) -> None:
    heard = masking(speech, speech + 0.001 * np.random.default_rng(0).standard_normal(len(speech)))
    frames = len(heard.silent)
    assert np.array_equal(heard.over_time(10 * frames), heard.frame_ratios)
    stretches = [heard.frame_ratios[i * frames // 7 : (i + 1) * frames // 7] for i in range(7)]
    assert np.array_equal(heard.over_time(7), [stretch.max() for stretch in stretches])


def test_frames_of_digital_silence_do_not_make_a_mark_fainter(speech: NDArray[np.float32]) -> None:
    noisy = speech + 0.001 * np.random.default_rng(0).standard_normal(len(speech))
    heard = masking(speech, noisy)
    pause = np.zeros_like(speech)
    paused = masking(np.concatenate([speech, pause]), np.concatenate([noisy, pause]))
    assert heard.silent.sum() == 0
    assert paused.silent.sum() == len(pause) // MASKING_HOP_SAMPLES - 1  # one frame is half speech
    assert paused.ratio == pytest.approx(heard.ratio, abs=0.03)  # the frame at the border is another
    assert paused.masked > (1 + heard.masked) / 2 - 0.01


def test_what_is_put_into_digital_silence_is_heard_but_does_not_count_in_the_mean(
    speech: NDArray[np.float32],
) -> None:
    host = np.concatenate([speech, np.zeros_like(speech)])
    marked = host + 0.001 * np.random.default_rng(0).standard_normal(len(host))
    quiet = marked * (np.arange(len(host)) < len(speech))
    assert masking(host, marked).ratio == pytest.approx(
        masking(host, quiet).ratio, abs=0.03
    )  # one frame is half speech
    assert masking(host, marked).masked < masking(host, quiet).masked - 0.2
    assert masking(host, marked).seconds[masking(host, marked).most_audible] > 6


def test_a_host_of_nothing_but_digital_silence_has_a_ratio() -> None:
    noise = 0.01 * np.random.default_rng(0).standard_normal(SAMPLE_RATE)
    assert masking(np.zeros(SAMPLE_RATE), noise).ratio > 20


def test_audio_shorter_than_a_frame_has_one(speech: NDArray[np.float32]) -> None:
    assert len(masking(speech[:100], speech[:100]).host) == 1


def test_long_audio_is_held_against_the_curve_in_pieces(
    speech: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    noisy = speech + 0.01 * np.random.default_rng(0).standard_normal(len(speech))
    at_once = masking(speech, noisy)
    monkeypatch.setattr("ideaw.quality.masking.MAX_BLOCK_FRAMES", 7)
    pieces = masking(speech, noisy)
    for one, other in zip(astuple(at_once), astuple(pieces), strict=True):
        assert np.allclose(one, other, rtol=0, atol=1e-3)  # products of matrices of other shapes round differently


@pytest.mark.parametrize("sample", ["speech", "strings"])
def test_the_shipped_mark_stays_nearer_to_the_curve_than_noise(sample: str, request: pytest.FixtureRequest) -> None:
    host = request.getfixturevalue(sample)
    mark = masking(host, ideaw.load().embed(host, SAMPLE_RATE, "ab12"))
    noise = np.random.default_rng(0).standard_normal(len(host))
    as_loud = masking(host, host + noise * np.sqrt(np.square(host).mean()) * 10 ** (-ideaw.load().card.snr / 20))
    assert mark.ratio < as_loud.ratio - 5
