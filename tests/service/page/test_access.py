"""The page for everyone: axe finds nothing, a phone shows all of it, the keyboard reaches all of it.

axe-core lies beside these tests with its licence, so that they run without a network.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from tests.service.page.conftest import OpenTab, Tab

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

AXE = Path(__file__).parent.parent / "vendor" / "axe-core" / "axe.min.js"

PHONE = {"width": 360, "height": 740}


@pytest.fixture
def spoken(tmp_path: Path, speech: NDArray[np.float32]) -> Path:
    sf.write(path := tmp_path / "a-recording-with-a-long-name-that-nobody-would-break-anywhere.wav", speech, 16_000)
    return path


def barriers(tab: Tab) -> list[Any]:
    """What axe finds that keeps people from using the page, or makes it harder."""
    tab.page.evaluate(AXE.read_text("utf-8"))
    found = tab.page.evaluate("axe.run()")["violations"]
    return [(one["id"], one["impact"], [node["html"] for node in one["nodes"]]) for one in found]


@pytest.mark.parametrize(("scheme", "viewport"), [("dark", PHONE), ("light", {"width": 1280, "height": 900})])
def test_axe_finds_nothing_and_nothing_is_cut_off(
    open_tab: OpenTab, spoken: Path, scheme: str, viewport: dict[str, int]
) -> None:
    tab = open_tab(color_scheme=scheme, viewport=viewport)
    wider = "document.documentElement.scrollWidth - innerWidth"
    assert barriers(tab) == []
    assert tab.page.evaluate(wider) <= 0
    tab.load(spoken)
    tab.mark("a long one")
    tab.page.click("#attacks .try >> nth=4")
    tab.page.wait_for_selector("#attacks .outcome")
    tab.page.click("#work summary")
    assert barriers(tab) == []
    assert tab.page.evaluate(wider) <= 0
    tab.page.set_input_files("#file", {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no audio"})
    tab.expected.append("415")
    tab.page.wait_for_selector("#problem:visible")
    assert barriers(tab) == []


def test_light_and_dark_differ(open_tab: OpenTab) -> None:
    grounds = [
        open_tab(color_scheme=scheme).page.evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert grounds[0] != grounds[1]


def test_the_keyboard_alone_marks_and_plays(tab: Tab) -> None:
    press = tab.page.keyboard.press

    def go_to(selector: str) -> None:
        for _ in range(80):
            press("Tab")
            if tab.page.evaluate("selector => document.activeElement.matches(selector)", selector):
                outline = tab.page.evaluate(
                    """() => {
                      const shown = [document.activeElement, document.activeElement.nextElementSibling];
                      return shown.some((one) => one && getComputedStyle(one).outlineStyle === "solid");
                    }"""
                )
                assert outline, f"{selector} does not show that it has the focus"
                return
        raise AssertionError(f"the Tab key does not reach {selector}")

    go_to("#file")
    go_to("#sample")
    press("Enter")
    tab.page.wait_for_selector("#work:visible")
    tab.rest()
    go_to("#message")
    tab.page.keyboard.type("keys")
    go_to("#strengths input")
    press("ArrowRight")
    assert "1 dB above" in tab.text("#strength-hint")
    go_to("#mark button[type=submit]")
    press("Enter")
    tab.rest()
    assert tab.text("#answer-title") == "Marked, and read back: “keys”"
    go_to("#download")
    go_to("#play")
    press(" ")
    assert tab.text("#play") == "Pause"
    press(" ")
    assert tab.text("#play") == "Play"
    go_to("#voices input")
    go_to("#seek")
    go_to("#attacks .try")
    press("Enter")
    tab.page.wait_for_selector("#attacks .outcome")


def test_answers_are_announced(tab: Tab, spoken: Path) -> None:
    tab.load(spoken)
    tab.mark()
    assert tab.page.eval_on_selector("#answer-title", "one => one.closest('[aria-live=polite]') !== null")
    for selector, role in (("#problem", "alert"), ("#status", "status")):
        assert tab.page.get_attribute(selector, "role") == role
    for picture in ("waveform", "spectrum", "difference", "masked"):
        assert len(tab.page.get_attribute(f"#{picture}", "aria-label")) > 20


def test_what_will_speak_is_there_before_it_does(tab: Tab) -> None:
    """Many screen readers tell the changes of a region only if they knew it before."""
    shown = "one => getComputedStyle(one).display !== 'none' && one.closest('[hidden]') === null"
    assert tab.page.eval_on_selector("[aria-live]:has(#answer)", shown)
    assert tab.page.eval_on_selector("#status", shown)
    assert tab.page.eval_on_selector("#status", "one => one.offsetHeight") == 0
    assert not tab.page.is_visible("#answer")


def test_nothing_turns_for_who_wants_no_motion(open_tab: OpenTab) -> None:
    turning = "getComputedStyle(document.getElementById('status'), '::before').animationName"
    assert open_tab(reduced_motion="reduce").page.evaluate(turning) == "none"
    assert open_tab(reduced_motion="no-preference").page.evaluate(turning) == "turn"
