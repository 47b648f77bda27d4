"""Speeds by log-magnitudes: they show a mark at the speed that it was played at, to its key alone, and nothing else."""

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.attacks import catalogue
from ideaw.audio.grid import FRAMES_PER_SECOND, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.engine.response import code_template, log_magnitudes
from ideaw.engine.speed_scan import accident_p, line_spectrum, scan_speeds
from ideaw.hypotheses import SPEED_GRID, TEMPO_GRID
from ideaw.keys import Key

KEY, OTHER = Key(b"whoever marks it"), Key(b"somebody else...")


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(key=KEY)


@pytest.fixture(scope="module")
def marked(marker: ideaw.Marker, speech: NDArray[np.float32]) -> NDArray[np.float32]:
    return marker.embed(speech, SAMPLE_RATE, "hey", layers="fast")


def _template(marker: ideaw.Marker, key: Key) -> NDArray[np.float32]:
    response = marker.network.response
    assert response is not None
    return code_template(response, marker.network.channels(key).code_stream)


def _played(samples: NDArray[np.float32], speed: float) -> NDArray[np.float32]:
    return soxr.resample(samples, SAMPLE_RATE * speed, SAMPLE_RATE)


def test_a_mark_adds_the_template_of_its_key_to_magnitudes(
    marker: ideaw.Marker, marked: NDArray[np.float32], speech: NDArray[np.float32]
) -> None:
    seconds = len(speech) // SEGMENT_SAMPLES
    change = log_magnitudes(marked[: seconds * SEGMENT_SAMPLES]) - log_magnitudes(speech[: seconds * SEGMENT_SAMPLES])
    mean = change.reshape(seconds, FRAMES_PER_SECOND, -1).mean(0)[:, : marker.network.card.bins]
    own, others = (float(np.corrcoef(mean.ravel(), _template(marker, key).ravel())[0, 1]) for key in (KEY, OTHER))
    assert own > 0.2  # messages change magnitudes too, and more
    assert abs(others) < 0.1


@pytest.mark.parametrize("speed", [0.8, 0.93, 1.07, 1.25])
def test_a_mark_shows_at_its_speed_after_a_codec_and_to_its_key_alone(
    marker: ideaw.Marker, marked: NDArray[np.float32], speed: float
) -> None:
    played = catalogue.run("mp3", _played(marked, speed), SAMPLE_RATE, kbps=32)
    speeds = SPEED_GRID["all"]
    templates = [_template(marker, key) for key in (KEY, OTHER)]
    own, others = scan_speeds(line_spectrum(played[:, None]), templates, speeds).T
    assert speeds[own.argmax()] == pytest.approx(speed, rel=0.003)
    assert accident_p(own.max(), len(speeds)) < 1e-9
    assert accident_p(others.max(), len(speeds)) > 1e-3


@pytest.mark.parametrize("tempo", [0.8, 0.93, 1.07, 1.25])
def test_a_mark_shows_at_its_tempo_and_less_at_any_speed(
    marker: ideaw.Marker, marked: NDArray[np.float32], tempo: float
) -> None:
    played = catalogue.run("tempo", marked, SAMPLE_RATE, factor=tempo)
    speeds, tempos = SPEED_GRID["all"], TEMPO_GRID["all"]
    (scores,) = scan_speeds(line_spectrum(played[:, None]), [_template(marker, KEY)], speeds, tempos).T
    as_speed, as_tempo = scores[: len(speeds)], scores[len(speeds) :]
    assert tempos[as_tempo.argmax()] == pytest.approx(tempo, rel=0.006)
    assert as_tempo.max() > 1.2 * as_speed.max()
    assert accident_p(as_tempo.max(), len(scores)) < 1e-9


def test_channels_add_up(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    noise = 0.5 * marked.std() * np.random.default_rng(0).standard_normal((len(marked), 2)).astype(np.float32)
    both = _played(marked[:, None] * [1, -1] + noise, 1.1).astype(np.float32)
    speeds = (*SPEED_GRID["all"][::8], 1.1)
    alone, together = (
        scan_speeds(line_spectrum(audio), [_template(marker, KEY)], speeds)[-1, 0] for audio in (both[:, :1], both)
    )
    assert together > 1.1 * alone


def test_of_audio_without_a_mark_few_keys_seem_to_be_there(marker: ideaw.Marker, strings: NDArray[np.float32]) -> None:
    rng = np.random.default_rng(0)
    templates = [_template(marker, Key(rng.bytes(16))) for _ in range(64)]
    speeds = SPEED_GRID["all"][::4]
    best = scan_speeds(line_spectrum(strings[:, None]), templates, speeds).max(0)
    p_values = np.array([accident_p(score, len(speeds)) for score in best])
    assert (p_values < 0.05).sum() <= 8
    assert p_values.min() > 1e-4


def test_silence_scores_nothing(marker: ideaw.Marker) -> None:
    silence = np.zeros((3 * SAMPLE_RATE, 2), np.float32)
    assert not scan_speeds(line_spectrum(silence), [_template(marker, KEY)], [0.9, 1.1]).any()
    assert accident_p(0.0, 1) == 1
