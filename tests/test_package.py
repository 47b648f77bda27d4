"""The wheel as users get it: built, installed into an empty environment without torch, and used there."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SNIPPET = """
import importlib.metadata, importlib.util, io, sys
from importlib import resources
import soundfile
import ideaw

assert ideaw.__version__ == importlib.metadata.version("ideaw")
assert importlib.util.find_spec("torch") is None
samples, rate = soundfile.read(io.BytesIO(resources.files("ideaw").joinpath("samples", "speech.flac").read_bytes()))
for name in ideaw.model_names():
    marker = ideaw.load(name)
    assert marker.detect(marker.embed(samples, rate, [1, 0, 1]), rate).message == (1, 0, 1)
print(ideaw.__file__)
"""

pytestmark = [pytest.mark.xdist_group("package"), pytest.mark.slow]


def run(*command: object, cwd: Path) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel and what it needs to run, nothing else."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    path = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    command = [path, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel]
    done = subprocess.run(command, capture_output=True, text=True)
    if "No matching distribution" in done.stderr or "connection" in done.stderr.lower():
        pytest.skip("pip reaches no package index here, so the wheel cannot be installed with what it needs")
    assert done.returncode == 0, done.stderr
    return path


def test_the_wheel_holds_types_weights_and_samples_and_nothing_of_the_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "ideaw/py.typed" in names
    for model in ("46+10", "22+10", "10+10"):
        assert f"ideaw/weights/{model}/card.json" in names
    assert any(name.endswith(".onnx") for name in names)
    assert "ideaw/samples/speech.flac" in names
    demo = {name.removeprefix("ideaw/bench/demo/") for name in names}
    assert {
        "tables.json",
        "assets/page.html",
        "assets/site.css",
        "recordings/credits.json",
        "recordings/song.ogg",
    } <= demo
    assert any("LICENSE" in name for name in names)
    assert {name.split("/")[0] for name in names} <= {"ideaw", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}


def test_an_installed_wheel_marks_and_finds_without_torch(python: Path, tmp_path: Path) -> None:
    place = run(python, "-c", SNIPPET, cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(python.parent.parent)
    program = python.with_name("ideaw.exe" if sys.platform == "win32" else "ideaw")
    assert "found" in run(program, "demo", cwd=tmp_path)


def test_the_runtime_leaves_no_trace_and_reports_to_nobody(tmp_path: Path) -> None:
    search = "import ideaw, numpy; ideaw.load().detect(numpy.random.default_rng(0).normal(0, 0.1, 16_000), 16_000)"
    alone = {name: str(tmp_path) for name in ("HOME", "TMPDIR")}  # and no variable of a CI, which would silence it too
    done = subprocess.run([sys.executable, "-c", search], env=alone, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("*")) == []
