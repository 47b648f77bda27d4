"""`capacity`: what it promises fits, and no more; a file of any format, or one line about what is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from tests.cli.conftest import run


@pytest.mark.slow
@pytest.mark.parametrize("model", ["46+10", "22+10"])
def test_what_fits_can_be_written_and_a_byte_more_cannot(tmp_path: Path, spoken: Path, model: str) -> None:
    ran = run("capacity", spoken, "--json", "--quick", "--model", model)
    assert (ran.code, ran.err) == (0, "")
    told = json.loads(ran.out)
    assert (told["file"], told["seconds"]) == (str(spoken), 6)
    assert told["bytes"] >= told["bytes_in_every_second"] > 0
    for size, code in ((told["bytes"], 0), (told["bytes"] + 1, 2)):
        ran = run("embed", spoken, tmp_path / "out.wav", "-m", "x" * size, "--model", model, "--no-verify")
        assert ran.code == code


def test_it_is_said_in_one_line(spoken: Path) -> None:
    ran = run("capacity", spoken, "--quick")
    marker = ideaw.load()
    assert ran.out == f"{spoken}: 6.0 s hold up to {marker.capacity(6)} bytes, or 4 in every single second\n"
    ran = run("capacity", spoken, "--model", "10+10")
    assert (ran.code, ran.out) == (0, f"{spoken}: 6.0 s hold no text with model 10+10\n")


@pytest.mark.slow
def test_what_survives_is_told_in_a_table_and_as_json(spoken: Path) -> None:
    lines = run("capacity", spoken).out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines[-3:]] == ["untouched", "MP3 128 kbit/s", "MP3 64 kbit/s"]
    told = json.loads(run("capacity", spoken, "--json").out)
    assert [row["copy"] for row in told["survives"]] == ["untouched", "MP3 128 kbit/s", "MP3 64 kbit/s"]
    assert told["measured_seconds"] == 6
    for row, line in zip(told["survives"], lines[-3:], strict=True):
        assert f"{row['bytes']} bytes" in line
        assert f"{row['seconds_for_these']} s" in line
        assert 0 < row["bytes"] <= told["bytes"]


def test_a_silent_file_gets_one_line_about_it(tmp_path: Path) -> None:
    sf.write(tmp_path / "a.wav", np.zeros(32_000), 16_000)
    ran = run("capacity", tmp_path / "a.wav")
    assert (ran.code, ran.out.count("\n")) == (0, 2)
    assert "nothing survives: the audio is silent" in ran.out
    told = json.loads(run("capacity", tmp_path / "a.wav", "--json").out)
    assert (told["survives"], "silent" in told["problem"]) == ([], True)


def test_a_file_that_does_not_know_its_length_is_gone_through(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "a.flac", speech, 16_000)
    data = bytearray((tmp_path / "a.flac").read_bytes())
    length = int.from_bytes(data[18:26], "big")
    data[18:26] = (length >> 36 << 36).to_bytes(8, "big")  # as an encoder that writes to a pipe leaves it
    (tmp_path / "a.flac").write_bytes(data)
    assert json.loads(run("capacity", tmp_path / "a.flac", "--json", "--quick").out)["seconds"] == 6


def test_a_file_that_is_too_short_holds_nothing(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "a.wav", speech[:15_999], 16_000)
    told = json.loads(run("capacity", tmp_path / "a.wav", "--json").out)
    assert (told["bytes"], told["bytes_in_every_second"]) == (0, 0)


def test_what_is_no_audio_gets_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("not audio")
    for path in (tmp_path / "a.wav", tmp_path / "none.wav", tmp_path):
        ran = run("capacity", path)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert str(path) in ran.err
