"""Runs that go on where they stopped, and processes that make their trials."""

import json
import os
from pathlib import Path

import pytest

from ideaw.bench import cache
from ideaw.bench.cache import Record
from ideaw.bench.processes import map_processes
from ideaw.errors import FileError, IdeawError

_given: list[int] = []


def start(*given: int) -> None:
    _given[:] = given


def work(task: int) -> Record:
    if task < 0:
        os._exit(3)  # as a process does that runs out of memory
    return {"made": task + sum(_given)}


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    first = cache.ResultCache(folder, {"seed": 1, "clips": ("a", "b")})
    first.add({"clip": 0})
    first.add({"clip": 1})
    assert (
        cache.ResultCache(folder, {"seed": 1, "clips": ("a", "b")}).records
        == first.records
        == [{"clip": 0}, {"clip": 1}]
    )


@pytest.mark.parametrize("torn", [b'{"clip": 2', b"\x00\x00\n", b'{"clip": 2}'])
def test_a_line_that_was_cut_off_is_made_again(tmp_path: Path, torn: bytes) -> None:
    cache.ResultCache(tmp_path, {}).add({"clip": 1})
    lines = tmp_path / cache.RECORDS_FILE
    lines.write_bytes(lines.read_bytes() + torn)
    again = cache.ResultCache(tmp_path, {})
    again.add({"clip": 3})
    assert [json.loads(line) for line in lines.read_text().splitlines()] == [{"clip": 1}, {"clip": 3}]


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    cache.ResultCache(tmp_path / "run", {"seed": 1, "model": "46+10"}).add({"clip": 0})
    with pytest.raises(FileError, match=r"another run, with other seed; choose"):
        cache.ResultCache(tmp_path / "run", {"seed": 2, "model": "46+10"})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(FileError, match="other files and no run"):
        cache.ResultCache(tmp_path / "full", {})
    (tmp_path / "run" / cache.CONFIGURATION_FILE).write_text("{")
    with pytest.raises(FileError, match="another run"):
        cache.ResultCache(tmp_path / "run", {"seed": 1})
    with pytest.raises(FileError, match="cannot be written"):
        cache.ResultCache(tmp_path / "full" / "mine.txt" / "run", {})


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_all_tasks_are_made_and_progress_is_told(workers: int) -> None:
    shares: list[float] = []
    made = list(map_processes(start, (10,), work, [1, 2, 3], workers, shares.append, done=1))
    assert sorted(record["made"] for record in made) == [11, 12, 13]
    assert shares == [0.5, 0.75, 1.0]
    assert list(map_processes(start, (), work, [], workers)) == []


@pytest.mark.slow
def test_a_killed_process_is_one_line() -> None:
    with pytest.raises(IdeawError, match="killed; the same command goes on"):
        list(map_processes(start, (), work, [-1, 1], 2))
