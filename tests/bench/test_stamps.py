"""A figure that is older than weights, wire format or engine is told from one that is not."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
stamps, make_results = (importlib.import_module(name) for name in ("stamps", "make_results"))
sys.path.pop(0)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the source."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("weights/46+10/mark.onnx", "weights"),
        ("modem/fec.py", "wire format"),
        ("engine/gain.py", "engine"),
        ("hypotheses.py", "engine"),
    ],
)
def test_what_changed_is_named(tree: Path, file: str, part: str) -> None:
    before = stamps.stamp(tree)
    assert before == stamps.stamp(ROOT)
    path = tree / "src/ideaw" / file
    path.write_bytes(path.read_bytes() + b"\nCHANGED = 1\n")
    assert stamps.changed_parts(before, stamps.stamp(tree)) == [part]


def test_what_does_not_run_changes_nothing(tree: Path) -> None:
    before, path = stamps.stamp(tree), tree / "src/ideaw/modem/fec.py"
    path.write_text('"""Another docstring: “ä”."""\n\n# a comment\n' + path.read_text() + "\n\n# and one more, ≥ 1\n")
    assert stamps.stamp(tree) == before
    assert stamps.what_runs('def f():  # ä\n    """Doc"""\n    return "#a"  # b\n') == 'deff():return"#a"'


def test_a_stale_figure_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_results, "RESULTS", tmp_path)
    monkeypatch.setattr(make_results, "STAMPS", tmp_path / "stamps.json")
    now = stamps.stamp()
    made = {"quality-46+10.json": now, "files-46+10.json": now | {"weights": "older", "engine": "older"}}
    (tmp_path / "stamps.json").write_text(json.dumps(made))
    for name in (*made, "files-stereo.json"):
        (tmp_path / name).write_text("{}")
    states = {line.split(" | ")[0][2:]: line.split(" | ")[-1][:-2] for line in make_results.freshness_table()[2:-2]}
    assert states["quality-46+10"] == "this version"
    assert states["files-46+10"] == "an earlier weights and engine"
    assert states["files-stereo"] == "an earlier version"
    assert states["lengths-46+10"] == "not measured"


@pytest.mark.slow
def test_a_figure_is_made_once_and_stamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_results, "RESULTS", tmp_path)
    monkeypatch.setattr(make_results, "STAMPS", tmp_path / "stamps.json")
    samples = ROOT / "src/ideaw/samples"
    figure = make_results.Figure("quality.json", "ideaw bench quality --data {clips} --limit 1 --json {out}", 1)
    assert figure.needs == ["clips"]
    assert make_results.stale_parts(figure, make_results.read_stamps(), stamps.stamp()) is None
    assert make_results.make(figure, {"clips": samples})
    assert json.loads((tmp_path / "quality.json").read_text())["by_kind"]
    assert make_results.stale_parts(figure, make_results.read_stamps(), stamps.stamp()) == []
    assert not make_results.make(figure, {"clips": tmp_path})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quality.json", "stamps.json"]
