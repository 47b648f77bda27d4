"""The protocols on real audio with real codecs: what is counted, kept, gone on with and shown."""

import csv
import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from ideaw.bench import cache
from ideaw.bench.protocols import preset, report, runner
from ideaw.bench.protocols.scores import AttackRow, Table, ThreatRow
from ideaw.errors import FileError
from ideaw.marker import load
from tests.cli.conftest import run as command

pytestmark = pytest.mark.slow

HEAD = "title: Few & short\nabout: Little.\nrate: 16000\nseconds: 3\nchannels: 1\nrows:\n"
FEW = preset.parse(
    "few",
    HEAD
    + """
  - label: clean
  - {label: "MP3 {kbps} kbit/s", attack: mp3, kbps: {each: [64]}}
  - {label: nothing left, attack: noise, snr: -30}
  - {label: too short, attack: crop, keep: 0.1}
""",
)
THREATS = preset.parse(
    "threats",
    HEAD
    + """
  - {label: wrong key, threat: wrong_key, should: none}
  - {label: overwritten, threat: overwritten, should: right}
  - {label: averaged, threat: averaged, should: not wrong}
  - {label: copied, threat: copied, should: none}
  - {label: transplanted, threat: transplanted, should: none}
""",
)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "few"


@pytest.fixture(scope="module")
def few(out: Path) -> Table:
    return runner.run(FEW, snr=38, out=out, workers=1)


def test_marks_are_counted_attack_by_attack(few: Table) -> None:
    assert (few.preset, few.system, few.snr, few.clips, few.seconds) == ("few", "ideaw 46+10", 38, 2, 3)
    rows = {row.label: row for row in few.rows if isinstance(row, AttackRow)}
    assert list(rows) == ["clean", "MP3 64 kbit/s", "nothing left", "too short"]
    for label, value in (("clean", 1), ("MP3 64 kbit/s", 1), ("nothing left", 0), ("too short", 0)):
        row = rows[label]
        assert (row.clips, row.exact.value, row.wrong.value, row.alarms.value) == (2, value, 0, 0)
        assert (row.seen.value, row.failed) == (value, 0)
        assert row.bits.value == 0.5 + value / 2
        assert row.capacity.value == pytest.approx(value * 48 / 3)
        assert [each.share.value for each in row.found.values()] == [value] * 3
        assert {each.by for each in row.found.values()} == {"p-value"}
        assert row.exact.low <= row.exact.value <= row.exact.high


def test_the_mark_s_quality_is_measured(few: Table) -> None:
    assert list(few.quality) == ["SNR", "SI-SNR", "PESQ", "STOI", "ViSQOL"]
    assert few.quality["SNR"].value > 38
    assert few.quality["SI-SNR"].value == pytest.approx(few.quality["SNR"].value, abs=0.1)
    assert few.quality["PESQ"].value > 4
    assert few.quality["STOI"].value > 0.99


def test_the_folder_holds_the_numbers(few: Table, out: Path) -> None:
    assert json.loads((out / "metrics.json").read_text()) == json.loads(json.dumps(dataclasses.asdict(few)))
    rows = list(csv.DictReader((out / "report.csv").open()))
    assert [row["label"] for row in rows] == [row.label for row in few.rows]
    assert float(rows[0]["exact"]) == 1
    assert float(rows[0]["exact low"]) == pytest.approx(0.342, abs=1e-3)
    assert rows[0]["found 1e-4 by"] == "p-value"


def test_what_an_attack_costs_stands_beside_it_and_what_others_miss_is_left_out(tmp_path: Path) -> None:
    costly = preset.parse(
        "costly",
        HEAD.replace("rows:", "cost: true\nrows:")
        + """
  - label: clean
  - {label: later, attack: shift, seconds: 0.1}
  - {label: noisy, attack: noise, snr: 5}
  - {label: faster, attack: tempo, factor: 1.1}
  - {label: "Lyra {kbps}", attack: lyra, kbps: {each: [6]}}
""",
    )
    table = runner.run(costly, snr=38, limit=1, out=tmp_path, workers=1)
    clean, later, noisy, faster = (row for row in table.rows if isinstance(row, AttackRow))
    for row in (clean, later):
        assert (row.cost["PESQ"].value, row.cost["STOI"].value) == (pytest.approx(4.64, abs=0.01), pytest.approx(1))
    assert noisy.cost["PESQ"].value < 2 < clean.cost["PESQ"].value
    assert noisy.cost["STOI"].value < 0.95
    assert faster.cost == {"PESQ": None, "STOI": None}
    assert table.skipped == {"Lyra 6": "lyra: this attack needs the folder of Lyra's weights"}
    shown = dict(zip(report.table_heads(costly), report.table_rows(table)[0], strict=True))
    assert (shown["PESQ left"], shown["STOI left"]) == ("4.64", "1.00")
    lines = list(csv.DictReader((tmp_path / "report.csv").open()))
    assert float(lines[0]["cost PESQ"]) > 4.6
    assert lines[3]["cost PESQ"] == ""
    assert "costs the attacker" in (tmp_path / "report.html").read_text("utf-8")


