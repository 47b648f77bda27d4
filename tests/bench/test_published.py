"""README and cards say what was measured, and nothing else; sections appear once they are measured."""

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from ideaw.bench.tables import files, locating, segments, unmarked
from ideaw.marker import model_names

ROOT = Path(__file__).parent.parent.parent
spec = importlib.util.spec_from_file_location("publish", ROOT / "benchmarks/publish.py")
assert spec
assert spec.loader
publish = importlib.util.module_from_spec(spec)
spec.loader.exec_module(publish)

SPEED = {
    "times": [
        {
            "system": "ideaw",
            "task": "embed",
            "audio": "mono",
            "seconds": 10,
            "threads": 1,
            "wall": 0.5,
            "times_ours": {},
        },
        {"system": "ideaw", "task": "embed", "audio": "mono", "seconds": 10, "threads": 2, "wall": 0.3},
        {"system": "ideaw", "task": "detect, marked", "audio": "mono", "seconds": 10, "threads": 2, "wall": 0.1},
        {"system": "ideaw", "task": "detect, marked", "audio": "mono", "seconds": 10, "threads": 1, "wall": 0.2},
        {
            "system": "AudioSeal",
            "task": "embed",
            "audio": "mono",
            "seconds": 10,
            "threads": 1,
            "wall": 1.0,
            "times_ours": {"embed": 2.0},
        },
    ],
    "imports": {"ideaw": 0.2, "AudioSeal": 3.0},
    "commands": {"ideaw --help": 0.25},
    "peak": {"ideaw": {"embed": 1.5e8}, "AudioSeal": {}},
    "size": {"ideaw": 150_000_000, "AudioSeal": 800_000_000},
}


def test_the_readme_shows_the_results() -> None:
    text = (ROOT / "README.md").read_text()
    assert set(publish.results("segments")) == set(model_names())
    assert publish.readme(text) == text


def test_the_cards_show_the_results() -> None:
    for name in model_names():
        text = (ROOT / "src/ideaw/models" / name / "card.json").read_text()
        assert publish.card(text, name) == text


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs/results").mkdir(parents=True)
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    return tmp_path


def shown(root: Path, name: str, result: Any, file: str) -> str:
    """What stands between the markers of a section, without and then with its result."""
    empty = f"before\n<!-- {name} -->\nold\n<!-- /{name} -->\nafter\n"
    assert publish.readme(empty) == empty
    content = dataclasses.asdict(result) if dataclasses.is_dataclass(result) else result
    (root / "docs/results" / file).write_text(json.dumps(content))
    text = publish.readme(empty)
    assert text.startswith(f"before\n<!-- {name} -->\n")
    assert text.endswith(f"\n<!-- /{name} -->\nafter\n")
    assert publish.readme(text) == text
    assert publish.readme("no markers\n") == "no markers\n"
    return text


def test_ablations(root: Path) -> None:
    row = segments.Row("mp3", "CP", 99.64, {"music": 99.3}, 99.0)
    table = segments.Table("46+10", 56, 372, 38.0, 38.0, 38.0, [row], [])
    text = shown(root, "ablations", table, "segments-ablation-no-balance.json")
    assert "| without the balance block (M2, no discriminator either) | 99.64 |" in text
    assert "M1" not in text


def test_files(root: Path) -> None:
    row = files.Row("cut to 3 s", 40, 39, 0, (0.871, 0.996), (0.0, 0.088))
    table = files.Table("46+10", 38, 40, 10.0, [row], [files.Place(1.0, 40, 40, 0.75)])
    stereo = dataclasses.replace(table, clips=20, rows=[dataclasses.replace(row, clips=20, right=18, wrong=1)])
    assert "cut to 3 s" not in shown(root, "files", stereo, "files-stereo.json")
    text = shown(root, "files", table, "files-46+10.json")
    assert "| cut to 3 s | 97.5 (87.1–99.6) | 90.0 (87.1–99.6) | 1 |" in text
    assert "the 20 stereo tracks" in text
    assert "0.75 of 1 s" in text


def test_unmarked(root: Path) -> None:
    levels = [unmarked.Level(p, 1, 0.001, (0, 0.01)) for p in unmarked.LEVELS]
    table = unmarked.Table("46+10", 500, 1000, 8, 2.5, 0, [], 0.0038, 1e-6, 10_000, 0.01, levels, [0.02])
    text = shown(root, "unmarked", table, "unmarked-46+10.json")
    assert "0 in 1,000 searches" in text
    assert "at most one in 263" in text
    assert "0.001 below 0.1, 0.001 below 0.01." in text
    assert "One in 1,000,000 files, and in 10,000 hours, is calculated" in text


def test_locating(root: Path) -> None:
    took = {locating.OURS: 1.0, locating.PAPER: 6.0, locating.SINGLE: 11.0, locating.WHOLE: 2.0}
    ratios = {locating.PAPER: 6.0, locating.SINGLE: 11.0}
    table = locating.Table("46+10", 3, 0.1, [locating.Row(60, None, 591, took, ratios, dict.fromkeys(took, True))])
    text = shown(root, "locating", table, "locating-46+10.json")
    assert "| 60 s | not marked | 1.00 s | 6.00 s (6 ×) | 11.00 s (11 ×) | 2.00 s |" in text


def test_protocols(root: Path) -> None:
    (root / "docs/results/edits").mkdir()
    rows = [("crop", 1.0, 0.0), ("pitch", 0.25, 0.5), ("speed", 0.75, 0.0)]
    table = {
        "clips": 4,
        "rows": [
            {"label": label, "clips": 4, "exact": {"value": exact}, "alarms": {"value": alarms}}
            for label, exact, alarms in rows
        ],
    }
    text = shown(root, "protocols", table, "edits/metrics.json")
    assert "| `edits` | 4 | 3 | 1 | 66.7 % | pitch: 25 %; speed: 75 % | 2 |" in text


def test_speed(root: Path) -> None:
    text = shown(root, "speed", SPEED, "speed.json")
    assert "| embed, 10 s | 1 | 0.50 s | 2 × |" in text
    assert "| detect, marked, 10 s | 1 | 0.20 s | – |" in text
    assert "| embed, 10 s | 2 | 0.30 s | – |" in text
    assert "| installed | | 150 MB | 800 MB |" in text
    assert "AudioSeal has random weights" in text
    assert "WavMark" not in text
