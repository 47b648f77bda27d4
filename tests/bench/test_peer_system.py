"""Peers in place of our own models: the same rows, with dashes for what a system cannot have, and failures counted."""

import csv
import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

from ideaw.bench.protocols import preset, report, runner
from ideaw.bench.protocols.scores import AttackRow, Table, ThreatRow
from ideaw.errors import FileError, PeerError
from tests.cli.conftest import Ran
from tests.cli.conftest import run as command

pytestmark = pytest.mark.slow


def made(rows: str, rate: int = 16_000, seconds: float = 3, channels: int = 1) -> preset.Preset:
    head = f"title: Made\nabout: Little.\nrate: {rate}\nseconds: {seconds}\nchannels: {channels}\nrows:\n"
    return preset.parse("made", head + rows)


WIDE = made(
    """
  - label: clean
  - {label: mono mix, attack: mono}
  - {label: nothing left, attack: noise, snr: -30}
""",
    rate=44_100,
    channels=2,
)
THREATS = made(
    """
  - {label: wrong key, threat: wrong_key, should: none}
  - {label: marked again, threat: marked_again, should: right}
  - {label: averaged, threat: averaged, should: not wrong}
  - {label: copied, threat: copied, should: none}
"""
)
SHORT = made(
    """
  - label: clean
  - {label: quieter, attack: amplitude, gain: 0.5}
  - {label: cut, attack: crop, keep: 0.5}
"""
)

TONE = """#!{python}
# A system without messages: a soft tone at 7 kHz. It breaks down over less than two seconds.
import json, sys
import numpy as np, soundfile

if "version" in sys.argv:
    print("3.1")
    sys.exit()
print(json.dumps(dict(bits=0)), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    samples, rate = soundfile.read(asked["file"], dtype="float32", always_2d=True)
    if len(samples) < 2 * rate:
        sys.exit("too little to hear anything")
    tone = np.sin(np.arange(len(samples)) * 2 * np.pi * 7000 / rate).astype("float32")
    said = dict(wall=0, cpu=0, peak=0)
    if asked["task"] == "embed":
        soundfile.write(asked["to"], samples + 3e-3 * tone[:, None], rate, "FLOAT")
    else:
        heard = float(2 * abs(tone @ samples[:, 0]) / len(samples))
        said |= dict(mark=heard > 1e-3, bits=None, score=min(1.0, 200 * heard))
    print(json.dumps(said), flush=True)
"""


