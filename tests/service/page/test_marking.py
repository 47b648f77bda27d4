"""Marking and looking on the page: what is downloaded holds what was typed, for whoever reads it."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.keys import Key
from ideaw.quality.fidelity import lowest_snr
from tests.service.page.conftest import Tab

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, speech: NDArray, music: NDArray) -> dict[str, Path]:
    """The same kinds of audio as people have them."""
    folder = tmp_path_factory.mktemp("files")
    paths = {name: folder / f"a recording.{name}" for name in ("wav", "mp3", "flac")}
    sf.write(paths["wav"], speech, 16_000)
    sf.write(paths["mp3"], music, 44_100)
    sf.write(paths["flac"], music, 44_100, subtype="PCM_24")
    return paths


@pytest.mark.parametrize("kind", ["wav", "mp3", "flac"])
def test_a_file_is_marked_downloaded_and_found_again(
    tab: Tab, files: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    source = files[kind]
    tab.load(source)
    assert tab.mark("ab12") == "Marked, and read back: “ab12”"
    marked = tab.save(tmp_path)
    assert marked.name == f"a recording-marked.{kind}"
    before, after = sf.info(source), sf.info(marked)
    assert (after.format, after.subtype, after.samplerate, after.channels) == (
        before.format,
        before.subtype,
        before.samplerate,
        before.channels,
    )
    assert after.frames == before.frames
    assert ideaw.detect_file(marked).message == "ab12"

    tab.load(marked)
    assert not tab.page.is_visible("#answer")
    assert tab.look() == "Found: “ab12”"
    assert "with the public key" in tab.text("#answer-reason")
    assert "does not prove who made it" in tab.text("#answer-note")
    assert tab.problem() == ""


def test_an_unmarked_file_has_no_mark_and_the_answer_says_what_was_tried(tab: Tab, files: dict[str, Path]) -> None:
    tab.load(files["wav"])
    tab.page.select_option("#speeds", "none")
    assert tab.look() == "No mark found."
    assert "Looked in a recording.wav for marks of the public key, at its own speed." in tab.text("#answer-reason")
    assert "this is what audio without a mark looks like" in tab.text("#answer-reason")
    assert "does not show that there never was one" in tab.text("#answer-note")
    assert not tab.page.is_visible("#playground")
    assert not tab.page.is_visible("#download")


def test_a_mark_of_which_too_little_is_left_is_told_from_none(
    tab: Tab, tmp_path: Path, music: NDArray[np.float32]
) -> None:
    marked = ideaw.load().embed(
        np.tile(music, (3, 1)), 44_100, "more letters than a second has room for, however it is coded"
    )
    sf.write(cut := tmp_path / "cut.wav", marked[: 5 * 44_100 // 4], 44_100)
    tab.load(cut)
    assert tab.look() == "A mark is there, but its message cannot be read."
    assert "is marked with the public key" in tab.text("#answer-reason")
    assert "a part of a long message is missing" in tab.text("#answer-note")


def test_a_mark_with_a_key_is_read_with_that_key_only(tab: Tab, files: dict[str, Path], tmp_path: Path) -> None:
    Key.fresh().write(key := tmp_path / "studio.key")
    tab.load(files["wav"])
    tab.page.click("#work summary")
    tab.page.set_input_files("#key", key)
    assert tab.text("#key-name") == "studio.key"
    assert tab.mark("mine") == "Marked, and read back: “mine”"
    assert "with your key" in tab.text("#answer-reason")
    marked = tab.save(tmp_path)
    assert ideaw.load(key=Key.read(key)).detect_file(marked).message == "mine"

    tab.load(marked)
    assert tab.look() == "Found: “mine”"
    made = tab.save(tmp_path, "#new-key")
    assert tab.text("#key-name") == made.name
    assert tab.mark("anew") == "Marked, and read back: “anew”"
    assert ideaw.load(key=Key.read(made)).detect_file(tab.save(tmp_path)).message == "anew"
    tab.page.click("#no-key")
    assert tab.text("#key-name") == "the public one, that everybody has"
    assert tab.look() == "No mark found."


def test_a_message_that_is_not_read_back_is_told(tab: Tab, tmp_path: Path, speech: NDArray[np.float32]) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 5 * 16_000)  # it needs more than the second that is left
    sf.write(path := tmp_path / "noise.wav", np.concatenate([speech[: -len(noise)], noise]), 16_000)
    tab.load(path)
    assert tab.mark("x" * ideaw.load().capacity(6)) == "Marked, but the message cannot be read back."
    assert "shorter message" in tab.text("#answer-note")


@pytest.mark.parametrize(
    ("kind", "message", "content", "read"),
    [
        ("hex", "0A 1b", b"\x0a\x1b", "bytes 0a1b"),
        ("bits", "0110", (0, 1, 1, 0), "bits 0110"),
        ("text", "A longer", "A longer", "“A longer”"),
        ("text", "<b>é", "<b>é", "“<b>é”"),
    ],
)
def test_messages_may_be_bytes_bits_and_long(
    tab: Tab, files: dict[str, Path], tmp_path: Path, kind: str, message: str, content: object, read: str
) -> None:
    tab.load(files["wav"])
    assert tab.mark(message, kind) == f"Marked, and read back: {read}"
    assert ideaw.detect_file(tab.save(tmp_path)).message == content


def test_the_page_knows_as_the_engine_does_what_fits(tab: Tab) -> None:
    fits = """async ([length, seconds]) => {
      const { measure } = await import("/static/message.js");
      const { capacity } = await (await fetch("/v1/info")).json();
      return measure("x".repeat(length), "text", seconds, capacity).fits;
    }"""
    for seconds in (1.0, 3.7, 6.0, 1000.0):
        most = ideaw.load().capacity(seconds)
        assert tab.page.evaluate(fits, [most, seconds])
        assert not tab.page.evaluate(fits, [most + 1, seconds])


def test_what_is_typed_is_measured_at_once(tab: Tab, files: dict[str, Path]) -> None:
    tab.load(files["wav"])
    assert tab.text("#fits") == "Up to 4 bytes are in every second; this audio holds 23 bytes at most."
    for kind, message, says in (
        ("text", "é", "2 bytes: in every second of the audio."),
        ("text", "abcde", "5 bytes: spread over 3 seconds, of which a copy must hold as many."),
        ("text", "a" * 24, "24 bytes: too long."),
        ("hex", "0a1", "Bytes are written in pairs of hexadecimal digits"),
        ("hex", "0a 1b", "2 bytes: in every second of the audio."),
        ("bits", "012", "Bits are written in 0 and 1."),
        ("bits", "1", "1 bit: in every second of the audio."),
    ):
        tab.page.select_option("#kind", kind)
        tab.page.fill("#message", message)
        assert tab.text("#fits").startswith(says)


@pytest.mark.parametrize(
    ("strength", "ratio"), [("Stronger", "1 dB above"), ("Standard", "3 dB below"), ("Fainter", "7 dB below")]
)
def test_the_mark_is_as_strong_as_was_chosen(tab: Tab, files: dict[str, Path], strength: str, ratio: str) -> None:
    tab.load(files["flac"])
    tab.page.get_by_label(strength).check()
    assert f"n average {ratio} what the audio masks" in tab.text("#strength-hint")
    assert tab.mark() == "Marked, and read back: “ab12”"
    pattern = r"On average what is added besides is (\S+) dB (above|below) the masking threshold"
    decibels, side = re.findall(pattern, tab.text("#facts"))[0]
    assert side == ratio.split()[-1]
    # Set channel by channel, and told of their mix, with what the estimate of changes of loudness leaves.
    assert float(decibels) == pytest.approx(float(ratio[0]), abs=2)


def test_a_fixed_level_is_kept_in_every_second(tab: Tab, files: dict[str, Path], tmp_path: Path) -> None:
    tab.load(files["flac"])
    tab.page.get_by_label("Fixed").check()
    assert "At least 38 dB below the audio" in tab.text("#strength-hint")
    tab.mark()
    (host, rate), (marked, _) = (sf.read(path, always_2d=True) for path in (files["flac"], tab.save(tmp_path)))
    assert 37.9 < lowest_snr(host, marked, rate) < 45


def test_audio_too_long_to_be_drawn_is_searched_all_the_same(
    tab: Tab, tmp_path: Path, music: NDArray[np.float32]
) -> None:
    tab.expected.append("413")
    marked = ideaw.load().embed(music[:, 0], 44_100, "long")
    most = tab.page.evaluate("fetch('/v1/info').then((answer) => answer.json())")["limits"]["values"]
    channels = np.tile(marked, most // (8 * len(marked)) + 1)[:, None].repeat(8, axis=1)
    sf.write(path := tmp_path / "eight-channels.flac", channels, 44_100)
    tab.load(path)
    assert tab.text("#file-facts").startswith(
        "too long to be drawn and played here; up to 15 min can be marked and searched"
    )
    assert tab.look() == "Found: “long”"
    assert re.match(r"\d+\.\d s of eight-channels\.flac is marked", tab.text("#answer-reason"))
    assert not tab.page.is_visible("#listening")
    assert not tab.page.is_visible("#playground")
    assert tab.problem() == ""


def test_what_the_microphone_hears_can_be_marked(tab: Tab, tmp_path: Path, speech: NDArray[np.float32]) -> None:
    tab.page.click("#record")
    tab.until("Number(document.getElementById('recorded').textContent.split(':')[1]) >= 3")
    assert tab.text("#record") == "Stop recording"
    tab.page.click("#record")
    tab.page.wait_for_selector("#work:visible")
    tab.rest()
    assert tab.text("#record") == "Record"
    assert tab.text("#file-name") == "recording.wav"
    assert tab.mark("mic1") == "Marked, and read back: “mic1”"
    samples, rate = sf.read(path := tab.save(tmp_path))
    assert len(samples) >= 3 * rate
    loudness = np.sqrt(np.square(samples).mean() / np.square(speech).mean())
    assert 0.3 < loudness < 3
    assert ideaw.detect_file(path).message == "mic1"


@pytest.fixture
def microphones(tab: Tab) -> Callable[[], list[str]]:
    """Tells the state of each microphone that the page has opened: live or ended."""
    tab.page.evaluate(
        """() => {
          const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
          window.heard = [];
          navigator.mediaDevices.getUserMedia = async (wanted) => {
            const stream = await open(wanted);
            heard.push(stream);
            return stream;
          };
        }"""
    )
    states = "heard.flatMap((stream) => stream.getTracks().map((track) => track.readyState))"
    return lambda: tab.page.evaluate(states)


def test_the_microphone_is_let_go_when_a_file_is_opened(
    tab: Tab, files: dict[str, Path], microphones: Callable[[], list[str]]
) -> None:
    tab.page.click("#record")
    tab.page.wait_for_selector("#meter:visible")
    tab.load(files["wav"])
    assert tab.text("#record") == "Record"
    assert not tab.page.is_visible("#meter")
    assert microphones() == ["ended"]


def test_a_double_click_leaves_no_microphone_open(tab: Tab, microphones: Callable[[], list[str]]) -> None:
    tab.page.evaluate("for (let i = 0; i < 2; i++) document.getElementById('record').click()")
    tab.rest()
    tab.until("heard.length === 2 && document.getElementById('recorded').textContent > '0:00.3'")
    assert sorted(microphones()) == ["ended", "live"]
    tab.page.click("#record")
    tab.page.wait_for_selector("#work:visible")
    assert microphones() == ["ended", "ended"]


def test_a_file_may_be_dropped_anywhere(tab: Tab, files: dict[str, Path]) -> None:
    content = files["wav"].read_bytes().hex()
    tab.page.evaluate(
        """(hex) => {
          const dropped = new DataTransfer();
          const bytes = Uint8Array.from(hex.match(/../g), (digits) => parseInt(digits, 16));
          dropped.items.add(new File([bytes], "dropped.wav"));
          for (const type of ["dragover", "drop"]) {
            const how = { dataTransfer: dropped, bubbles: true, cancelable: true };
            document.body.dispatchEvent(new DragEvent(type, how));
          }
        }""",
        content,
    )
    tab.page.wait_for_selector("#file-name:text-is('dropped.wav')")
    assert tab.text("#file-facts") == "6.0 s, 16 kHz, mono, 192 kB"


def test_there_is_a_sample_to_try(tab: Tab) -> None:
    tab.page.click("#sample")
    tab.page.wait_for_selector("#work:visible")
    assert tab.text("#file-facts").startswith("6.0 s, 44.1 kHz, stereo")


def test_the_last_thing_that_was_asked_for_wins(tab: Tab, files: dict[str, Path]) -> None:
    tab.load(files["flac"])
    tab.page.fill("#message", "gone")
    tab.page.click("#mark button[type=submit]")
    tab.load(files["wav"])
    assert tab.mark("stay") == "Marked, and read back: “stay”"
    assert tab.text("#file-name") == files["wav"].name
    assert tab.problem() == ""
