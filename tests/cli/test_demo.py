"""`demo`: the first thing a new user runs says the truth."""

import tempfile
from pathlib import Path

import pytest
import soundfile as sf

import ideaw
from tests.cli.conftest import run, run_process


@pytest.mark.slow
def test_the_message_is_found_after_mp3_and_a_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    ran = run("demo")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == 'The message "IDEA" was found after MP3 and a cut.'
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "says"), [("22+10", '"I"'), ("10+10", "bits 101")])
def test_every_packaged_model_has_something_to_show(name: str, says: str) -> None:
    ran = run("demo", "--model", name)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == f"The message {says} was found after MP3 and a cut."
    assert f"model {name}" in ran.out


@pytest.mark.slow
def test_the_files_can_be_kept(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    ran = run_process("demo", "--keep", folder)
    assert (ran.code, ran.err) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == ["marked.mp3", "marked.wav", "music.ogg", "piece.wav"]
    assert sf.info(folder / "marked.mp3").format == "MP3"
    assert (folder / "marked.mp3").stat().st_size == pytest.approx(6 * 64_000 / 8, rel=0.05)
    assert sf.info(folder / "piece.wav").duration == pytest.approx(3.3, abs=0.001)
    assert ideaw.detect_file(folder / "piece.wav").message == "IDEA"
    assert not ideaw.detect_file(folder / "music.ogg").found


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = run("demo", "--keep", tmp_path / "file")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert str(tmp_path / "file") in ran.err
