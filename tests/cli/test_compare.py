"""`compare`: the numbers are the ones that were put in, and what cannot be compared is said."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from ideaw.quality.comparison import TIME_POINTS
from tests.cli.conftest import run


@pytest.fixture
def noisy(tmp_path: Path, spoken: Path, speech: NDArray[np.float32]) -> Path:
    """The speech with noise 30 dB below it."""
    noise = np.random.default_rng(1).standard_normal(len(speech))
    noise *= np.sqrt((speech**2).sum() / (noise**2).sum()) * 10 ** (-30 / 20)
    sf.write(tmp_path / "noisy.wav", speech + noise, 16_000, subtype="FLOAT")
    return tmp_path / "noisy.wav"


def test_measures_of_a_known_difference(spoken: Path, noisy: Path, speech: NDArray[np.float32]) -> None:
    level = 10 * np.log10(np.square(speech).mean()) - 30
    ran = run("compare", spoken, noisy, "--json")
    assert (ran.code, ran.err) == (0, "")
    told = json.loads(ran.out)
    assert told["snr"] == pytest.approx(30, abs=0.01)
    assert told["lowest_snr"] < 29.5  # speech pauses, noise does not
    assert 1.5 < told["pesq"] < 4.3
    assert 0.9 < told["stoi"] < 0.9999
    assert 0.2 < told["masked"] < 0.9
    assert told["equal"] is False
    assert told["noise_to_mask"] > 0
    assert told["most_audible_noise_to_mask"] > told["noise_to_mask"] + 3
    assert 0 < told["most_audible_seconds"] < 6
    assert told["onsets"] > 0
    assert told["before_onsets_dbfs"] == pytest.approx(level, abs=1.5)  # the noise is as loud everywhere
    assert 0 < told["before_onsets_seconds"] < 6
    table = run("compare", spoken, noisy).out
    assert "30.00 dB" in table
    assert f"{told['pesq']:.2f}" in table
    assert f"{told['stoi']:.4f}" in table
    assert f"{100 * told['masked']:.1f} %" in table
    assert f"{told['noise_to_mask']:+.1f} dB" in table
    assert f"{told['most_audible_noise_to_mask']:+.1f} dB at {told['most_audible_seconds']:.2f} s" in table
    assert f"{told['before_onsets_dbfs']:.1f} dBFS at {told['before_onsets_seconds']:.2f} s" in table


def test_the_place_of_the_most_audible_difference_is_told(
    tmp_path: Path, spoken: Path, speech: NDArray[np.float32]
) -> None:
    changed = speech.copy()
    changed[32_000:32_400] += 0.05 * np.random.default_rng(1).standard_normal(400).astype(np.float32)
    sf.write(tmp_path / "changed.wav", changed, 16_000, subtype="FLOAT")
    told = json.loads(run("compare", spoken, tmp_path / "changed.wav", "--json").out)
    assert told["most_audible_seconds"] == pytest.approx(2, abs=0.04)
    over_time = told["noise_to_mask_over_time"]
    assert len(over_time) == TIME_POINTS
    assert 6 * over_time.index(max(over_time)) / TIME_POINTS == pytest.approx(2, abs=0.06)
    assert max(over_time) == pytest.approx(told["most_audible_noise_to_mask"], abs=0.05)


def test_what_lies_before_an_onset_and_in_digital_silence_is_told(
    tmp_path: Path, speech: NDArray[np.float32], music: NDArray[np.float32]
) -> None:
    host = np.concatenate([np.zeros((44_100, 2), np.float32), music[44_100:]])
    copy = host.copy()
    copy[43_660:44_100, 1] = 0.001
    for name, samples in (("host", host), ("copy", copy), ("music", music)):
        sf.write(tmp_path / f"{name}.wav", samples, 44_100, subtype="FLOAT")
    ran = run("compare", tmp_path / "host.wav", tmp_path / "copy.wav", "--json")
    assert (ran.code, ran.err) == (0, "")
    told = json.loads(ran.out)
    assert (told["onsets"], told["digital_silence_changed"]) == (1, True)
    assert told["before_onsets_dbfs"] == pytest.approx(-60, abs=0.1)
    assert 0.99 < told["before_onsets_seconds"] < 1
    said = run("compare", tmp_path / "host.wav", tmp_path / "copy.wav").out
    assert "-60.0 dBFS at" in said
    assert "changed" in said
    told = json.loads(run("compare", tmp_path / "music.wav", tmp_path / "music.wav", "--json").out)
    assert (told["onsets"], told["before_onsets_dbfs"], told["digital_silence_changed"]) == (0, None, False)
    assert "no onset out of near-silence" in run("compare", tmp_path / "music.wav", tmp_path / "music.wav").out


def test_a_file_against_itself(spoken: Path) -> None:
    told = json.loads(run("compare", spoken, spoken, "--json").out)
    assert (told["snr"], told["masked"], told["equal"]) == (None, 1, True)
    assert told["pesq"] == pytest.approx(4.64, abs=0.01)
    assert all(told[name] is None for name in ("noise_to_mask", "most_audible_seconds", "before_onsets_dbfs"))
    assert told["digital_silence_changed"] is False
    assert "nothing differs" in run("compare", spoken, spoken).out


@pytest.mark.slow
def test_the_difference_is_drawn(tmp_path: Path, spoken: Path, noisy: Path) -> None:
    for suffix, opening in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".PDF", b"%PDF")):
        assert run("compare", spoken, noisy, "--plot", tmp_path / f"plot{suffix}").code == 0
        assert (tmp_path / f"plot{suffix}").read_bytes().startswith(opening)
    before = set(tmp_path.iterdir())
    for name, says in (("plot.xyz", '".xyz"'), ("none/plot.png", "does not exist"), ("/proc/plot.png", "be written")):
        ran = run("compare", spoken, noisy, "--plot", tmp_path / name)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert says in ran.err
    assert set(tmp_path.iterdir()) == before


def test_what_is_not_alike_cannot_be_compared(tmp_path: Path, spoken: Path, speech: NDArray[np.float32]) -> None:
    others = {
        "16000 Hz": (speech, 8_000),
        "1 channels": (np.stack([speech, speech], 1), 16_000),
        "96000 samples": (speech[1:], 16_000),
    }
    for says, (samples, rate) in others.items():
        sf.write(tmp_path / "other.wav", samples, rate)
        ran = run("compare", spoken, tmp_path / "other.wav")
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert says in ran.err


def test_silence_has_no_perceived_quality_but_an_answer(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "a.wav", np.zeros(32_000), 16_000)
    sf.write(tmp_path / "b.wav", speech[:32_000], 16_000)
    ran = run("compare", tmp_path / "a.wav", tmp_path / "b.wav", "--json")
    assert (ran.code, ran.err) == (0, "")
    told = json.loads(ran.out)
    assert 0 < told.pop("masked") < 1  # what silence does not mask may still be too faint to be heard
    assert told.pop("noise_to_mask") > 20
    highest = told.pop("most_audible_noise_to_mask")
    assert highest > 20
    assert max(told.pop("noise_to_mask_over_time")) == pytest.approx(highest, abs=0.06)
    assert told.pop("most_audible_seconds") < 2
    none = dict.fromkeys(
        (
            "snr",
            "lowest_snr",
            "noise_snr",
            "modulation",
            "highest_modulation",
            "pesq",
            "stoi",
            "before_onsets_dbfs",
            "before_onsets_seconds",
        )
    )
    assert told == none | {"onsets": 0, "digital_silence_changed": True, "equal": False}


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path, spoken: Path, marked: Path) -> None:
    for folder, source in (("before", spoken), ("after", marked)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "take.wav").write_bytes(source.read_bytes())
    ran = run("compare", tmp_path / "before" / "take.wav", tmp_path / "after" / "take.wav")
    assert (ran.code, ran.err) == (0, "")
    head = ran.out.splitlines()[0]
    assert f"{tmp_path / 'after' / 'take.wav'} against {tmp_path / 'before' / 'take.wav'}" in head
    assert f"{marked.name} against {spoken.name}" in run("compare", spoken, marked).out
