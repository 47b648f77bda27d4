"""The report for auditors: every figure with its age, hashes that a shell takes too, and nothing from elsewhere."""

import json
import re
import subprocess
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest

from ideaw.evidence import installed, report
from ideaw.evidence.figures import Figure, Measurement
from tests.cli.conftest import run


class Page(HTMLParser):
    """What a page loads and links to, and what it says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "srcset", "href", "action", "data")]
        assert tag not in ("script", "link", "iframe")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report as the command writes it."""
    path = tmp_path_factory.mktemp("evidence") / "report.html"
    ran = run("evidence", "--out", path)
    assert (ran.code, ran.err) == (0, "")
    return path.read_text("utf-8")


def test_a_report_is_dated_and_loads_nothing(page: str) -> None:
    parsed = Page(page)
    assert parsed.addresses == []
    assert re.search(r"url\(|@import", page) is None
    assert re.search(r"Made on 20\d\d-\d\d-\d\d \d\d:\d\d UTC", page)
    assert "no legal advice" in page


def test_every_figure_says_how_and_with_what_it_was_made(page: str) -> None:
    text = " ".join(Page(page).words)
    content = json.loads(run("evidence", "--json").out)
    shown = [name for _, names in report.CHAPTERS.values() for name in names]
    assert sorted(shown) == sorted(content["figures"]["figures"]) == sorted(report.TITLES)
    for name, figure in content["figures"]["figures"].items():
        for source in figure["sources"]:
            assert source["command"] in text
        if figure["rows"]:
            assert f"{report.TITLES[name]}. Made with: " in text
            assert re.search(r"\d", figure["note"])
        else:
            assert f"{report.TITLES[name]}: not measured." in text


def test_figures_of_several_ages_name_each() -> None:
    sources = [Measurement("a", "make a", "this version"), Measurement("b", "make b", "an earlier engine")]
    assert Figure(sources, [], [], "").age == "this version (a); an earlier engine (b)"
    assert Figure(sources[:1] * 2, [], [], "").age == "this version"


def test_the_digest_of_the_package_is_that_of_a_shell(page: str) -> None:
    folder = Path(str(resources.files("ideaw")))
    command = ["bash", "-c", installed.PACKAGE_COMMAND]
    shell = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert shell.stdout.strip() in Page(page).words
    assert {name: installed.hashes()[name] for name in installed.PACKAGED_SHA256} == installed.PACKAGED_SHA256
    assert "Weights: As released." in page


def test_a_changed_file_of_the_network_is_named() -> None:
    assert installed.changed_weights(installed.hashes() | {"mark.onnx": "0" * 64}) == ["mark.onnx"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give --out report.html"),
        (("--out", "report.pdf"), "use one of .html"),
        (("--out", "no/r.html"), "make it"),
    ],
)
def test_a_report_that_cannot_be_written_is_one_line(arguments: tuple[str, ...], says: str) -> None:
    ran = run("evidence", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err
