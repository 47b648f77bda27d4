"""What lies before onsets: they are told from other rises, and levels and places are those that were put there."""

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.quality.onsets import onsets

ONSET_SECONDS = 0.5
"""Where the bursts of these tests begin."""


def burst(rate: int, floor: float = 0.0, level: float = 0.1) -> NDArray[np.float64]:
    """A second: a tone of this amplitude at the floor, and one at the level from ONSET_SECONDS on."""
    samples = np.sin(2 * np.pi * 1_000 * np.arange(rate) / rate) * np.sqrt(2)
    return np.where(np.arange(rate) < ONSET_SECONDS * rate, floor, level) * samples


def clicks(rate: int, seconds: float, level: float, length: float = 0.005) -> NDArray[np.float64]:
    """A second of nothing but a square wave at a level, from a moment on."""
    noise = np.zeros(rate)
    part = slice(round(seconds * rate), round((seconds + length) * rate))
    noise[part] = level * (-1.0) ** np.arange(part.stop - part.start)
    return noise


def dbfs(level: float) -> float:
    return float(10 ** (level / 20))


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000])
def test_the_level_before_an_onset_and_its_place_are_told(rate: int) -> None:
    host = burst(rate)
    told = onsets(host, host + clicks(rate, 0.487, dbfs(-62)), rate)
    assert told.count == 1
    assert told.level == pytest.approx(-62, abs=0.1)  # windows begin at whole milliseconds, not samples
    assert told.seconds == pytest.approx(0.4895, abs=0.001)
    assert told.silence_changed


def test_what_is_shorter_than_a_window_is_averaged_over_it() -> None:
    host = burst(SAMPLE_RATE)
    told = onsets(host, host + clicks(SAMPLE_RATE, 0.49, dbfs(-40), 0.0005), SAMPLE_RATE)
    assert told.level == pytest.approx(-50)


def test_only_what_lies_just_before_an_onset_counts() -> None:
    host = burst(SAMPLE_RATE)
    far, under = (clicks(SAMPLE_RATE, seconds, dbfs(-30)) for seconds in (0.47, 0.501))
    told = onsets(host, host + far + under, SAMPLE_RATE)
    assert (told.count, told.level) == (1, -np.inf)


def test_the_loudest_of_several_onsets_is_told() -> None:
    host = np.tile(burst(SAMPLE_RATE), 3)
    quiet, loud = (clicks(SAMPLE_RATE, 0.49, dbfs(level)) for level in (-70, -55))
    told = onsets(host, host + np.concatenate([quiet, loud, quiet]), SAMPLE_RATE)
    assert told.count == 3
    assert told.level == pytest.approx(-55)
    assert told.seconds == pytest.approx(1.4925, abs=0.001)


@pytest.mark.parametrize(
    ("floor", "level", "count"),
    [
        (-np.inf, -20, 1),
        (-93, -20, 1),
        (-62, -20, 1),
        (-62, -35, 0),  # a rise of less than 30 dB
        (-58, -20, 0),  # not near-silent
        (-93, -42, 0),  # what follows is too faint
    ],
)
def test_an_onset_is_a_rise_out_of_near_silence(floor: float, level: float, count: int) -> None:
    host = burst(SAMPLE_RATE, dbfs(floor), dbfs(level))
    assert onsets(host, host, SAMPLE_RATE).count == count


def test_a_pause_of_less_than_30_ms_is_none() -> None:
    for seconds, count in ((0.028, 0), (0.032, 1)):
        host = burst(SAMPLE_RATE, 0.1)
        host[round((ONSET_SECONDS - seconds) * SAMPLE_RATE) : SAMPLE_RATE // 2] = 0
        assert onsets(host, host, SAMPLE_RATE).count == count


def test_a_slow_rise_is_no_onset() -> None:
    host = burst(SAMPLE_RATE, 0.1) * 10 ** (np.linspace(-100, 0, SAMPLE_RATE) / 20)
    assert onsets(host, host, SAMPLE_RATE).count == 0


def test_a_sound_at_once_has_nothing_before_it() -> None:
    host = burst(SAMPLE_RATE)[SAMPLE_RATE // 2 :]
    told = onsets(host, 0.9 * host, SAMPLE_RATE)
    assert told.count == 0
    assert np.isnan(told.level)
    assert np.isnan(told.seconds)


@pytest.mark.parametrize("length", [0, 1, 16, 100, 480, 900])
def test_audio_of_any_length_is_measured(length: int) -> None:
    assert onsets(np.zeros(length), np.ones(length), SAMPLE_RATE).count == 0


def test_an_onset_near_the_end_counts() -> None:
    host = burst(SAMPLE_RATE)[: SAMPLE_RATE // 2 + 100]
    assert onsets(host, host, SAMPLE_RATE).count == 1


def test_a_channel_that_plays_on_leaves_no_silence_before_the_onset_of_another() -> None:
    host = burst(SAMPLE_RATE)
    both, one = np.stack([host, host], 1), np.stack([host, burst(SAMPLE_RATE, 0.1)], 1)
    assert onsets(both, both, SAMPLE_RATE).count == 1
    assert onsets(one, one, SAMPLE_RATE).count == 0


def test_the_loudest_channel_of_a_difference_is_told() -> None:
    host = np.stack([burst(SAMPLE_RATE)] * 2, 1)
    marked = host.copy()
    marked[:, 1] += clicks(SAMPLE_RATE, 0.49, dbfs(-60))
    assert onsets(host, marked, SAMPLE_RATE).level == pytest.approx(-60)


def test_digital_silence_is_a_millisecond_of_zeros() -> None:
    host = np.full(SAMPLE_RATE, 0.1)
    host[100:115], host[1000:1016] = 0, 0
    for place, changed in ((107, False), (1015, True), (500, False)):
        copy = host.copy()
        copy[place] += 1e-9
        assert onsets(host, copy, SAMPLE_RATE).silence_changed == changed


def test_digital_silence_of_one_channel_is_told() -> None:
    host = np.stack([np.full(SAMPLE_RATE, 0.1), np.zeros(SAMPLE_RATE)], 1)
    assert not onsets(host, host * 0.9, SAMPLE_RATE).silence_changed
    assert onsets(host, host + 1e-6, SAMPLE_RATE).silence_changed


def test_real_speech_has_onsets_and_a_fainter_mark_less_before_them(speech: NDArray[np.float32]) -> None:
    strong, faint = (ideaw.load().embed(speech, SAMPLE_RATE, "ab12", snr=snr) for snr in (30, 50))
    loud, quiet = (onsets(speech, marked, SAMPLE_RATE) for marked in (strong, faint))
    assert loud.count == quiet.count > 0
    assert loud.level == pytest.approx(quiet.level + 20, abs=1)
    assert loud.seconds == quiet.seconds