@pytest.fixture
def tone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Perth's place, which carries no message either: a system that is there wherever the tests run."""
    python = tmp_path / "peers" / "perth" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(TONE.format(python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setenv("IDEAW_PEERS", str(tmp_path / "peers"))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def ours(out: Path) -> Table:
    return runner.run(WIDE, limit=1, out=out / "ours", workers=1)


@pytest.fixture(scope="module")
def theirs(out: Path) -> Table:
    return runner.run(WIDE, limit=1, out=out / "theirs", workers=1, peer="ideaw")


def attacks(table: Table) -> list[AttackRow]:
    return [row for row in table.rows if isinstance(row, AttackRow)]


def test_a_peer_has_the_rows_and_columns_of_our_own(ours: Table, theirs: Table, out: Path) -> None:
    assert (theirs.system, theirs.snr) == (f"ideaw {metadata.version('ideaw')}", None)
    assert (theirs.clips, theirs.rate, theirs.channels) == (ours.clips, ours.rate, ours.channels) == (1, 44_100, 2)
    for mine, other in zip(attacks(ours), attacks(theirs), strict=True):  # the same model, asked in another process
        assert (other.label, other.clips, other.failed) == (mine.label, mine.clips, 0)
        assert (other.exact, other.seen, other.wrong, other.alarms) == (mine.exact, mine.seen, mine.wrong, mine.alarms)
        assert {each.by for each in other.found.values()} == {"too few"}
    assert [row.bits.value for row in attacks(theirs) if row.bits] == [1, 1, 0.5]
    assert [row.capacity.value for row in attacks(theirs) if row.capacity] == pytest.approx([32 / 3, 32 / 3, 0])
    assert theirs.quality["SNR"].value == pytest.approx(ours.quality["SNR"].value, abs=0.2)  # other bits
    heads = [next(csv.reader((out / name / "report.csv").open())) for name in ("ours", "theirs")]
    assert heads[0] == heads[1]
    assert f"Made: {theirs.system}" in (out / "theirs" / "report.html").read_text("utf-8")


def test_a_folder_holds_the_trials_of_one_system(ours: Table, theirs: Table, out: Path) -> None:
    with pytest.raises(FileError, match="with other system"):
        runner.run(WIDE, limit=1, out=out / "ours", peer="ideaw")
    with pytest.raises(FileError, match="with other system"):
        runner.run(WIDE, limit=1, out=out / "theirs")


def test_threats_without_keys_are_met_and_the_others_named() -> None:
    table = runner.run(THREATS, limit=1, workers=2, peer="ideaw")
    rows = {row.label: row for row in table.rows if isinstance(row, ThreatRow)}
    assert list(rows) == ["marked again", "averaged", "copied"]
    assert rows["copied"].none.value == rows["averaged"].kept.value == 1
    assert report.describe_skipped(table) == f"Left out, since {table.system} has no keys: “wrong key”."


@pytest.mark.usefixtures("tone")
def test_what_a_system_cannot_have_is_a_dash_and_what_fails_is_counted(tmp_path: Path) -> None:
    table = runner.run(SHORT, out=tmp_path / "run", workers=1, peer="perth")
    clean, quieter, cut = attacks(table)
    for row in (clean, quieter, cut):
        assert (row.bits, row.exact, row.wrong, row.capacity) == (None, None, None, None)
        assert row.alarms.value == 0
    assert [(row.seen.value, row.failed) for row in (clean, quieter, cut)] == [(1, 0), (1, 0), (0, 2 * 2)]
    shown = report.table_rows(table)
    assert shown[0][:7] == ("clean", "2", "–", "–", "–", "–", "100.0 %")
    assert shown[2][:2] == ("cut", "2, 4 failed")
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (kept["system"], kept["rows"][0]["bits"]) == ("Perth 3.1", None)
    line = next(csv.DictReader((tmp_path / "run" / "report.csv").open()))
    assert (line["bits"], line["bits low"], line["exact high"], line["found 1e-4"]) == ("", "", "", "")
    assert "Perth 3.1, 2 clips of 3 s, 16 kHz mono." in (tmp_path / "run" / "report.html").read_text("utf-8")


@pytest.mark.usefixtures("tone")
def test_threats_to_a_system_without_messages_are_about_its_mark() -> None:
    table = runner.run(THREATS, limit=1, workers=1, peer="perth")
    rows = {row.label: row for row in table.rows if isinstance(row, ThreatRow)}
    assert list(rows) == ["copied", "marked again"]  # the worst first
    assert (rows["marked again"].right.value, rows["copied"].right.value, rows["copied"].kept.value) == (1, 1, 0)
    assert {row.wrong for row in rows.values()} == {None}
    assert "Perth 3.1 carries no message: “averaged”" in report.describe_skipped(table)


def complaint(*arguments: object) -> str:
    """What a command says that fails with one line."""
    ran: Ran = command("bench", "edits", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    return ran.err


def test_what_cannot_be_measured_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDEAW_PEERS", str(tmp_path))
    assert "Perth: left out, since" in complaint("--peer", "perth")
    assert "give a folder with generator_base.pth" in complaint("--peer", "audioseal")
    assert "its weights come with it" in complaint("--peer", "perth", "--weights", tmp_path)
    assert "does not exist" in complaint("--peer", "wavmark", "--weights", tmp_path / "none.pkl")
    assert 'no peer "nobody"; there are: ideaw, audioseal' in complaint("--peer", "nobody")
    for option in (("--snr", 30), ("--model", "46+10")):
        assert "our own marks; leave them out" in complaint("--peer", "ideaw", *option)
    assert "weights are for a peer" in complaint("--weights", tmp_path)


def test_a_peer_that_never_marks_ends_with_its_reason(tone: None, data: Path) -> None:
    with pytest.raises(FileError, match="can be marked: Perth: it broke down: too little to hear"):
        runner.run(made("  - label: clean", seconds=1), data, workers=1, peer="perth")


def test_a_peer_without_its_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDEAW_PEERS", str(tmp_path))
    (tmp_path / "perth" / "bin").mkdir(parents=True)
    (tmp_path / "perth" / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(PeerError, match="Perth: it broke down: ModuleNotFoundError"):
        runner.run(SHORT, workers=1, peer="perth")
