"""`train` and `export`: from a recipe and a folder of audio to a model that other commands take."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from tests.cli.conftest import run

TINY = """
net: {message_bits: 22, message_blocks: 1, code_blocks: 1, message_width: 8, code_width: 8, balance_width: 8}
attacks: {noise: 0.5}
steps: 50
batch: 64
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32]) -> Path:
    """A recipe of a tiny network, and audio to train it on."""
    path = tmp_path_factory.mktemp("train")
    (path / "tiny.yaml").write_text(TINY)
    (path / "audio").mkdir()
    for number in range(3):
        sf.write(path / "audio" / f"{number}.wav", speech[number * 32_000 :][:32_000], 16_000)
    return path


@pytest.mark.slow
def test_a_recipe_becomes_a_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    ran = run("train", "tiny.yaml", "--data", "audio", "--batch", "2", "--steps", "2", "--validate-on", "8")
    assert ran.code == 0
    assert ran.out.startswith("runs/tiny: clean 0.")
    assert json.loads(Path("runs/tiny/log.jsonl").read_text().splitlines()[-1])["step"] == 2

    assert run("export", "runs/tiny", "model").code == 0
    card = json.loads(run("models", "model", "--json").out)
    assert (card["name"], card["trained"]["steps"]) == ("22+10", 2)
    assert run("embed", "audio/0.wav", "out.wav", "-m", "a", "--model", "model").code == 0


def test_what_cannot_be_trained_or_exported_is_one_line(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("stepz: 1")
    for arguments, says in (
        (("train", tmp_path / "none.yaml", "--data", folder / "audio"), "none.yaml"),
        (("train", tmp_path / "bad.yaml", "--data", folder / "audio"), "stepz"),
        (("train", folder / "tiny.yaml", "--data", tmp_path / "none", "--out", tmp_path / "run"), "none"),
        (("export", tmp_path, tmp_path / "model"), "no checkpoint"),
    ):
        ran = run(*arguments)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert says in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]
