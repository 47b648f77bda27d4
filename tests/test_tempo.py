"""Audio whose tempo was changed but not its pitch: the mark is found, at its place, and the tempo is told."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.attacks import catalogue
from ideaw.audio.grid import HOP_SAMPLES, SAMPLE_RATE
from ideaw.audio.spectrum import level_spectrum
from tests.cli.conftest import run


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


@pytest.fixture(scope="module")
def marked(marker: ideaw.Marker, speech: NDArray[np.float32]) -> NDArray[np.float32]:
    return marker.embed(speech, SAMPLE_RATE, "hey")


@pytest.mark.parametrize("hop_samples", [200, 313])
def test_frames_at_another_hop_are_those_of_the_original_tempo(hop_samples: int) -> None:
    def beats(hop: int) -> NDArray[np.float64]:
        time = np.arange(256 * hop)
        return np.sin(time / 5) * (2 + np.sin(2 * np.pi * time / (32 * hop)))  # twice in 64 frames at any hop

    original = np.abs(level_spectrum(beats(HOP_SAMPLES).astype(np.float32)))
    stretched = np.abs(level_spectrum(beats(hop_samples).astype(np.float32), hop_samples))
    assert stretched.shape == original.shape
    inside = slice(8, -8)
    assert np.abs(stretched - original)[inside].max() < 0.1 * original.max()
    # At the usual hop there would be more or fewer frames to a beat.
    usual = np.abs(level_spectrum(beats(hop_samples)[: 200 * HOP_SAMPLES].astype(np.float32)))
    assert np.abs(usual - original[: len(usual)])[inside].max() > 0.3 * original.max()


@pytest.mark.slow
@pytest.mark.parametrize("tempo", [0.9, 1.2])
def test_a_mark_is_found_where_it_is_after_ffmpeg_changed_the_tempo(
    marker: ideaw.Marker, marked: NDArray[np.float32], strings: NDArray[np.float32], tmp_path: Path, tempo: float
) -> None:
    if shutil.which("ffmpeg") is None:
        pytest.skip("ffmpeg is not installed")
    beside = 0.3 * marked.std() / strings.std() * strings
    sf.write(tmp_path / "a.wav", np.concatenate([beside, marked, beside]), SAMPLE_RATE)
    command = ["ffmpeg", "-v", "error", "-i", tmp_path / "a.wav", "-af", f"atempo={tempo}", tmp_path / "b.wav"]
    subprocess.run(command, check=True)
    found = marker.detect_file(tmp_path / "b.wav")
    assert (found.message, found.speed) == ("hey", 1)
    assert found.tempo == pytest.approx(tempo, rel=0.005)
    (segment,) = found.segments
    begin, end = len(strings) / SAMPLE_RATE, (len(strings) + len(marked)) / SAMPLE_RATE
    assert segment.start == pytest.approx(begin / tempo, abs=0.25)
    assert segment.end == pytest.approx(end / tempo, abs=0.25)


@pytest.mark.slow
def test_the_command_tells_the_tempo(tmp_path: Path, marked: NDArray[np.float32]) -> None:
    path = tmp_path / "slower.wav"
    sf.write(path, catalogue.run("tempo", marked, SAMPLE_RATE, factor=0.85), SAMPLE_RATE)
    told = run("detect", path)
    assert told.code == 0
    assert float(told.out.split("played at ")[1].split(" times its tempo")[0]) == pytest.approx(0.85, rel=0.006)
    answer = json.loads(run("detect", path, "--json").out)
    assert (answer["message"], answer["speed"]) == ("hey", 1)
    assert answer["tempo"] == pytest.approx(0.85, rel=0.006)


@pytest.mark.slow
def test_one_message_after_another_stays_at_its_own_tempo(
    marker: ideaw.Marker, speech: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    spliced = np.concatenate([marker.embed(speech, SAMPLE_RATE, "one"), marker.embed(strings, SAMPLE_RATE, "two")])
    found = marker.detect(spliced, SAMPLE_RATE)
    assert (found.speed, found.tempo) == (1, 1)
    assert set(found.messages) == {"one", "two"}
