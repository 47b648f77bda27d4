"""Marking a catalogue: each file with its message, once and whole; what cannot be is a row, or one line before work."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.catalogue.rows import MARK_SCHEMA
from tests.catalogue.conftest import MESSAGE, RATE, rows
from tests.cli.conftest import run

LOCAL = ("--workers", "1")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32], clips: Path) -> Path:
    """Three files that can be marked, one that is marked and one that is silent."""
    folder = tmp_path_factory.mktemp("source")
    (folder / "deep").mkdir()
    sf.write(folder / "a.flac", speech[:48_000], RATE)
    sf.write(folder / "deep/b.wav", speech[16_000:64_000], RATE)
    sf.write(folder / "deep/c.ogg", speech[:64_000], RATE)
    shutil.copy(clips / "1.flac", folder / "marked.flac")
    sf.write(folder / "silent.wav", np.zeros(RATE), RATE)
    return folder


@pytest.fixture(scope="module")
def table(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "messages.csv"
    path.write_text("id,message\na.flac,one\ndeep/b.wav,two\ndeep/c.ogg,3\nmarked.flac,four\nsilent.wav,five\n")
    return path


@pytest.fixture(scope="module")
def job(source: Path, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("marked") / "job"
    ran = run("mark", source, "--out", out, "--messages", table, *LOCAL)
    assert ran.code == 0, ran.err
    return out


def test_each_file_holds_its_message(job: Path) -> None:
    found = rows(job)
    assert found.table.schema.equals(MARK_SCHEMA)
    for name, message in (("a.flac", "one"), ("deep/b.wav", "two"), ("deep/c.ogg", "3")):
        row = found.of(name)
        assert (row["status"], row["message"], row["target"]) == ("marked", message, f"{job}/marked/{name}")
        assert ideaw.detect_file(row["target"], speeds="none").message == message


def test_what_holds_a_mark_or_cannot_hold_one_is_an_error(job: Path) -> None:
    found = rows(job)
    assert (
        f'holds a mark of this key already, and is not marked again: found "{MESSAGE}"'
        in found.of("marked.flac")["error"]
    )
    assert "silent" in found.of("silent.wav")["error"]
    assert sorted(path.name for path in (job / "marked").rglob("*.*")) == ["a.flac", "b.wav", "c.ogg"]


def test_what_was_marked_before_a_kill_is_not_marked_again(
    job: Path, source: Path, table: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(job, tmp_path / "job")
    (out / "part-00000.parquet").unlink()  # as if the worker had died just before it wrote its part
    kept, lost = out / "marked/a.flac", out / "marked/deep/b.wav"
    before, content = kept.stat().st_mtime_ns, lost.read_bytes()
    lost.unlink()
    assert run("mark", source, "--out", out, "--messages", table, *LOCAL).code == 0
    assert kept.stat().st_mtime_ns == before
    assert lost.read_bytes() == content
    assert [row["status"] for row in rows(out).table.to_pylist()] == ["marked"] * 3 + ["error"] * 2


def test_what_somebody_else_put_there_stays(source: Path, table: Path, job: Path, tmp_path: Path) -> None:
    out = shutil.copytree(job, tmp_path / "job")
    (out / "part-00000.parquet").unlink()
    theirs = (source / "deep/b.wav").read_bytes()
    (out / "marked/deep/b.wav").write_bytes(theirs)
    assert run("mark", source, "--out", out, "--messages", table, *LOCAL).code == 0
    assert "is there already, and was not marked by this job" in rows(out).of("deep/b.wav")["error"]
    assert (out / "marked/deep/b.wav").read_bytes() == theirs


def test_bits_and_bytes_are_messages_too(source: Path, tmp_path: Path) -> None:
    for kind, message in (("bits", "1011"), ("hex", "0aff")):
        table, out = tmp_path / f"{kind}.csv", tmp_path / kind
        table.write_text(f"path,message\n{source}/a.flac,{message}\n")
        assert run("mark", source / "a.flac", "--out", out, "--messages", table, "--as", kind, *LOCAL).code == 0
        found = ideaw.detect_file(out / "marked/a.flac", speeds="none").message
        assert found == ((1, 0, 1, 1) if kind == "bits" else b"\x0a\xff")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("id,message\na.flac,one\n", "has no message for deep/b.wav and 3 others"),
        ("id,text\na.flac,one\n", "is no table of messages"),
        ("name,message\na.flac,one\n", "is no table of messages"),
        ("id,message\na.flac,one\na.flac,two\n", "names more than once as id: a.flac"),
    ],
)
def test_a_table_with_mistakes_is_refused(source: Path, tmp_path: Path, content: str, reason: str) -> None:
    table = tmp_path / "messages.csv"
    table.write_text(content)
    ran = run("mark", source, "--out", tmp_path / "out", "--messages", table)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert reason in ran.err
    assert not (tmp_path / "out/job.json").exists()


def test_messages_that_are_none_and_ids_that_lead_elsewhere_are_refused(source: Path, tmp_path: Path) -> None:
    table, files = tmp_path / "messages.csv", tmp_path / "files.csv"
    table.write_text("id,message\n../a.flac,one\n")
    files.write_text(f"id,path\n../a.flac,{source}/a.flac\n")
    ran = run("mark", files, "--out", tmp_path / "out", "--messages", table)
    assert (ran.code, "is no name of a file" in ran.err) == (2, True)
    table.write_text("id,message\na.flac,one\n")
    ran = run("mark", source / "a.flac", "--out", tmp_path / "out", "--messages", table, "--as", "bits")
    assert (ran.code, "is not written in zeros and ones" in ran.err) == (2, True)
    assert "give a SOURCE" in run("mark", source, "--out", tmp_path / "out").err
    assert not (tmp_path / "out/marked").exists()


def test_what_cannot_be_read_back_is_not_kept(source: Path, tmp_path: Path) -> None:
    table = tmp_path / "messages.csv"
    table.write_text("id,message\ndeep/c.ogg,a message for more seconds\n".replace("deep/", ""))
    ran = run("mark", source / "deep/c.ogg", "--out", tmp_path / "job", "--messages", table, *LOCAL)
    assert ran.code == 0, ran.err
    row = rows(tmp_path / "job").of("c.ogg")
    assert row["status"] == "error"
    assert ".ideaw-work" not in row["error"]
    assert not (tmp_path / "job/marked").exists()
