"""What goes wrong is told in one line, to people and to screen readers; and what a stranger may not do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.keys import Key
from tests.service.page.conftest import OpenTab, Tab, serving

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

TOKEN = "a-token-of-more-than-thirty-two-letters"

MAX_MB, MAX_SECONDS = 1.5, 20


@pytest.fixture
def spoken(tmp_path: Path, speech: NDArray[np.float32]) -> Path:
    sf.write(path := tmp_path / "speech.wav", speech, 16_000)
    return path


def test_a_file_that_is_not_audio_is_refused_and_the_page_goes_on(tab: Tab, spoken: Path, tmp_path: Path) -> None:
    tab.expected.append("415")
    (text := tmp_path / "notes.txt").write_text("no audio")
    tab.page.set_input_files("#file", text)
    tab.page.wait_for_selector("#problem:visible")
    assert tab.problem() == "The file is not an audio file of a known format."
    assert not tab.page.is_visible("#work")
    tab.load(spoken)
    assert tab.problem() == ""


def test_a_message_is_needed_and_has_to_fit(tab: Tab, spoken: Path) -> None:
    tab.load(spoken)
    for kind, message, says in (
        ("text", "", "Give a message to put into the audio."),
        ("text", "far too long for six seconds", "28 bytes: too long."),
        ("hex", "xyz", "Bytes are written in pairs of hexadecimal digits"),
    ):
        assert tab.mark(message, kind) == ""
        assert tab.problem().startswith(says)
        assert tab.page.evaluate("document.activeElement.id") == "message"
        assert tab.page.get_attribute("#message", "aria-invalid") == ("true" if message else "false")


def test_a_file_that_is_no_key_is_refused(tab: Tab, spoken: Path, tmp_path: Path) -> None:
    tab.expected.append("400")
    tab.load(spoken)
    for content in ("no key", "00ff"):
        (key := tmp_path / "some.key").write_text(content)
        tab.page.set_input_files("#key", key)
        assert tab.mark() == ""
        assert "key" in tab.problem()


def test_audio_that_no_browser_plays_and_audio_without_samples_are_refused(tab: Tab, tmp_path: Path) -> None:
    tab.expected.append("422")
    for name, samples, rate, says in (
        ("slow.wav", np.ones(4_000), 2_000, "This browser cannot play 2000 Hz in 1 channels; convert the file first."),
        ("empty.wav", np.zeros(0), 16_000, "The audio holds no samples."),
    ):
        sf.write(path := tmp_path / name, samples, rate)
        tab.page.set_input_files("#file", path)
        tab.page.wait_for_selector("#problem:visible")
        assert tab.problem() == says


def test_silence_cannot_be_marked(tab: Tab, tmp_path: Path) -> None:
    tab.expected.append("422")
    sf.write(silent := tmp_path / "silent.wav", np.zeros(48_000), 16_000)
    tab.load(silent)
    assert tab.mark() == ""
    assert tab.problem() != ""
    assert not tab.page.is_visible("#answer")


def busy(line: str) -> Callable[[Any], None]:
    """What answers a request with a line and a time to come again."""
    answer = {"status": 503, "headers": {"Retry-After": "2"}, "json": {"error": line}}
    return lambda route: route.fulfill(**answer)


def test_a_busy_server_says_when_to_try_again(tab: Tab, spoken: Path) -> None:
    tab.expected.append("503")
    tab.load(spoken)
    assert tab.mark("old") == "Marked, and read back: “old”"
    for line, says in (
        ("too much work at once", "Too much work at once; try again in 2 s."),
        (
            "too much is being uploaded at once; try again later",
            "Too much is being uploaded at once; try again in 2 s.",
        ),
        ("more than 3 requests in a minute; wait 2 s", "More than 3 requests in a minute; try again in 2 s."),
    ):
        tab.page.route("**/v1/embed", busy(line))
        assert tab.mark() == ""  # nor is the old answer there any more
        assert tab.problem() == says
        tab.page.unroute("**/v1/embed")
    assert tab.mark() == "Marked, and read back: “ab12”"
    assert tab.problem() == ""


def test_a_server_that_is_gone_is_told(open_tab: OpenTab, spoken: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as other:
        tab = open_tab(other.url)
        tab.load(spoken)
        other.stop()
        tab.expected.append("ERR_CONNECTION_REFUSED")
        assert tab.mark() == ""
        assert tab.problem() == "The server does not answer. Is ideaw serve still running?"


def test_limits_and_tokens_are_explained(open_tab: OpenTab, spoken: Path, tmp_path: Path, speech: NDArray) -> None:
    """One server for all of it, since each takes a while to start."""
    Key.fresh().write(key := tmp_path / "own.key")
    (tokens := tmp_path / "tokens").write_text(f"{TOKEN}\n")
    tokens.chmod(0o600)
    ideaw.load(key=Key.read(key)).embed_file(spoken, marked := tmp_path / "marked.flac", "open")
    sf.write(large := tmp_path / "large.wav", np.tile(speech, 9), 16_000)
    sf.write(long := tmp_path / "long.flac", np.tile(speech, 4), 16_000)
    limits = ("--max-mb", MAX_MB, "--max-seconds", MAX_SECONDS)
    with serving(tmp_path, "--token-file", tokens, "--key", key, *limits) as other:
        tab = open_tab(other.url)
        tab.expected += ["401", "413"]
        assert "up to 1.5 MB" in tab.text("#limits")
        tab.page.set_input_files("#file", large)
        tab.page.wait_for_selector("#problem:visible")
        assert tab.problem() == "large.wav has 1.7 MB; at most 1.5 MB are taken here."

        tab.load(marked)
        assert tab.page.is_visible("#access")
        assert tab.look() == "Found: “open”"
        assert tab.text("#answer-reason") == "All of marked.flac is marked with the server's key."
        assert "0:00.0 to 0:06.0" in tab.text("#facts")
        assert not tab.page.is_visible("#playground")
        tab.mark()
        assert tab.problem() == "This needs an access token: type it at the top of the page, and try again."

        for token, accepted in (("wrong", False), (TOKEN, True)):
            tab.page.fill("#token", token)
            tab.page.click("#access button")
            tab.rest()
            assert tab.page.is_visible("#access") != accepted
            assert (tab.problem() == "") == accepted
            assert tab.look() == "Found: “open”"
        assert "probability" in tab.text("#answer-reason")
        assert tab.page.is_visible("#playground")
        assert tab.page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]

        tab.load(long)
        assert "too long to be drawn and played here; up to 20 s can be marked" in tab.text("#file-facts")
        assert not tab.page.is_visible("#listening")
        tab.look()
        assert "longer than" in tab.problem()
