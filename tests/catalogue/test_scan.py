"""A scan as users start it: every file has one row, a second run goes on, and what is wrong is one line before work."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.catalogue.rows import SCAN_SCHEMA
from tests.catalogue.conftest import MESSAGE, RATE, rows
from tests.cli.conftest import run, run_process

QUICK = ("--speeds", "none", "--workers", "1")


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory, clips: Path) -> Path:
    """The folder of a scan of the clips, in parts of four; tests that change it take a copy."""
    out = tmp_path_factory.mktemp("scanned") / "job"
    ran = run("scan", clips, "--out", out, *QUICK, "--shard-size", 4)
    assert ran.code == 0, ran.err
    assert f"{out}: files 9 of 9" in ran.out
    return out


def test_every_file_has_one_row_with_what_it_holds(scanned: Path, clips: Path) -> None:
    found = rows(scanned)
    assert sorted(found.column("id")) == sorted(
        ["0.flac", "1.flac", "2.flac", "3.flac", "b/4.flac", "b/5.flac", "b/6.flac", "b/7.flac", "broken.wav"]
    )
    assert found.table.schema.equals(SCAN_SCHEMA)
    assert sorted(path.name for path in scanned.glob("part-*")) == [f"part-0000{n}.parquet" for n in range(3)]
    marked, plain, broken = found.of("b/5.flac"), found.of("b/4.flac"), found.of("broken.wav")
    assert (marked["status"], marked["message"], marked["message_kind"]) == ("found", MESSAGE, "text")
    assert marked["key"] == ideaw.detect_file(clips / "b/5.flac", speeds="none").key
    assert marked["seconds"] == marked["heard_seconds"] == 2
    assert json.loads(marked["segments_json"])[0]["message"] == MESSAGE
    assert plain["status"] == "none"
    assert broken["status"] == "error"
    assert broken["error"] == f"{clips}/broken.wav is damaged or truncated: it cannot be decoded to its end"
    assert marked["size"] == (clips / "b/5.flac").stat().st_size
    job = json.loads((scanned / "job.json").read_text())
    assert job["version"] == ideaw.__version__
    assert job["keys"] == [marked["key"]]


def test_rows_say_what_detect_says(scanned: Path, clips: Path) -> None:
    marker = ideaw.load(threads=1)
    for row in rows(scanned).table.to_pylist():
        if row["status"] != "error":
            detection = marker.detect_file(row["path"], speeds="none")
            assert (row["status"], row["message"], row["p_value"]) == (
                detection.status,
                detection.message,
                detection.p_value,
            )


def test_a_second_run_does_only_what_is_missing(scanned: Path, clips: Path, tmp_path: Path) -> None:
    out = shutil.copytree(scanned, tmp_path / "job")
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    (out / "part-00001.parquet").unlink()
    ran = run("scan", clips, "--out", out, *QUICK, "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert (told["done_before"], told["done_now"]) == (5, 4)
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert {name for name in before if before[name] == after[name]} == {"part-00000.parquet", "part-00002.parquet"}
    assert rows(out).table.drop("cpu_seconds").equals(rows(scanned).table.drop("cpu_seconds"))


def test_a_manifest_is_frozen(scanned: Path, clips: Path, tmp_path: Path) -> None:
    source = shutil.copytree(clips, tmp_path / "clips")
    out = tmp_path / "job"
    assert run("scan", source, "--out", out, *QUICK, "--shard-size", 8).code == 0
    (out / "part-00001.parquet").unlink()
    shutil.copy(source / "1.flac", source / "new.flac")
    assert run("scan", source, "--out", out, *QUICK).code == 0
    assert "new.flac" not in rows(out).column("id")
    assert len(rows(out).column("id")) == 9


def test_a_file_that_changed_since_is_an_error(clips: Path, tmp_path: Path) -> None:
    source = shutil.copytree(clips, tmp_path / "clips")
    out = tmp_path / "job"
    assert run("scan", source, "--out", out, *QUICK).code == 0
    (out / "part-00000.parquet").unlink()
    (source / "1.flac").write_bytes(b"longer or shorter")
    (source / "2.flac").unlink()
    assert run("scan", source, "--out", out, *QUICK).code == 0
    assert "has changed since the manifest was made: 17 bytes" in rows(out).of("1.flac")["error"]
    assert rows(out).of("2.flac")["error"].endswith("2.flac does not exist")


def test_errors_are_done_again_where_asked_and_nothing_else(clips: Path, tmp_path: Path) -> None:
    source = shutil.copytree(clips, tmp_path / "clips")
    out = tmp_path / "job"
    broken = source / "broken.wav"
    size = broken.stat().st_size
    assert run("scan", source, "--out", out, *QUICK, "--shard-size", 4).code == 0
    mended = (source / "1.flac").read_bytes()
    # A file of the size that was listed, which can be searched now: FLAC with padding cannot be made that short.
    table = pq.read_table(out / "manifest.parquet")
    sizes = [
        None if name == "broken.wav" else value
        for name, value in zip(
            *map(pa.Array.to_pylist, (table["id"].combine_chunks(), table["size"].combine_chunks())), strict=True
        )
    ]
    pq.write_table(table.set_column(2, "size", pa.array(sizes, pa.int64())), out / "manifest.parquet", row_group_size=4)
    broken.write_bytes(mended)
    assert size != len(mended)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert run("scan", source, "--out", out, *QUICK).code == 0
    assert rows(out).of("broken.wav")["status"] == "error"
    ran = run("scan", source, "--out", out, *QUICK, "--retry-errors", "--json")
    assert json.loads(ran.out)["done_now"] == 1
    assert rows(out).of("broken.wav")["message"] == MESSAGE
    assert len(rows(out).column("id")) == len(set(rows(out).column("id"))) == 9
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert sum(before[name] != after[name] for name in before) == 1


def test_lists_of_files_are_sources(clips: Path, tmp_path: Path) -> None:
    text, table, parquet = tmp_path / "list.txt", tmp_path / "list.csv", tmp_path / "list.parquet"
    text.write_text(f"{clips}/1.flac\n\n{clips}/b/5.flac\n")
    table.write_text(f"id,path\nfirst,{clips}/1.flac\nsecond,{clips}/b/5.flac\n")
    pq.write_table(pa.table({"path": [f"{clips}/1.flac", f"{clips}/b/5.flac"]}), parquet)
    for source, ids in (
        (text, ["1.flac", "b/5.flac"]),
        (table, ["first", "second"]),
        (parquet, ["1.flac", "b/5.flac"]),
    ):
        out = tmp_path / source.suffix
        assert run("scan", source, "--out", out, *QUICK).code == 0
        assert rows(out).column("id") == ids
        assert rows(out).column("message") == [MESSAGE, MESSAGE]


def test_patterns_and_single_files_are_sources(clips: Path, tmp_path: Path) -> None:
    assert run("scan", f"{clips}/*/[56].flac", "--out", tmp_path / "1", *QUICK).code == 0
    assert rows(tmp_path / "1").column("id") == ["5.flac", "6.flac"]
    assert run("scan", clips / "1.flac", "--out", tmp_path / "2", *QUICK).code == 0
    assert rows(tmp_path / "2").column("id") == ["1.flac"]


def test_the_folder_of_the_job_may_lie_in_the_source(clips: Path, tmp_path: Path) -> None:
    source = shutil.copytree(clips, tmp_path / "clips")
    out = source / "job"
    out.mkdir()
    shutil.copy(source / "1.flac", out / "mine.flac")
    assert run("scan", source, "--out", out, *QUICK).code == 0
    assert len(rows(out).column("id")) == 9


def test_two_workers_give_the_same_rows(scanned: Path, clips: Path, tmp_path: Path) -> None:
    out = tmp_path / "job"
    assert run_process("scan", clips, "--out", out, "--speeds", "none", "--workers", 2, "--shard-size", 4).code == 0
    assert rows(out).table.drop("cpu_seconds").equals(rows(scanned).table.drop("cpu_seconds"))
    assert not (out / ".ideaw-work").exists()


def test_a_long_track_is_heard_until_sure(tmp_path: Path, marked: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "long.flac", np.tile(marked, 10), RATE)
    for options, listened, heard in (
        ((), "until sure", 10),
        (("--whole",), "whole", 60),
        (("--probe", "1"), "probe", 10),
    ):
        out = tmp_path / listened
        assert run("scan", tmp_path / "long.flac", "--out", out, *QUICK, *options).code == 0
        (row,) = rows(out).table.to_pylist()
        assert (row["listened"], row["heard_seconds"], row["seconds"]) == (listened, heard, 60)
        assert row["message"] == MESSAGE


def test_a_web_server_is_a_source(clips: Path, tmp_path: Path) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=str(clips))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        (tmp_path / "list.txt").write_text(f"{address}/1.flac\n{address}/b/5.flac\n{address}/gone.flac\n")
        ran = run("scan", tmp_path / "list.txt", "--out", tmp_path / "list", *QUICK)
        assert ran.code == 0, ran.err
        assert run("scan", f"{address}/b/", "--out", tmp_path / "folder", *QUICK).code == 0
        server.shutdown()
    assert rows(tmp_path / "list").column("message") == [MESSAGE, MESSAGE, None]
    assert rows(tmp_path / "list").of("gone.flac")["error"] == f"{address}/gone.flac cannot be read: it does not exist"
    assert rows(tmp_path / "folder").column("id") == ["4.flac", "5.flac", "6.flac", "7.flac"]


def test_what_a_kill_left_incomplete_is_no_file(clips: Path, tmp_path: Path) -> None:
    shutil.copy(clips / "1.flac", tmp_path / "1.flac")
    shutil.copy(clips / "1.flac", tmp_path / ".ideaw-0123.flac")
    assert run("scan", tmp_path, "--out", tmp_path / "job", *QUICK).code == 0
    assert rows(tmp_path / "job").column("id") == ["1.flac"]


def test_without_the_extra_one_line_says_what_to_install(clips: Path, tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError('gone', name='pyarrow')")
    command = [sys.executable, "-m", "ideaw", "scan", str(clips), "--out", str(tmp_path / "job")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 2
    assert done.stderr == 'ideaw: a scan needs pyarrow; install it with: pip install "ideaw[cluster]"\n'


# What is wrong


def one_line(*arguments: object) -> str:
    """The only line of a command that must fail before it does anything."""
    ran = run(*arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    return ran.err


def test_another_job_in_the_folder_is_refused(scanned: Path, clips: Path, tmp_path: Path) -> None:
    key = tmp_path / "my.key"
    ideaw.Key.fresh().write(key)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in scanned.iterdir())
    for changed in (
        (clips / "b", *QUICK),
        (clips, "--speeds", "near"),
        (clips, *QUICK, "--key", key),
        (clips, *QUICK, "--whole"),
        (clips, *QUICK, "--model", "22+10"),
    ):
        refused = one_line("scan", changed[0], "--out", scanned, *changed[1:])
        assert "holds another job" in refused
        assert "'" not in refused
    assert sorted((path.name, path.stat().st_mtime_ns) for path in scanned.iterdir()) == before


def test_a_source_without_files_is_refused(tmp_path: Path) -> None:
    empty, out = tmp_path / "empty", tmp_path / "out"
    empty.mkdir()
    assert "holds no audio files" in one_line("scan", empty, "--out", out)
    (empty / "a.pdf").write_bytes(b"%PDF")
    (empty / "b.pdf").write_bytes(b"%PDF")
    assert "none of its 2 files is named like audio" in one_line("scan", empty, "--out", out)
    assert "does not exist" in one_line("scan", tmp_path / "nowhere", "--out", out)
    assert "does not exist" in one_line("scan", tmp_path / "nowhere.txt", "--out", out)
    assert not list(out.glob("*.json"))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", "file\nx.wav\n", "has no column path; its columns are file"),
        ("a.csv", "path,id\nx.wav,1\ny.wav,1\n", "names more than once as id: 1"),
        ("a.txt", "x.wav\ny.wav\nx.wav\n", "names more than once as path: "),
        ("a.csv", "path,id\nx.wav,1\n,2\n", "has 1 rows without a path"),
        ("a.csv", "", "cannot be read as a table"),
        ("a.parquet", "no table", "cannot be read as a table"),
        ("a.txt", "\n\n", "names no files"),
    ],
)
def test_a_list_with_mistakes_is_refused(tmp_path: Path, name: str, content: str, reason: str) -> None:
    (tmp_path / name).write_text(content)
    assert reason in one_line("scan", tmp_path / name, "--out", tmp_path / "out")
    assert not (tmp_path / "out/job.json").exists()


def test_a_place_that_cannot_be_written_is_refused(clips: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be" in one_line("scan", clips, "--out", tmp_path / "file")
    assert "cannot be written safely" in one_line("scan", clips, "--out", "http://127.0.0.1:9/x")


def test_options_that_do_not_go_together_are_refused(clips: Path, tmp_path: Path) -> None:
    assert "give a SOURCE and --out DIR" in one_line("scan")
    assert "--report sums up" in one_line("scan", clips, "--report", tmp_path)
    assert "is not the folder of a job" in one_line("scan", "--report", tmp_path)
    assert "is an address of Ray" in one_line("scan", clips, "--out", tmp_path / "x", "--address", "127.0.0.1:6379")
    assert "--cache keeps" in one_line("scan", clips, "--out", tmp_path / "x", "--cache", "--probe", "2")
