"""The pages of the deep layer show what its command measured."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import deep_layer  # noqa: E402
import deep_tables  # noqa: E402
import result_tables  # noqa: E402


@pytest.mark.parametrize("name", deep_tables.FRAGMENTS)
def test_a_fragment_shows_the_results(name: str) -> None:
    shown = (ROOT / f"docs/results/tables/{name}.md").read_text(encoding="utf-8")
    assert shown == "\n".join(deep_tables.FRAGMENTS[name]() or []) + "\n"
    assert "`: " in shown.splitlines()[-1]
    assert f"docs/results/tables/{name}.md" in (ROOT / "docs" / "deep.md").read_text(encoding="utf-8")


def test_trials_are_those_that_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_tables, "ROOT", tmp_path)
    (folder := tmp_path / "docs/results/deep").mkdir(parents=True)
    assert all(lines() is None for lines in deep_tables.FRAGMENTS.values())
    counts = {"present": 2.0, "exact": 1.0, "wrong": 0.0, "given": 2.0, "median_log10_p": -3.0, "network": 0.0}
    rows = [{"attack": "GSM", "seconds": seconds, "trials": n} | counts for seconds, n in ((None, 3), (8, 9))]
    (folder / "rates-speech.json").write_text(
        json.dumps({"pieces": 3, "skipped": {"RNNoise": "no package"}, "rows": rows})
    )
    *_, row, _, note = deep_tables.FRAGMENTS["deep-speech"]() or []
    assert row.startswith("| GSM, cut to 8 s | 9 | 2 | 1 |")
    assert "12 trials in 2 rows. 95 % intervals (Wilson): 3 of 3 from 44 %" in note
    assert "9 of 9 from 70 %" in note
    assert note.endswith("Not measured: RNNoise (no package).")


def test_an_attack_that_was_cut_off_between_its_lengths_is_measured_again(tmp_path: Path) -> None:
    rows = [{"attack": "none", "seconds": seconds} for seconds in (None, 8, 5, 3)]
    file = tmp_path / "rates.json"
    assert deep_layer.read_whole_attacks(file) == []
    file.write_text(json.dumps({"rows": [*rows, {"attack": "Lyra 6", "seconds": None}]}))
    assert deep_layer.read_whole_attacks(file) == rows
    file.write_text(json.dumps({"rows": [*rows, {"attack": "RNNoise", "seconds": None}]}))
    assert len(deep_layer.read_whole_attacks(file)) == 5
