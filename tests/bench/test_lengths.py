"""The benchmark of lengths: pieces of every length are marked alone, and what is not found counts."""

from pathlib import Path

import pytest

import ideaw
from ideaw.bench.statistics import wilson_interval
from ideaw.bench.tables import lengths
from ideaw.errors import FileError
from ideaw.quality.plots import PLOT_EXTENSIONS


@pytest.mark.slow
def test_every_length_and_edit_is_counted(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("clean", "CP", "speed 105 %")
    monkeypatch.setattr(lengths, "EVERYDAY_EDITS", {label: lengths.EVERYDAY_EDITS[label] for label in few})
    monkeypatch.setattr(lengths, "PIECE_SECONDS", (0.5, 3.0))
    shares: list[float] = []
    table = lengths.run(data / "talk", progress=shares.append)
    assert (table.model, table.snr, table.audibility) == ("46+10", None, ideaw.load().card.audibility)
    cells = {(cell.edit, cell.seconds): cell for cell in table.cells}
    assert list(cells) == [(lengths.EVERYDAY_EDITS[label], seconds) for label in few for seconds in (0.5, 3.0)]
    assert {(cell.pieces, cell.wrong, cell.refused) for cell in table.cells} == {(1, 0, 0)}
    assert [cells["as it is", seconds].right for seconds in (0.5, 3.0)] == [1, 1]
    assert cells["as it is", 3.0].right_interval == wilson_interval(1, 1)
    too_short = cells["5 % faster", 0.5]
    assert (too_short.found, too_short.right) == (0, 0)
    assert shares == [1.0]
    pictures = {lengths.draw(table, suffix) for suffix in PLOT_EXTENSIONS}
    assert len(pictures) == len(PLOT_EXTENSIONS)


def test_what_is_refused_is_neither_found_nor_read(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "PIECE_SECONDS", (0.3,))  # shorter than any mark
    table = lengths.run(data / "talk")
    assert {(cell.pieces, cell.found, cell.right, cell.refused) for cell in table.cells} == {(1, 0, 0, 1)}


def test_a_folder_without_loud_audio_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        lengths.run(tmp_path)
