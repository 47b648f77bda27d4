"""`bench segments`: a table on the screen, and the same numbers in a file."""

import json
from pathlib import Path

import pytest

from ideaw.attacks.catalogue import ATTACKS, PAPER
from ideaw.bench.tables.segments import OTHER_TRIALS
from tests.cli.conftest import run


@pytest.mark.slow
def test_segments_are_measured_and_written(tmp_path: Path, spoken: Path) -> None:
    ran = run(
        "bench", "segments", "--data", spoken.parent, "--limit", "2", "--snr", "30", "--json", tmp_path / "a.json"
    )
    assert (ran.code, ran.err) == (0, "")
    told = json.loads((tmp_path / "a.json").read_text())
    assert (told["segments"], told["snr"]) == (2, 30)
    assert told["lowest_snr"] > 29.9
    assert [row["attack"] for row in told["rows"]] == ["clean", *PAPER]
    assert told["rows"][0]["accuracy"] > 90
    lines = ran.out.splitlines()
    for row in told["rows"]:
        (line,) = (line for line in lines if line.split()[0] == row["attack"])
        assert f"{row['accuracy']:.2f} %" in line
        assert row["attack"] == "clean" or ATTACKS[row["attack"]].label in line
    assert "2 segments" in lines[-1]


@pytest.mark.slow
def test_other_attacks_are_measured_where_asked_for(spoken: Path) -> None:
    ran = run("bench", "segments", "--data", spoken.parent, "--limit", "1", "--model", "10+10", "--others")
    assert (ran.code, ran.err) == (0, "")
    assert all(trial.label in ran.out for trial in OTHER_TRIALS)
    assert "model 10+10, 1 segments" in ran.out


@pytest.mark.slow
def test_levels_are_measured_written_and_drawn(tmp_path: Path, spoken: Path) -> None:
    written, drawn = tmp_path / "a.json", tmp_path / "a.png"
    ran = run("bench", "levels", "--data", spoken.parent, "--limit", "1", "--json", written, "--plot", drawn)
    assert (ran.code, ran.err) == (0, "")
    told = json.loads(written.read_text())
    assert all(f"{level:g} dBFS" in ran.out for level in told["levels"])
    assert len(told["accuracy"]) == 1 + len(PAPER)
    assert drawn.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_quality_is_measured_and_written(tmp_path: Path, spoken: Path) -> None:
    ran = run("bench", "quality", "--data", spoken.parent, "--snr", "30", "--json", tmp_path / "a.json")
    assert (ran.code, ran.err) == (0, "")
    (values,) = json.loads((tmp_path / "a.json").read_text())["by_kind"].values()
    assert values["lowest SNR"] >= 30
    lines = {line[:22].strip(): line for line in ran.out.splitlines()}
    for name in ("SNR", "PESQ", "STOI", "ViSQOL", "noise to mask", "highest noise to mask", "lowest ViSQOL"):
        assert f"{values[name]:.4g}" in lines[name]
    assert "MP3 64" in ran.out.splitlines()[0]
    assert "MP3 128" in ran.out.splitlines()[0]
    assert "30 dB SNR" in ran.out


def test_what_cannot_be_measured_is_one_line(tmp_path: Path, spoken: Path) -> None:
    for arguments, says in (
        (("--data", tmp_path / "none"), "not a folder"),
        (("--data", tmp_path), "holds no audio"),
        (("--data", spoken.parent, "--json", tmp_path / "none" / "a.json"), "does not exist"),
        (("--data", spoken.parent, "--model", "7+7"), 'no model "7+7"'),
    ):
        for preset in ("segments", "levels", "quality"):
            ran = run("bench", preset, *arguments)
            assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
            assert says in ran.err
    assert list(tmp_path.iterdir()) == []
