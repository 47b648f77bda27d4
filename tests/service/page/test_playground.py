"""The playground: an attack is made, heard, kept, and its outcome told."""

from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from tests.service.page.conftest import Tab

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]


@pytest.fixture
def marked(tab: Tab, tmp_path: Path, speech: NDArray[np.float32]) -> Tab:
    """The page after marking speech."""
    sf.write(path := tmp_path / "speech.wav", speech, 16_000)
    tab.load(path)
    tab.mark()
    return tab


def attack(tab: Tab, label: str) -> str:
    """Press the button of an attack; what is told beside it."""
    row = f"#attacks li:has(.try:text-is('{label}'))"
    tab.page.click(f"{row} .try")
    tab.page.wait_for_selector(f"{row} .outcome")
    tab.rest()
    return tab.text(f"{row} .outcome")


def test_every_attack_of_the_server_has_its_button(tab: Tab) -> None:
    offered = tab.page.evaluate("fetch('/v1/attacks').then((answer) => answer.json())")
    labels = tab.page.eval_on_selector_all("#attacks .try", "all => all.map((one) => one.textContent)")
    assert labels == [one["label"] for one in offered] != []


def test_an_attacked_mark_is_looked_for_at_once(marked: Tab, tmp_path: Path) -> None:
    assert attack(marked, "MP3 64") == "Still found: “ab12”"
    assert attack(marked, "Faster") == "Still found: “ab12”"
    attacked = marked.save(tmp_path, "#attacks a >> nth=1")
    assert attacked.name == "speech-marked-faster.wav"
    detection = ideaw.detect_file(attacked)
    assert (detection.message, detection.speed) == ("ab12", pytest.approx(1.05, abs=0.01))


def test_all_attacks_are_tried_though_one_leaves_too_little(
    tab: Tab, tmp_path: Path, speech: NDArray[np.float32]
) -> None:
    tab.expected.append("422")
    sf.write(path := tmp_path / "short.wav", speech[32_000:46_400], 16_000)
    tab.load(path)
    tab.mark()
    tab.page.click("#all-attacks")
    tab.page.wait_for_selector("#status:not(:empty)")
    tab.rest()
    outcomes = {row[0]: row for row in tab.page.locator("#attacks li").all_inner_texts() for row in [row.split("\n")]}
    assert len(outcomes) == len([row for row in outcomes.values() if "Play" in row]) > 10
    assert "Still found: “ab12”" in outcomes["MP3 64"]
    assert "It cannot be searched. The audio is 0.45 s long; at least 0.5 s is needed." in outcomes["Cut"]
    assert tab.problem() == ""


def test_what_is_attacked_can_be_heard_alone(marked: Tab) -> None:
    attack(marked, "Noise")
    marked.page.click("#play")
    heard = marked.page.locator("#attacks .row button")
    heard.click()
    assert marked.text("#play") == "Play"  # one thing at a time
    assert heard.inner_text() == "Pause"
    marked.page.click("#play")
    marked.until("document.querySelector('#attacks .row button').textContent === 'Play'")
    marked.page.click("#play")


def test_a_new_mark_forgets_the_outcomes(marked: Tab) -> None:
    attack(marked, "Quieter")
    marked.mark("next")
    assert marked.page.locator("#attacks .outcome").count() == 0
    assert attack(marked, "Quieter") == "Still found: “next”"


def test_an_outcome_is_one_of_three(tab: Tab) -> None:
    told = "detection => import('/static/words.js').then(({ outcomeOf }) => outcomeOf(detection))"
    for detection, says in (
        ({"status": "found", "message": "00ff", "kind": "bytes"}, "Still found: bytes 00ff"),
        ({"status": "unreadable", "message": None}, "A mark is there, not readable"),
        ({"status": "none", "message": None}, "Lost: no mark found"),
    ):
        assert tab.page.evaluate(told, detection) == says
