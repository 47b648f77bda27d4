"""The benchmark of quality: what is measured is what was asked for, by the kind of the files."""

from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from ideaw.bench.tables import quality
from ideaw.errors import FileError

PAUSED = slice(48_000, 96_000)
"""Three seconds of the speech, with onsets after pauses: most of the time goes into ViSQOL, a second for six."""


@pytest.fixture
def loud(tmp_path: Path, speech: NDArray[np.float32], music: NDArray[np.float32]) -> Path:
    """Three seconds of either kind."""
    (tmp_path / "audio" / "talk").mkdir(parents=True)
    sf.write(tmp_path / "audio" / "talk" / "reading.flac", speech[PAUSED], 16_000)
    sf.write(tmp_path / "audio" / "music-strings.wav", music[: 3 * 44_100], 44_100)
    return tmp_path / "audio"


@pytest.mark.slow
def test_marks_are_measured_by_kind(loud: Path) -> None:
    shares: list[float] = []
    table = quality.run(loud, snr=30, progress=shares.append)
    assert (table.model, table.snr, table.audibility) == ("46+10", 30, None)
    assert list(table.by_kind) == list(table.mp3) == list(table.mp3_128) == ["music", "talk"]
    for values in table.by_kind.values():
        assert values["files"] == 1
        assert not any(name.endswith(quality.MARGIN) for name in values)
        assert values["lowest SNR"] >= 30
        assert 30 <= values["SNR"] < 35
        assert 1 < values["lowest PESQ"] <= values["PESQ"] <= 4.65
        assert 0.9 < values["STOI"] <= 1
        assert 1 < values["ViSQOL"] <= 5
        assert 0 < values["masked"] < 100
        assert 1 < values["lowest ViSQOL"] <= values["ViSQOL"]
        assert -20 < values["noise to mask"] < 30
        assert values["lowest noise to mask"] == values["noise to mask"] == values["highest noise to mask"]
        assert values["silence changed"] in (0, 1)
    for values in table.mp3.values():
        assert 10 < values["SNR"] < 30
        assert 50 < values["masked"] < 100
    for kind, values in table.mp3_128.items():
        assert values["noise to mask"] < table.mp3[kind]["noise to mask"]
    for side in (table.by_kind, table.mp3, table.mp3_128):
        assert side["music"]["onsets"] == 0
        assert "before onsets" not in side["music"]
        assert side["talk"]["onsets"] > 0
        assert -120 < side["talk"]["before onsets"] < -30
    assert shares == [0.5, 1.0]


@pytest.mark.slow
def test_the_worst_of_all_files_stands_beside_the_mean(loud: Path, speech: NDArray[np.float32]) -> None:
    paused = speech[PAUSED].copy()
    paused[:8_000] = 0
    sf.write(loud / "talk" / "paused.wav", paused, 16_000)
    table = quality.run(loud / "talk", audibility=-2.0)
    assert (table.snr, table.audibility) == (None, -2.0)
    for side in (table.by_kind, table.mp3, table.mp3_128):
        (values,) = side.values()
        assert values["files"] == 2
        assert values["lowest noise to mask"] < values["noise to mask"] < values["highest noise to mask"]
        assert values["lowest ViSQOL"] <= values["ViSQOL"]
        assert values["lowest PESQ"] <= values["PESQ"]
    assert table.mp3["talk"]["silence changed"] == 1  # codecs spread into it


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
