"""Checkpoints are replaced whole or not at all."""

import os
from pathlib import Path

import pytest
import torch

from ideaw.train import checkpoint

ONE, TWO = ({"model": {"weight": torch.full((2, 3), value)}} for value in (1.0, 2.0))


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path / "run") is None
    checkpoint.save(tmp_path / "run", ONE, {"step": 1})
    checkpoint.save(tmp_path / "run", TWO, {"step": 2})
    loaded = checkpoint.load(tmp_path / "run")
    assert loaded is not None
    assert torch.equal(loaded[0]["model"]["weight"], TWO["model"]["weight"])
    assert loaded[1] == {"step": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_save_that_breaks_off_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "run", ONE, {"step": 1})
    with pytest.raises(TypeError):
        checkpoint.save(tmp_path / "run", TWO, {"step": object()})
    loaded = checkpoint.load(tmp_path / "run")
    assert loaded is not None
    assert loaded[1] == {"step": 1}
    # Broken off between the two renames: only the old one is there.
    os.replace(tmp_path / "run", tmp_path / "run.old")
    loaded = checkpoint.load(tmp_path / "run")
    assert loaded is not None
    assert loaded[1] == {"step": 1}
