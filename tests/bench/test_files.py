"""The benchmark of whole clips: what is counted, and how clips are made."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.bench.statistics import wilson_interval
from ideaw.bench.tables import files
from ideaw.errors import FileError
from ideaw.results import Segment


@pytest.mark.slow
def test_every_edit_is_counted_and_a_clean_clip_is_right(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("clean", "CP", "left as mono", "left, right silent", "mono mix")
    monkeypatch.setattr(files, "EDITS", {label: files.EDITS[label] for label in few})
    monkeypatch.setattr(files, "LONG_TEXT_LETTERS", 6)
    shares: list[float] = []
    table = files.run(data / "talk", progress=shares.append, seconds=5)
    level = (None, ideaw.load().card.audibility)
    assert (table.model, table.snr, table.audibility, table.clips, table.seconds) == ("46+10", *level, 1, 5)
    by_label = {row.label: row for row in table.rows}
    twice = [f"marked twice, {which}" for which in ("first key", "second key", "both keys")]
    assert list(by_label) == [*few, "6 letters, clean", "6 letters, CP", *twice]
    assert {(row.clips, row.wrong) for row in table.rows} == {(1, 0)}
    assert {row.right for row in table.rows if "letters" not in row.label} == {1}  # speech has pauses
    assert by_label["clean"].right_interval == wilson_interval(1, 1)
    assert [place.seconds for place in table.places] == [1, 3]
    assert all(place.overlap > 0.5 for place in table.places)
    assert shares == [1.0]


def test_clips_are_stereo_of_the_length_that_is_asked_for(data: Path, music: NDArray[np.float32]) -> None:
    of_mono = files.read_clip(data / "talk" / "reading.flac", 7.0)
    assert of_mono.shape == (7 * files.CLIP_RATE, 2)
    assert np.abs(of_mono[:, 0] - of_mono[:, 1]).max() > 0.01
    of_stereo = files.read_clip(data / "music-strings.wav", 2.0)
    assert np.abs(of_stereo - music[: 2 * files.CLIP_RATE]).max() < 1e-4  # WAV holds 16 bits


def test_quiet_files_are_left_out(data: Path) -> None:
    for path in (data / "talk" / "reading.flac", data / "music-strings.wav"):
        path.unlink()
    with pytest.raises(FileError, match="above −40 dBFS"):
        files.run(data)


def test_overlap_is_intersection_over_union() -> None:
    halves = [Segment(2, 3, 9.0, True), Segment(2.5, 5, 9.0, True)]
    assert files.overlap(halves, 2, 5, 10) == 1
    assert files.overlap(halves, 4, 6, 10) == pytest.approx(1 / 4, abs=2e-3)
    assert files.overlap([], 4, 6, 10) == 0


def test_intervals_are_those_of_wilson() -> None:
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)  # Agresti and Coull, 1998
    assert wilson_interval(0, 100) == pytest.approx((0, 0.0370), abs=1e-4)
    assert wilson_interval(5, 5)[1] == 1
