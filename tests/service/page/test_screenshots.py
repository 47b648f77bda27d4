"""The pictures in the documentation: the command makes them, and they show the page as it is laid out now."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]


def test_the_pictures_of_the_documentation_can_be_made_again(tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api")
    images = pytest.importorskip("PIL.Image")
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    subprocess.run([sys.executable, REPOSITORY / "tools" / "screenshots.py", tmp_path], check=True, capture_output=True)
    shown = {path.name: path for path in (REPOSITORY / "docs" / "assets").glob("page-*.png")}
    assert {path.name for path in tmp_path.iterdir()} == set(shown)
    text = (REPOSITORY / "docs" / "users" / "page.md").read_text("utf-8")
    for name, path in shown.items():
        assert f"assets/{name})" in text
        (made, kept) = (images.open(one).size for one in (tmp_path / name, path))
        assert made[0] == kept[0]
        assert abs(made[1] / kept[1] - 1) < 0.2  # fonts of another machine may break lines elsewhere
