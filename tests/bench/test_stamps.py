"""A figure that is older than weights, wire format or engine is told from one that is not."""

import functools
import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
stamps, make_results, figures = (importlib.import_module(name) for name in ("stamps", "make_results", "figures"))
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
        ("deep/gains.py", "deep layer"),
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
    older = now | {"weights": "older", "engine": "older"}
    made = {"quality-46+10.json": now | {"deep layer": "older"}, "files-46+10.json": older}
    made["deep/edits.json"] = now | {"deep layer": "older"}
    (tmp_path / "deep").mkdir()
    (tmp_path / "stamps.json").write_text(json.dumps(made))
    for name in (*made, "files-stereo.json"):
        (tmp_path / name).write_text("{}")
    states = {line.split(" | ")[0][2:]: line.split(" | ")[-1][:-2] for line in make_results.freshness_table()[2:-2]}
    assert states["quality-46+10"] == "this version"
    assert states["files-46+10"] == "an earlier weights and engine"
    assert states["deep/edits"] == "an earlier deep layer"
    assert states["files-stereo"] == "an earlier version"
    assert states["lengths-46+10"] == "not measured"


@pytest.mark.slow
def test_a_figure_is_made_once_and_stamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_results, "RESULTS", tmp_path)
    monkeypatch.setattr(make_results, "STAMPS", tmp_path / "stamps.json")
    monkeypatch.setattr(make_results, "WORK", tmp_path / "work")
    samples = ROOT / "src/ideaw/samples"
    figure = figures.Figure("quality.json", "ideaw bench quality --data {clips} --limit 1", 1)
    assert figure.needs == ["clips"]
    assert make_results.stale_parts(figure, make_results.read_stamps(), stamps.stamp()) is None
    assert make_results.make(figure, {"clips": samples})
    assert json.loads((tmp_path / "quality.json").read_text())["by_kind"]
    assert make_results.stale_parts(figure, make_results.read_stamps(), stamps.stamp()) == []
    assert not make_results.make(figure, {"clips": tmp_path})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quality.json", "stamps.json", "work"]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty folders of results and of what is measured."""
    (folder := tmp_path / "results").mkdir()
    monkeypatch.setattr(make_results, "RESULTS", folder)
    monkeypatch.setattr(make_results, "STAMPS", folder / "stamps.json")
    monkeypatch.setattr(make_results, "WORK", tmp_path / "work")
    return folder


def writes(code: str) -> str:
    """The words of a command that runs a line of Python; the place to write to is `sys.argv[-1]`."""
    return f"python -c 'import sys, pathlib as p; out = p.Path(sys.argv[-1]); {code}'"


def test_figures_beside_each_other_are_all_stamped_with_their_commands(results: Path) -> None:
    made = [
        figures.Figure(f"{n}.json", writes('out.write_text("{clips}")'), 1, figures.Size("--limit", 40), alone=n == 5)
        for n in range(6)
    ]
    short = figures.Short(clips=3)
    make_one = functools.partial(make_results.make, folders={"clips": results}, short=short)
    assert make_results.make_all(made, make_one, 2, None) == [True] * 6
    stamped, now = make_results.read_stamps(), stamps.stamp()
    assert sorted(stamped) == [figure.name for figure in made]
    assert "--limit 3" in make_results.command_of(made[0], stamped)
    assert not make_results.is_due(made[0], stamped, now, short)
    assert make_results.is_due(made[0], stamped, now)
    assert make_results.make_all(made, make_one, 2, 0) == [False] * 6


def test_an_interrupted_figure_goes_on_but_not_with_another_version(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = 'out.mkdir(exist_ok=True); file = out / "metrics.json"; '
    code += 'file.write_text(file.read_text() + "b" if file.exists() else "a"); '
    code += '(out / "report.csv").touch(); (out / "report.html").touch(); sys.exit("b" not in file.read_text())'
    figure = figures.Figure("edits", writes(code), 1, out="--out {out}")
    assert not make_results.make(figure, {})
    assert not results.joinpath("edits").exists()
    now = stamps.stamp()
    with monkeypatch.context() as another:
        another.setattr(make_results, "stamp", lambda: now | {"engine": "another"})
        assert not make_results.make(figure, {})
    assert make_results.make(figure, {})
    assert (results / "edits/metrics.json").read_text() == "ab"
    assert sorted(path.name for path in (results / "edits").iterdir()) == ["metrics.json", "report.csv"]


def test_short_runs_ask_for_less_and_never_for_more() -> None:
    by_name = {figure.name: figure for figure in figures.FIGURES}
    short = figures.Short(clips=20, hours=1.5)
    ends = {"voice": "--limit 12", "deep/rates-music.json": "--pairs 10", "stream.json": "--clips 20"}
    ends |= {"unmarked-46+10.json": "--hours 1.5", "segments-22+10.json": "--limit 160"}
    for name, end in ends.items():
        assert by_name[name].command(short).endswith(end)
    assert by_name["unmarked-46+10.json"].command().endswith("--hours 24")
    assert all(figure.expected_minutes(short) <= figure.expected_minutes() for figure in figures.FIGURES)


def test_every_option_of_a_figure_is_one_of_its_program() -> None:
    folders = dict.fromkeys(figures.FOLDERS, Path("folder"))
    for figure in figures.FIGURES:
        for command in figure.runs(folders, figures.FULL, Path("out.json")):
            program, *words = command.split()
            source = ROOT / words[0]
            if program == "ideaw":
                names = ("bench", "protocols", "options")
                text = "".join((ROOT / f"src/ideaw/cli/{name}.py").read_text() for name in names)
                known = text.replace("_", "-")
            else:
                known = source.read_text()
            options = [word for word in words if word.startswith("--")]
            assert all(option in known or option[2:] in known for option in options), figure.name


def test_every_published_measurement_is_a_figure_or_is_recorded() -> None:
    results = ROOT / "docs/results"
    files = {str(path.relative_to(results)) for folder in (results, results / "deep") for path in folder.glob("*.json")}
    folders = {path.parent.name for path in results.glob("*/metrics.json")}
    recorded = {path for path in files if path.startswith("segments-ablation")} | {"stamps.json", "paper"}
    assert (files | folders) - recorded <= {figure.name for figure in figures.FIGURES}
