"""What is said to survive in a recording does; less survives where less is left."""

from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.audio.formats import Encoding
from ideaw.engine.decode import decode_repeated
from ideaw.engine.long_messages import decode_long
from ideaw.engine.plan import plan_message
from ideaw.errors import AudioError
from ideaw.keys import PUBLIC
from ideaw.payload.message import Message
from ideaw.survival import copies, effective_energy, long_energy, measure_survival, read_bytes, short_energy


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


def read_in_noise(marker: ideaw.Marker, size: int, seconds: int, energy: float, trials: int) -> int:
    """How many of so many messages are read at an energy over the variance of white noise."""
    channels, rng, read = marker.network.channels(PUBLIC), np.random.default_rng(size), 0
    for _ in range(trials):
        message = Message(rng.bytes(size))
        symbols = plan_message(message, channels, marker.message_bits).symbols
        symbols = symbols[np.arange(seconds) % len(symbols)]
        rows = symbols * (energy / symbols.size) ** 0.5 + rng.standard_normal(symbols.shape)
        assert channels.long is not None
        long = decode_long(rows, channels.long, marker.message_bits) if size > 4 else decode_repeated(rows, channels)
        read += long is not None and long.message == message
    return read


@pytest.mark.parametrize(
    ("size", "seconds"),
    [(4, 3), pytest.param(5, 6, marks=pytest.mark.slow), pytest.param(20, 6, marks=pytest.mark.slow)],
)
def test_the_energy_that_is_needed_reads_nineteen_of_twenty_in_white_noise(
    marker: ideaw.Marker, size: int, seconds: int
) -> None:
    needed = short_energy(46) if size == 4 else long_energy(size, seconds)
    assert read_in_noise(marker, size, seconds, needed, 24) >= 20  # fewer in 1 of 200 runs at 95 %
    assert read_in_noise(marker, size, seconds, needed * 0.6, 24) <= 20


def test_the_effective_energy_of_gaussian_values_is_theirs() -> None:
    values = 0.3 + np.random.default_rng(0).standard_normal(20_000).astype(np.float32)
    assert effective_energy(values) == pytest.approx(0.09 * 20_000, rel=0.1)
    assert effective_energy(7 * values) == pytest.approx(effective_energy(values))
    assert effective_energy(-values) == 0
    assert effective_energy(values[:0]) == 0


def test_more_energy_reads_more_and_never_more_than_fits() -> None:
    told = [read_bytes(energy, 10, 43, 46) for energy in (0, 100, 120, 350, 700, 1e9)]
    assert told == sorted(told)
    assert (told[0], told[2], told[-1]) == (0, 4, 43)
    assert 4 < told[4] < 43


@pytest.mark.slow
def test_a_text_of_the_length_that_is_said_is_read(
    tmp_path: Path, marker: ideaw.Marker, music: NDArray[np.float32]
) -> None:
    path = tmp_path / "music.wav"
    sf.write(path, music, 44_100)
    told = {
        survival.copy: survival for survival in measure_survival(marker.network, path, len(music), (128, 64)).copies
    }
    assert list(told) == ["untouched", "MP3 128 kbit/s", "MP3 64 kbit/s"]
    assert told["untouched"].bytes >= told["MP3 128 kbit/s"].bytes >= told["MP3 64 kbit/s"].bytes > 0
    for name, survival in told.items():
        text = "x" * max(1, round(0.8 * survival.bytes))
        marked = marker.embed(music, 44_100, text)
        for copy, (samples, rate) in copies((marked, 44_100), tmp_path / "own.wav", Encoding("WAV", "PCM_16")):
            if copy == name:
                assert marker.detect(samples, rate, speeds="none").message == text


@pytest.mark.slow
def test_a_lower_bitrate_leaves_less(tmp_path: Path, marker: ideaw.Marker, music: NDArray[np.float32]) -> None:
    path = tmp_path / "music.wav"
    sf.write(path, music[: 4 * 44_100], 44_100)
    found = measure_survival(marker.network, path, 4 * 44_100, (128, 32)).copies
    assert found[1].bytes > found[2].bytes


def test_noise_hides_its_own_mark(tmp_path: Path, marker: ideaw.Marker) -> None:
    path = tmp_path / "noise.wav"
    sf.write(path, 0.1 * np.random.default_rng(0).standard_normal(32_000), 16_000)
    for survival in measure_survival(marker.network, path, 32_000, ()).copies:
        assert (survival.bytes, survival.short_seconds) == (0, None)


def test_silence_cannot_be_marked(tmp_path: Path, marker: ideaw.Marker) -> None:
    path = tmp_path / "silence.wav"
    sf.write(path, np.zeros(32_000), 16_000)
    with pytest.raises(AudioError, match="silent"):
        measure_survival(marker.network, path, 32_000)


@pytest.mark.slow
def test_of_a_long_recording_four_stretches_are_measured(
    tmp_path: Path, marker: ideaw.Marker, speech: NDArray[np.float32]
) -> None:
    path = tmp_path / "long.wav"
    sf.write(path, np.tile(speech, 10), 16_000)
    found = measure_survival(marker.network, path, 10 * len(speech), ())
    assert found.measured_seconds == 40
    assert found.copies[0].bytes > marker.capacity(40)  # the energy of a minute is told


@pytest.mark.slow
def test_a_silent_stretch_holds_nothing_and_the_others_are_measured(
    tmp_path: Path, marker: ideaw.Marker, speech: NDArray[np.float32]
) -> None:
    path, silence = tmp_path / "pause.wav", np.zeros(30 * 16_000)
    sf.write(path, np.concatenate([speech, speech, speech, silence]), 16_000)
    loud = tmp_path / "loud.wav"
    sf.write(loud, np.tile(speech, 8), 16_000)
    found, whole = (measure_survival(marker.network, place, 48 * 16_000, (24,)) for place in (path, loud))
    assert found.measured_seconds == whole.measured_seconds == 40
    assert 0 < found.copies[1].bytes < whole.copies[1].bytes
