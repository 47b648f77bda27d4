"""The benchmark of false alarms: everything is searched twice, packs too, and nothing is found."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.bench.tables import unmarked
from ideaw.errors import FileError


@pytest.fixture
def clip(tmp_path: Path, speech: NDArray[np.float32]) -> Path:
    path = tmp_path / "loose.wav"
    sf.write(path, speech[: 2 * 16_000], 16_000)
    return path


@pytest.mark.slow
def test_files_and_packs_are_searched_as_they_are_and_attacked(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmarked, "UNMARKED_ATTACKS", ("noise",))  # keeps the length
    with tarfile.open(clip.with_name("pack.tar"), "w") as pack:
        pack.add(clip, "talk/packed.wav")
    table = unmarked.run(clip.parent)
    assert (table.clips, table.searches, table.keys) == (2, 4, 8)
    assert table.hours == pytest.approx(8 / 3600)
    assert (table.found, table.messages, table.checked_to) == (0, [], None)
    assert 0.3 < table.highest < 0.7
    assert [level.p_value for level in table.levels] == pytest.approx([0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6])
    assert len(table.smallest) == 4
    assert table.smallest == sorted(table.smallest)


def test_a_mark_would_be_told(clip: Path, speech: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmarked, "UNMARKED_ATTACKS", ("polarity",))
    sf.write(clip, ideaw.load().embed(speech[: 2 * 16_000], 16_000, "ab12"), 16_000)
    table = unmarked.run(clip.parent)
    assert table.found == 2
    assert '"ab12"' in table.messages[0]
    assert table.levels[-1].share == 1


def test_it_stops_after_the_hours_that_are_asked_for(clip: Path) -> None:
    (clip.with_name("more.wav")).write_bytes(clip.read_bytes())
    shares: list[float] = []
    assert unmarked.run(clip.parent, hours=1 / 3600, progress=shares.append).clips == 1
    assert shares == [1.0]


def test_a_folder_without_audio_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="two seconds or more"):
        unmarked.run(tmp_path)
