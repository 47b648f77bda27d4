"""A job summed up, and how far it is, as people and machines read it."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.catalogue import progress as progress_module
from ideaw.catalogue.progress import JobProgress, Plan, show_progress
from ideaw.catalogue.report import in_general
from ideaw.catalogue.work import Tick
from tests.catalogue.conftest import MESSAGE, RATE
from tests.cli.conftest import run


def test_a_report_counts_what_the_parts_hold(clips: Path, tmp_path: Path) -> None:
    out = tmp_path / "job"
    assert run("scan", clips, "--out", out, "--speeds", "none", "--workers", "1", "--shard-size", "4").code == 0
    ran = run("scan", "--report", out, "--json")
    told = json.loads(ran.out)
    assert told == json.loads((out / "report.json").read_text())
    assert told["statuses"] == {"found": 4, "none": 4, "error": 1}
    assert told["messages"] == {MESSAGE: 4}
    assert list(told["keys"].values()) == [4]
    assert told["errors"] == {"the file is damaged or truncated: it cannot be decoded to its end": 1}
    assert (told["files"], told["done"]) == (9, 9)
    assert told["hours"] == pytest.approx(16 / 3600)
    assert told["hours_per_core_hour"] > 1
    text = run("scan", "--report", out).out
    assert text == (out / "report.txt").read_text()
    assert "9 of 9  files done" in text
    (out / "part-00001.parquet").unlink()
    assert json.loads(run("scan", "--report", out, "--json").out)["done"] == 5


def test_the_page_stands_alone_and_escapes_what_others_wrote(tmp_path: Path, speech: NDArray) -> None:
    source, message = tmp_path / "in", "<b>&"
    source.mkdir()
    sf.write(source / "1.flac", ideaw.load(threads=1).embed(speech, RATE, message), RATE)
    out = tmp_path / "<i>job"
    assert run("scan", source, "--out", out, "--speeds", "none", "--workers", "1").code == 0
    assert run("scan", "--report", out).code == 0
    page = (out / "report.html").read_text()
    assert "&lt;b&gt;&amp;" in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert not any(word in page for word in ("http", "src=", "<script", "@import", "url("))


def test_errors_that_differ_in_measures_alone_are_counted_together() -> None:
    path = "/in/1.flac"
    general = [
        (f"{path} is empty (0 bytes)", "the file is empty (… bytes)"),
        (
            'marked already: found "id25" in 4.0 s of audio (p = 4.5e-44)',
            'marked already: found "…" in … s of audio (p = …)',
        ),
        ("https://host/1.flac: answered 403", "https://host/1.flac: answered 403"),
    ]
    assert [in_general(reason, path) for reason, _ in general] == [expected for _, expected in general]


def counted(plan: Plan) -> JobProgress:
    progress = JobProgress(plan)
    progress.began -= 10
    progress.update([Tick(5, 3, 30.0, 20.0, 2, 0)], Tick(3, 4, 40.0, 30.0, 1, 1, done=True))
    return progress


def test_progress_adds_what_is_done_and_what_is_under_way() -> None:
    progress = counted(Plan(20, 14))
    assert (progress.files, progress.seconds, progress.heard_seconds) == (7, 70.0, 50.0)
    assert (progress.found, progress.errors) == (3, 1)
    assert progress.rate == pytest.approx(0.7, rel=0.05)
    assert progress.seconds_left == pytest.approx(10, rel=0.05)
    assert progress.line().startswith(
        "files 13 of 20, hours of audio now 0.02, files/s 0.7, × real time 7, time left 0:00:10"
    )
    assert progress.line().endswith("found now 3, errors now 1")  # and not: of 13
    assert counted(Plan(20, 20)).line().endswith("found 3, errors 1")
    progress.update([], None)  # the worker that was under way has died
    assert progress.files == 4


def test_lines_come_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    clock: Callable[[], float] = lambda: now[0]  # noqa: E731
    monkeypatch.setattr(progress_module.time, "monotonic", clock)
    out = io.StringIO()
    with show_progress(JobProgress(Plan(100, 100)), out) as progress:
        for second in range(1, 36):
            now[0] = float(second)
            progress.update([Tick(0, second)], None)
    assert [line.split(",")[0] for line in out.getvalue().splitlines()] == [
        "files 10 of 100",
        "files 20 of 100",
        "files 30 of 100",
    ]


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_table_that_is_gone_in_the_end() -> None:
    out = Terminal()
    with show_progress(counted(Plan(20, 14)), out) as progress:
        progress.update([], None)
    for name in progress.cells():
        assert name.split()[0] in out.getvalue()
