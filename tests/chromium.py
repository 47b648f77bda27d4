"""Debian's chromium, driven by Playwright, for every test that opens a page; without it those tests are skipped."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

START_MILLISECONDS = 120_000.0
"""Nothing takes that long, even where much else runs."""


@contextmanager
def chromium(*arguments: str) -> Iterator[Any]:
    """A browser with further arguments; a process can drive one at a time."""
    api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    with api.sync_playwright() as playwright:
        options = {"executable_path": program, "timeout": START_MILLISECONDS}
        opened = playwright.chromium.launch(args=[*ARGUMENTS, *arguments], **options)
        yield opened
        opened.close()
