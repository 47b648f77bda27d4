"""`keygen`: a fresh key on the terminal or in a file of its own, and none ever lost."""

import os
import stat
from pathlib import Path

import pytest

from ideaw.keys import Key
from tests.cli.conftest import run, run_process


def test_a_key_is_printed() -> None:
    one, two = run("keygen"), run("keygen")
    assert (one.code, one.err) == (0, "")
    assert len(Key.of(one.out)) >= 16
    assert one.out != two.out


def test_a_key_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "studio.key"
    before = os.umask(0)
    try:
        ran = run("keygen", path)
    finally:
        os.umask(before)
    assert (ran.code, ran.err) == (0, "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = Key.read(path)
    assert key.hex() not in ran.out


def test_a_file_that_is_there_is_never_touched(tmp_path: Path) -> None:
    path = tmp_path / "studio.key"
    path.write_text("the only copy")
    (tmp_path / "link.key").symlink_to(tmp_path / "elsewhere.key")
    for taken in (path, tmp_path / "link.key", tmp_path):
        ran = run("keygen", taken)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "there already" in ran.err
    assert path.read_text() == "the only copy"
    assert not (tmp_path / "elsewhere.key").exists()


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    ran = run("keygen", tmp_path / "no" / "studio.key")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("studio.key cannot be written: no such file or directory\n")


@pytest.mark.slow
def test_a_mark_made_with_a_key_is_found_with_that_key_alone(tmp_path: Path, spoken: Path) -> None:
    mine, other, marked = tmp_path / "mine.key", tmp_path / "other.key", tmp_path / "marked.wav"
    for path in (mine, other):
        assert run("keygen", path).code == 0
    assert run("embed", spoken, marked, "-m", "hey", "--key", mine).code == 0
    found = run("detect", marked, "--key", mine)
    assert (found.code, '"hey"' in found.out) == (0, True)
    for options in ((), ("--key", other)):
        assert run("detect", marked, *options).code == 1
    assert run("detect", marked, "--key", spoken).code == 2


def test_a_key_that_others_may_read_is_used_with_a_warning(tmp_path: Path, marked: Path) -> None:
    path = tmp_path / "open.key"
    assert run("keygen", path).code == 0
    path.chmod(0o644)
    ran = run_process("detect", marked, "--key", path, "--speeds", "none")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "can be read by other users" in ran.err


def test_help_says_what_keys_do_and_do_not_do() -> None:
    for command in ("keygen", "embed", "detect"):
        words = " ".join(run(command, "--help").out.replace("│", " ").split())
        assert "Keys separate owners and obscure what a message says." in words
        assert "a found mark alone does not prove who made it" in words
        assert not {"nobody", "forge"} & set(words.split())


def test_a_key_is_derived_from_another(tmp_path: Path) -> None:
    master, first, again = (tmp_path / f"{name}.key" for name in ("master", "first", "again"))
    assert run("keygen", master).code == 0
    for path in (first, again):
        assert run("keygen", path, "--from", master, "--label", "acme").code == 0
    assert Key.read(first) == Key.read(again) == Key.read(master).derive("acme")
    for options in (("--from", master), ("--label", "acme"), ("--rotate",), ("--from", tmp_path, "--label", "a")):
        ran = run("keygen", *options)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


@pytest.mark.slow
def test_marks_of_a_key_are_found_after_it_was_rotated(tmp_path: Path, spoken: Path) -> None:
    path, before, after = tmp_path / "studio.key", tmp_path / "before.wav", tmp_path / "after.wav"
    assert run("keygen", path).code == 0
    assert run("embed", spoken, before, "-m", "old", "--key", path).code == 0
    ran = run("keygen", path, "--rotate")
    assert (ran.code, "2 are there" in ran.out) == (0, True)
    assert run("embed", spoken, after, "-m", "new", "--key", path).code == 0
    for marked, message in ((before, "old"), (after, "new")):
        found = run("detect", marked, "--key", path)
        assert (found.code, f'"{message}"' in found.out) == (0, True)
    refused = run("embed", before, after, "-m", "new", "--key", path)
    assert (refused.code, "already" in refused.err) == (2, True)
