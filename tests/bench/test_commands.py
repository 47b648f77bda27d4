"""The commands show what the benchmarks measured, and write the same to a file."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ideaw.bench.tables import files, locating, unmarked
from ideaw.cli import app

FILES = files.Table(
    "46+10",
    38,
    40,
    10.0,
    [files.Row("cut to 3 s", 40, 39, 0, (0.871, 0.996), (0, 0.088))],
    [files.Place(1, 40, 38, 0.75)],
)
UNMARKED = unmarked.Table(
    "46+10",
    500,
    1000,
    8,
    2.5,
    0,
    [],
    0.004,
    1e-6,
    10_000,
    0.01,
    [unmarked.Level(0.1, 12, 0.012, (0.007, 0.02))],
    [0.02],
)
TOOK = {locating.ONE_PASS: 1.0, locating.WINDOWS: 6.0, locating.SINGLE_STAGE: 11.0, locating.ONE_PASS_WHOLE: 2.0}
RIGHT = {locating.ONE_PASS: True, locating.WINDOWS: False, locating.SINGLE_STAGE: True, locating.ONE_PASS_WHOLE: True}
LOCATING = locating.Table(
    "46+10", 3, 0.1, [locating.Row(60, 50, 501, TOOK, {locating.WINDOWS: 6.0, locating.SINGLE_STAGE: 11.0}, RIGHT)]
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "module", "table", "said"),
    [
        ("files", files, FILES, ("cut to 3 s", "97.50 %", "87.1 – 99.6", "95.00 %", "0.750", "40 clips of 10 s")),
        ("unmarked", unmarked, UNMARKED, ("0.012", "0 found in 1000", "in 250 searches", "down to 0.01", "1,000,000")),
        ("locating", locating, LOCATING, ("50 s", "501", "6.000 s", "11", "the paper's", "medians of 3")),
    ],
)
def test_a_table_and_a_file(
    name: str, module: Any, table: Any, said: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run", lambda *given, **named: table)
    data = [] if name == "locating" else ["--data", str(tmp_path)]
    plot = ["--plot", str(tmp_path / "a.png")] if name == "locating" else []
    ran = CliRunner().invoke(app, ["bench", name, *data, *plot, "--json", str(tmp_path / "a.json")])
    assert ran.exit_code == 0, ran.output
    assert [part for part in said if part not in ran.output] == []
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(json.dumps(dataclasses.asdict(table)))
    assert (tmp_path / "a.png").exists() == bool(plot)
