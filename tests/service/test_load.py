"""A small load of many clients at once; the figures of the documentation come from the same program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]

PROGRAM = Path(__file__).parent.parent.parent / "benchmarks" / "load.py"


def test_every_answer_under_load_is_right_and_memory_stays_bounded(tmp_path: Path) -> None:
    out = tmp_path / "load.json"
    command = [sys.executable, PROGRAM, "--uploads", "16", "--seconds", "4", "--json", out]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    load = json.loads(out.read_text())
    assert load["right"] + load["busy"] == 16
    assert load["right"] >= 10
    assert 0 < load["peak_bytes"] < 1e9
