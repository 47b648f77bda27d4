"""The folder of results: a page that needs no other file, and tables and pictures beside it."""

import csv
import io
import re
from pathlib import Path

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from ideaw.bench.report import Section, Table, write
from ideaw.quality import plots


def test_a_page_holds_everything_and_the_rest_lies_beside_it(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sound = io.BytesIO()
    sf.write(sound, speech[:8000], 16_000, format="FLAC")
    picture = plots.spectrograms({"<speech>": (speech, 0.9 * speech)}, 16_000)
    table = Table(("model", "ACC"), [("a & b", 100 / 3), ("none", None)])
    page = write(
        tmp_path, "One < two", [Section("first", "A title", ["A note."], table, picture, {"host": sound.getvalue()})]
    )
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "first.csv", "first.png"}
    text = page.read_text()
    assert all(part in text for part in ("One &lt; two", "A note.", "a &amp; b", ">33.33<", ">–<"))
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert [source.split(",")[0] for source in sources] == ["data:image/png;base64", "data:audio/flac;base64"]
    with (tmp_path / "first.csv").open() as file:
        assert list(csv.reader(file)) == [["model", "ACC"], ["a & b", str(100 / 3)], ["none", ""]]
    assert (tmp_path / "first.png").read_bytes() == picture
