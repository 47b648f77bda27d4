"""The benchmark of quiet audio: the same bits at every level."""

from pathlib import Path

import pytest

from ideaw.bench.tables import levels
from ideaw.errors import FileError


@pytest.mark.slow
def test_a_mark_is_read_as_well_in_quiet_audio(data: Path) -> None:
    shares: list[float] = []
    table = levels.run(data, "22+10", limit=2, progress=shares.append)
    assert (table.model, table.segments, table.snr) == ("22+10", 2, 41)
    assert list(table.accuracy) == ["clean", "GN", "LF", "CP", "QZ", "RD", "RS", "AM", "TS"]
    assert all(len(row) == len(table.levels) for row in table.accuracy.values())
    assert table.accuracy["clean"] == [100.0] * len(table.levels)
    assert table.accuracy["QZ"][0] < 80 < table.accuracy["QZ"][-1]  # its steps are of a fixed size
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


def test_a_folder_without_audio_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no audio file"):
        levels.run(tmp_path)
