"""The benchmark of quality: what is measured is what was asked for, by the kind of the files."""

from pathlib import Path

import pytest

from ideaw.bench.tables import quality
from ideaw.errors import FileError


@pytest.fixture
def loud(data: Path) -> Path:
    (data / "music-quiet.wav").unlink()  # too quiet to be marked
    return data


@pytest.mark.slow
def test_marks_are_measured_by_kind(loud: Path) -> None:
    shares: list[float] = []
    table = quality.run(loud, snr=30, progress=shares.append)
    assert (table.model, table.snr) == ("46+10", 30)
    assert list(table.by_kind) == list(table.mp3) == ["music", "talk"]
    for values in table.by_kind.values():
        assert values["files"] == 1
        assert values["lowest SNR"] >= 30
        assert 30 <= values["SNR"] < 35
        assert 1 < values["lowest PESQ"] <= values["PESQ"] <= 4.65
        assert 0.9 < values["STOI"] <= 1
        assert 1 < values["ViSQOL"] <= 5
        assert 0 < values["masked"] < 100
        assert -20 < values["noise to mask"] < 30
    for values in table.mp3.values():
        assert 10 < values["SNR"] < 30
        assert 50 < values["masked"] < 100
    assert shares == [0.5, 1.0]


@pytest.mark.slow
def test_a_fainter_mark_is_heard_less(loud: Path) -> None:
    strong, faint = (quality.run(loud, snr=snr, limit=1).by_kind["music"] for snr in (20, 45))
    for measure in ("SNR", "PESQ", "STOI", "ViSQOL", "masked"):
        assert faint[measure] > strong[measure]
    assert faint["noise to mask"] == pytest.approx(strong["noise to mask"] - 25, abs=1)


def test_a_folder_without_audio_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no audio files"):
        quality.run(tmp_path)
    with pytest.raises(FileError, match="not a folder"):
        quality.run(tmp_path / "missing")
