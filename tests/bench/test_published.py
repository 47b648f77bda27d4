"""README and cards say what was measured, and nothing else."""

import importlib.util
from pathlib import Path

from ideaw.marker import model_names

ROOT = Path(__file__).parent.parent.parent
spec = importlib.util.spec_from_file_location("publish", ROOT / "benchmarks/publish.py")
assert spec
assert spec.loader
publish = importlib.util.module_from_spec(spec)
spec.loader.exec_module(publish)


def test_the_readme_shows_the_results() -> None:
    text = (ROOT / "README.md").read_text()
    assert set(publish.results("segments")) == set(model_names())
    assert publish.readme(text) == text


def test_the_cards_show_the_results() -> None:
    for name in model_names():
        text = (ROOT / "src/ideaw/models" / name / "card.json").read_text()
        assert publish.card(text, name) == text
