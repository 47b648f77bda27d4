"""The pages of the deep layer show what its command measured."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import deep_tables  # noqa: E402


@pytest.mark.parametrize("name", deep_tables.FRAGMENTS)
def test_a_fragment_shows_the_results(name: str) -> None:
    shown = (deep_tables.TABLES / f"{name}.md").read_text(encoding="utf-8")
    assert shown == "\n".join(deep_tables.FRAGMENTS[name]()) + "\n"
    assert f"docs/results/tables/{name}.md" in (ROOT / "docs" / "deep.md").read_text(encoding="utf-8")
