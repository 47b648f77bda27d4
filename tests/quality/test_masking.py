"""What is heard of a difference: levels are those of a listener, and what lies below the curve is told."""

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.attacks import catalogue
from ideaw.audio.grid import RATE
from ideaw.quality.masking import FULL_SCALE, HOP, masking, middle


def test_a_sine_at_full_scale_has_its_level() -> None:
    sine = np.sin(2 * np.pi * 1_000 * np.arange(RATE) / RATE)
    heard = masking(sine, sine)
    whole = 10 * np.log10((10 ** (heard.host / 10)).sum(1))
    assert whole == pytest.approx(FULL_SCALE, abs=0.1)
    assert heard.host.shape == (len(range(0, RATE - 511, HOP)), len(heard.hertz))


def test_nothing_is_heard_where_nothing_differs(speech: NDArray[np.float32]) -> None:
    heard = masking(speech, speech)
    assert heard.masked == 1
    assert heard.ratio < -100


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
    assert ratios[1] == pytest.approx(ratios[0] + 60, abs=1e-3)
    assert ratios[2] == pytest.approx(ratios[1] + 40, abs=1e-3)


def test_the_loudest_moment_is_where_the_noise_is(speech: NDArray[np.float32]) -> None:
    marked = speech.astype(np.float64)
    marked[RATE : RATE + 400] += 0.05 * np.random.default_rng(0).standard_normal(400)
    assert middle(masking(speech, marked).loudest) == pytest.approx(1, abs=0.04)


def test_audio_shorter_than_a_frame_has_one(speech: NDArray[np.float32]) -> None:
    assert len(masking(speech[:100], speech[:100]).host) == 1


@pytest.mark.parametrize("sample", ["speech", "strings"])
def test_the_shipped_mark_stays_near_the_curve(sample: str, request: pytest.FixtureRequest) -> None:
    host = request.getfixturevalue(sample)[: 6 * RATE]
    mark = masking(host, ideaw.load().embed(host, RATE, "ab12"))
    noise = np.random.default_rng(0).standard_normal(len(host))
    as_loud = masking(host, host + noise * np.sqrt(np.square(host).mean()) * 10 ** (-ideaw.load().card.snr / 20))
    assert mark.ratio < as_loud.ratio - 3
    # A little more than MP3 at the paper's rate leaves: the mark sits where the host is quiet.
    assert mark.ratio < masking(host, catalogue.run("mp3", host, RATE)).ratio + 6
