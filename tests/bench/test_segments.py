"""The segment benchmark on real audio: what it counts, and what it leaves out."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.bench.corpus import MIN_RMS
from ideaw.bench.tables import segments
from ideaw.errors import FileError


def test_segments_are_whole_loud_seconds_with_their_kind(data: Path, speech: NDArray[np.float32]) -> None:
    audio, kinds = segments.read_segments(data)
    assert audio.shape == (len(kinds), SEGMENT_SAMPLES)
    assert set(kinds) == {"music", "talk"}
    loud = [second for second in speech.reshape(-1, SEGMENT_SAMPLES) if np.sqrt((second**2).mean()) > MIN_RMS]
    talk = audio[kinds == "talk"]
    assert np.abs(talk - np.stack(loud)).max() < 1e-4  # FLAC holds 16 bits
    assert (kinds == "music").sum() == 6  # the quiet copy is left out


@pytest.mark.slow
def test_the_table_holds_every_attack_and_the_promised_snr(data: Path) -> None:
    table = segments.run(data, limit=6)
    assert [row.label for row in table.rows] == ["clean", "GN", "LF", "CP", "QZ", "RD", "RS", "AM", "TS"]
    assert table.segments == 6
    assert table.lowest_snr >= table.snr
    by_label = {row.label: row for row in table.rows}
    # 336 bits: what the README claims of hundreds of segments, less a handful of bits.
    assert min(row.accuracy for row in table.rows if row.label != "TS") > 98
    assert by_label["TS"].accuracy > 90  # where a code fails, it fails in many bits
    assert by_label["TS"].paper == 98.66
    assert set(by_label["TS"].by_kind) == {"music", "talk"}
    assert table.others == []


@pytest.mark.slow
def test_other_attacks_come_after_those_of_the_paper(data: Path) -> None:
    shares: list[float] = []
    table = segments.run(data, "10+10", limit=2, progress=shares.append, others=True)
    assert (table.model, table.snr) == ("10+10", 43)
    assert len(table.rows) == len(segments.PAPER_TRIALS)
    assert [row.label for row in table.others] == [trial.label for trial in segments.OTHER_TRIALS]
    by_label = {row.label: row for row in table.others}
    assert by_label["polarity"].accuracy == 100
    assert by_label["polarity"].paper is None
    assert table.rows[0].paper == 99.64
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] <= 1


@pytest.mark.slow
def test_a_stronger_mark_is_read_better(data: Path) -> None:
    weak, strong = (segments.run(data, snr=snr, limit=4).rows for snr in (60.0, 30.0))
    assert weak[0].accuracy < 90 < strong[0].accuracy


def test_a_folder_without_audio_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no audio file"):
        segments.run(tmp_path)
    with pytest.raises(FileError, match="not a folder"):
        segments.run(tmp_path / "missing")
