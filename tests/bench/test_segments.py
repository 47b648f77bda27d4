"""The segment benchmark on real audio: what it counts, and what it leaves out."""

from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from ideaw.audio.grid import SEGMENT
from ideaw.bench import segments
from ideaw.errors import FileError


@pytest.fixture
def data(tmp_path: Path, speech: NDArray[np.float32], music: NDArray[np.float32]) -> Path:
    folder = tmp_path / "audio"
    (folder / "talk").mkdir(parents=True)
    sf.write(folder / "talk" / "reading.flac", speech, 16_000)
    sf.write(folder / "music-strings.wav", music, 44_100)
    sf.write(folder / "music-quiet.wav", music * 1e-3, 44_100, subtype="FLOAT")
    return folder


def test_segments_are_whole_loud_seconds_with_their_kind(data: Path, speech: NDArray[np.float32]) -> None:
    audio, kinds = segments.segments_under(data)
    assert audio.shape == (len(kinds), SEGMENT)
    assert set(kinds) == {"music", "talk"}
    loud = [second for second in speech.reshape(-1, SEGMENT) if np.sqrt((second**2).mean()) > segments.QUIETEST]
    talk = audio[kinds == "talk"]
    assert np.abs(talk - np.stack(loud)).max() < 1e-4  # FLAC holds 16 bits
    assert (kinds == "music").sum() == 6  # the quiet copy is left out


def test_the_table_holds_every_attack_and_the_promised_snr(data: Path) -> None:
    table = segments.run(data, limit=6)
    assert [row.label for row in table.rows] == ["clean", "GN", "LF", "CP", "QZ", "RD", "RS", "AM", "TS"]
    assert table.segments == 6
    assert table.lowest_snr >= table.snr
    by_label = {row.label: row for row in table.rows}
    # 336 bits: what the README claims of hundreds of segments, less a handful of bits.
    assert min(by_label[label].accuracy for label in ("clean", "GN", "CP", "RD", "RS", "AM")) > 98
    assert by_label["TS"].accuracy > 75
    assert by_label["TS"].paper == 98.66


def test_a_stronger_mark_is_read_better(data: Path) -> None:
    weak, strong = (segments.run(data, snr=snr, limit=4).rows for snr in (55.0, 30.0))
    assert weak[0].accuracy < 90 < strong[0].accuracy


def test_a_folder_without_audio_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no audio file"):
        segments.run(tmp_path)
    with pytest.raises(FileError, match="not a folder"):
        segments.run(tmp_path / "missing")