class Page(HTMLParser):
    """What is in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_is_one_page_that_needs_nothing_else(few: Table, out: Path) -> None:
    page = Page()
    text = (out / "report.html").read_text("utf-8")
    page.feed(text)
    assert all(source.startswith(("data:", "#")) for source in page.sources)
    assert not re.search(r"url\((?!#)|@import|<script|<link", text)
    assert (page.tags.count("h1"), page.tags.count("svg"), page.tags.count("audio")) == (1, 2, 2 * (3 + 3))
    for said in (
        "Few & short: ideaw 46+10",
        "MP3 64 kbit/s",
        "share of marks in %",
        "residual × 10",
        "speech.flac",
        "PESQ",
    ):
        assert said in page.text
    assert "width=device-width" in text
    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text


def test_what_was_measured_is_not_measured_again(few: Table, out: Path, tmp_path: Path) -> None:
    lines = (out / cache.RECORDS_FILE).read_text().splitlines(keepends=True)
    assert len(lines) == 2 * (1 + len(FEW.rows))
    begun = tmp_path / "begun"
    cache.ResultCache(begun, json.loads((out / cache.CONFIGURATION_FILE).read_text()))
    (begun / cache.RECORDS_FILE).write_text("".join(lines[:-1]))  # as if it had been interrupted before the last one
    shares: list[float] = []
    assert runner.run(FEW, snr=38, out=begun, progress=shares.append, workers=1) == few
    assert shares == [1.0]
    with pytest.raises(FileError, match="other seed"):
        runner.run(FEW, snr=38, out=begun, seed=1)


def test_answers_are_counted_threat_by_threat(data: Path) -> None:
    table = runner.run(THREATS, data, workers=2)
    assert table.clips == 2  # the quiet file is left out
    rows = [row for row in table.rows if isinstance(row, ThreatRow)]
    assert [row.label for row in rows] == [
        "transplanted",
        "wrong key",
        "overwritten",
        "averaged",
        "copied",
    ]  # the worst
    assert [row.kept.value for row in rows] == [0, 1, 1, 1, 1]  # is first
    assert [row.right.value for row in rows if row.should == "none"] == [1, 0, 0]
    for row in rows:
        assert row.right.value + row.wrong.value + row.none.value == 1


def test_a_file_that_cannot_be_marked_is_left_out_and_named(data: Path, tmp_path: Path) -> None:
    square = np.sign(np.random.default_rng(0).standard_normal(4 * 16_000))
    sf.write(data / "talk" / "square.wav", square, 16_000, subtype="FLOAT")
    only = preset.parse("only", HEAD + "  - label: clean\n")
    table = runner.run(only, data / "talk", out=tmp_path / "run", workers=1)
    assert (table.clips, table.rows[0].clips) == (1, 1)
    assert list(table.left_out) == ["square.wav"]
    assert "too loud" in table.left_out["square.wav"]
    assert "1 could not be marked" in (tmp_path / "run" / "report.html").read_text("utf-8")
    (data / "talk" / "reading.flac").unlink()
    with pytest.raises(FileError, match="no audio file that can be marked: too loud"):
        runner.run(only, data / "talk", workers=1)


def test_a_folder_of_quiet_files_is_refused(data: Path) -> None:
    for path in (data / "talk" / "reading.flac", data / "music-strings.wav"):
        path.unlink()
    with pytest.raises(FileError, match="above −40 dBFS"):
        runner.run(FEW, data)


def test_the_command_shows_a_table_and_keeps_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preset, "load", lambda name, quick: THREATS)
    ran = command("bench", "security", "--quick", "--limit", "1", "--out", tmp_path / "run")
    assert (ran.code, ran.err) == (0, "")
    assert "overwritten" in ran.out
    assert "the right message" in ran.out
    level = f"{load().card.audibility:g} dB noise to mask"
    assert f"1 clips of 3 s, 16 kHz mono, {level}; quality of the mark: SNR " in ran.out
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "metrics.json",
        "report.csv",
        "report.html",
        "run.json",
        "trials.jsonl",
    ]
    ran = command("bench", "edits", "--out", tmp_path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "holds other files and no run" in ran.err


def test_noise_is_as_strong_for_unmarked_audio(few: Table) -> None:
    clip = np.random.default_rng(0).standard_normal((16_000, 1)).astype(np.float32)
    row = FEW.rows[2]
    one, other = (FEW.attack(row, audio, 0, 0) for audio in (clip, clip + np.float32(1e-6)))
    assert np.abs(one - other).max() < 1e-3
