"""The listening test: what its page holds, and that a browser plays, draws and counts as it says.

The browser is Debian's chromium, driven by Playwright; where one of them is not installed, its tests are skipped.
"""

import base64
import io
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.bench import listen
from ideaw.bench.statistics import wilson_interval
from ideaw.errors import AudioError, FileError
from tests.cli.conftest import run

SECONDS = 5.0
PER_CLIP = 2
TRIALS = {"marked": 2 * PER_CLIP, "anchor": 8, "same": 8}
"""Of two clips with two trials each: controls are at least eight of each kind."""

RECORDER = """
window.started = [];
window.targets = [];
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (when) {
  const energy = this.buffer.getChannelData(0).reduce((sum, sample) => sum + sample * sample, 0);
  window.started.push({ when, energy, rate: this.buffer.sampleRate, loop: this.loop });
  return start.call(this, when);
};
const approach = AudioParam.prototype.setTargetAtTime;
AudioParam.prototype.setTargetAtTime = function (value, when, constant) {
  window.targets.push({ value, when, constant });
  return approach.call(this, value, when, constant);
};
"""
"""Keeps what the page plays, which the page itself shows to nobody."""


def read_data(page: Path) -> dict[str, Any]:
    (content,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', page.read_text("utf-8"))
    return json.loads(content)


def decoded(clip: dict[str, Any], version: str) -> NDArray[np.float64]:
    samples, rate = sf.read(io.BytesIO(base64.b64decode(clip[version])), always_2d=True)
    assert rate == clip["rate"]
    return samples


def guessing(right: int, trials: int) -> float:
    return sum(math.comb(trials, k) for k in range(right, trials + 1)) / 2**trials


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32], music: NDArray[np.float32]) -> Path:
    """Speech, music, and a file that is too short."""
    folder = tmp_path_factory.mktemp("audio")
    (folder / "talk").mkdir()
    sf.write(folder / "talk" / "reading.flac", speech, 16_000)
    sf.write(folder / "music.wav", music, 44_100)
    sf.write(folder / "short.wav", speech[:48_000], 16_000)
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    written = listen.run(folder, tmp_path_factory.mktemp("page") / "new", seconds=SECONDS, layers="fast")
    assert (written.clips, written.too_short) == (2, 1)
    return written.path


@pytest.mark.slow
def test_the_page_holds_each_clip_plain_marked_and_with_an_anchor(page: Path, folder: Path) -> None:
    data, marker = read_data(page), ideaw.load()
    assert (data["model"], data["snr"], data["anchor_db"]) == (marker.card.name, None, 20)
    assert [(clip["name"], clip["rate"]) for clip in data["clips"]] == [
        ("music.wav", 44_100),
        ("talk/reading.flac", 16_000),
    ]
    for clip in data["clips"]:
        whole, rate = sf.read(folder / clip["name"], always_2d=True)
        length = round(SECONDS * rate)
        begin = (len(whole) - length) // 2
        excerpt = whole[begin : begin + length]
        host, marked, anchor = (decoded(clip, version) for version in ("host", "marked", "anchor"))
        assert host.shape == marked.shape == anchor.shape == excerpt.shape
        inner = slice(rate // 10, -rate // 10)  # both ends fade
        assert np.abs(host - excerpt)[inner].max() < listen.LISTEN_STEP
        expected = marker.embed(excerpt, rate, (1, 0, 1), layers="fast")
        assert np.abs(marked - expected)[inner].max() < 2 * listen.LISTEN_STEP
        assert np.abs(anchor - host - 10 * (marked - host)).max() < 12 * listen.LISTEN_STEP
        assert all(version[0].any() == 0 for version in (host, marked, anchor))
        assert clip["snr"] == pytest.approx(10 * np.log10((host**2).sum() / ((marked - host) ** 2).sum()), abs=0.2)
        assert marker.detect(marked, rate).message == (1, 0, 1)


@pytest.mark.slow
def test_all_versions_are_fainter_alike_where_the_anchor_would_clip(tmp_path: Path, music: NDArray[np.float32]) -> None:
    loud = music / np.abs(music).max()
    sf.write(tmp_path / "loud.wav", loud, 44_100, subtype="FLOAT")
    sounds = listen.make_versions(ideaw.load(), tmp_path / "loud.wav", SECONDS, (20, None)).sounds
    peaks = {name: np.abs(samples).max() for name, samples in sounds.items()}
    assert peaks["anchor"] <= 1 - listen.LISTEN_STEP
    assert max(peaks.values()) == pytest.approx(1, abs=1e-3)
    begin = (len(loud) - len(sounds["host"])) // 2 + 4_410
    host = sounds["host"][4_410:-4_410]
    gains = host[np.abs(host) > 0.1] / loud[begin : begin + len(host)][np.abs(host) > 0.1]
    assert gains.max() - gains.min() < 1e-4
    assert gains.mean() < 0.99
    residual, louder = (sounds[name] - sounds["host"] for name in ("marked", "anchor"))
    assert np.abs(louder - 10 * residual).max() < 12 * listen.LISTEN_STEP


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_a_name_cannot_end_the_data(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    (tmp_path / "a<").mkdir()
    sf.write(tmp_path / "a<" / "script>.wav", speech, 16_000)
    written = listen.run(tmp_path, tmp_path, seconds=2)
    assert "a</script>.wav" not in written.path.read_text("utf-8")
    assert read_data(written.path)["clips"][0]["name"] == "a</script>.wav"


def test_what_cannot_be_listened_to_is_refused(tmp_path: Path, folder: Path, speech: NDArray[np.float32]) -> None:
    with pytest.raises(FileError, match="no audio files"):
        listen.run(tmp_path, tmp_path / "out")
    with pytest.raises(FileError, match="no audio file of 20 s or more; choose fewer seconds"):
        listen.run(folder, tmp_path / "out", seconds=20)
    assert list(tmp_path.iterdir()) == []
    sf.write(tmp_path / "silent.wav", 0 * speech, 16_000)
    with pytest.raises(AudioError, match=r"silent\.wav"):
        listen.run(tmp_path, tmp_path / "out")
    sf.write(tmp_path / "silent.wav", np.zeros((96_000, 9)), 16_000)
    with pytest.raises(FileError, match="9 channels"):
        listen.run(tmp_path, tmp_path / "out")
    with pytest.raises(FileError):
        listen.run(folder, tmp_path / "silent.wav")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
def test_the_command_says_what_it_wrote(tmp_path: Path, folder: Path) -> None:
    ran = run("bench", "listen", "--data", folder, "--out", tmp_path, "--limit", "1", "--seconds", "4", "--snr", "35")
    assert (ran.code, ran.err) == (0, "")
    assert f"{tmp_path / 'listen.html'}: model 46+10, 1 clips of 4 s; 1 shorter files left out" in ran.out
    assert read_data(tmp_path / "listen.html")["snr"] == 35
    ran = run("bench", "listen", "--data", tmp_path, "--out", tmp_path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


# ---- In a browser


@pytest.fixture
def tab(browser: Any, page: Path) -> Iterator[Any]:
    """The page, opened from disk; nothing else may be requested, and no error may occur."""
    context = browser.new_context()
    context.add_init_script(RECORDER)
    requested: list[str] = []
    problems: list[str] = []
    context.on("request", lambda request: requested.append(request.url))
    tab = context.new_page()
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda line: problems.append(line.text) if line.type in ("error", "warning") else None)
    tab.goto(page.as_uri())
    yield tab
    assert [url for url in requested if not url.startswith(("file:", "data:", "blob:"))] == []
    assert problems == []
    context.close()


def begin(tab: Any) -> None:
    tab.select_option("#per-clip", str(PER_CLIP))
    tab.click("#begin")
    ready(tab)


def ready(tab: Any) -> None:
    tab.wait_for_selector("#results:visible, #trial:visible [data-play='0']:enabled")


def answer(tab: Any, choice: str = "A") -> None:
    """One trial by clicks, with an answer that depends on nothing."""
    for voice in (0, 1, 2):
        tab.click(f'[data-play="{voice}"]')
    tab.click(f'[data-answer="{choice}"]')
    ready(tab)


def downloaded(tab: Any, folder: Path) -> dict[str, Any]:
    with tab.expect_download() as download:
        tab.click("#download")
    download.value.save_as(folder / "results.json")
    return json.loads((folder / "results.json").read_text("utf-8"))


def stored(tab: Any) -> dict[str, Any]:
    return json.loads(tab.evaluate("Object.values(localStorage)[0]"))


@pytest.mark.slow
def test_a_whole_test_is_played_and_counted_as_it_says(tab: Any, page: Path, tmp_path: Path) -> None:
    begin(tab)
    looks = set()
    for number in range(sum(TRIALS.values())):
        assert tab.inner_text("#count") == f"Trial {number + 1} of {sum(TRIALS.values())}"
        looks.add(re.sub(r'Trial \d+| style="width: [^"]*"', "", tab.inner_html("#trial")))
        answer(tab)
    assert len(looks) == 1  # whatever was drawn, nothing of it is on the page

    results = downloaded(tab, tmp_path)
    trials = results["trials"]
    assert results["unanswered"] == 0
    assert {kind: sum(one["kind"] == kind for one in trials) for kind in TRIALS} == TRIALS
    assert {one["x"] for one in trials} == {"A", "B"}
    assert [one["right"] for one in trials] == [one["x"] == "A" for one in trials]

    energies = {
        (clip["name"], version): np.square(decoded(clip, version)[:, 0]).sum()
        for clip in read_data(page)["clips"]
        for version in ("host", "marked", "anchor")
    }
    rates = {clip["name"]: clip["rate"] for clip in read_data(page)["clips"]}
    started = tab.evaluate("started")
    assert len(started) == 3 * len(trials)
    for number, one in enumerate(trials):
        voices = started[3 * number : 3 * number + 3]
        other = {"marked": "marked", "anchor": "anchor", "same": "host"}[one["kind"]]
        played = ["host", other, "host" if one["x"] == "A" else other]
        for voice, version in zip(voices, played, strict=True):
            assert voice["energy"] == pytest.approx(energies[one["clip"], version], rel=1e-6)
            assert (voice["rate"], voice["loop"], voice["when"]) == (rates[one["clip"]], True, voices[0]["when"])

    rows = tab.eval_on_selector_all("#kinds tbody tr", "rows => rows.map(row => [...row.cells].map(c => c.innerText))")
    for kind, row in zip(TRIALS, rows, strict=True):
        found = results["statistics"]["kinds"][kind]
        right = sum(one["right"] for one in trials if one["kind"] == kind)
        assert (found["right"], found["right"] + found["wrong"], found["trials"]) == (right, TRIALS[kind], TRIALS[kind])
        assert found["p"] == pytest.approx(guessing(right, TRIALS[kind]), rel=1e-9)
        assert found["interval"] == pytest.approx(wilson_interval(right, TRIALS[kind]), abs=1e-9)
        assert row[1] == f"{right} of {TRIALS[kind]}"
        assert float(row[2]) == pytest.approx(guessing(right, TRIALS[kind]), rel=6e-3)
    for clip in results["statistics"]["clips"]:
        assert sum(clip[kind]["trials"] for kind in TRIALS) == sum(one["clip"] == clip["name"] for one in trials)
    assert tab.inner_text("#verdict") == results["verdict"] != ""


@pytest.mark.slow
def test_a_switch_is_a_short_fade_in_which_the_gains_add_up_to_one(tab: Any) -> None:
    begin(tab)
    for voice in (2, 0, 1, 2):
        tab.click(f'[data-play="{voice}"]')
        assert tab.get_attribute(f'[data-play="{voice}"]', "aria-pressed") == "true"
    while len(targets := tab.evaluate("targets")) < 16:
        tab.wait_for_timeout(20)
    for first in range(0, 16, 4):  # of A, B, X and of all together
        switch = targets[first : first + 4]
        assert sorted(target["value"] for target in switch[:3]) == [0, 0, 1]
        assert {target["when"] for target in switch} == {switch[0]["when"]}
        assert all(0.001 <= target["constant"] <= 0.01 for target in switch)


@pytest.mark.slow
def test_a_reload_goes_on_and_keeps_nothing_that_tells(tab: Any) -> None:
    begin(tab)
    for _ in range(3):
        answer(tab)
    assert set(stored(tab)) == {"perClip", "ended", "answers"}
    assert len(stored(tab)["answers"]) == 3  # nothing of the fourth
    tab.reload()
    ready(tab)
    assert tab.inner_text("#count") == f"Trial 4 of {sum(TRIALS.values())}"
    while tab.is_visible("#trial"):
        answer(tab, "B")
    answers = stored(tab)["answers"]
    assert {kind: sum(one["kind"] == kind for one in answers) for kind in TRIALS} == TRIALS
    shown = tab.inner_text("#results")
    tab.reload()
    assert tab.inner_text("#results") == shown


@pytest.mark.slow
def test_the_keyboard_does_it_all(tab: Any) -> None:
    begin(tab)
    for key, choice in (("a", "A"), ("b", "B"), ("ArrowLeft", "A"), ("ArrowRight", "B")):
        before = tab.inner_text("#count")
        tab.keyboard.press(key)  # X was not heard yet
        assert tab.inner_text("#count") == before
        for voice in (1, 2, 3):
            tab.keyboard.press(str(voice))
            assert tab.get_attribute(f'[data-play="{voice - 1}"]', "aria-pressed") == "true"
        tab.focus('[data-answer="A"]')
        tab.keyboard.press(" ")  # pauses, and does not press what has the focus
        assert (tab.inner_text("#pause"), tab.inner_text("#count")) == ("Go on", before)
        tab.keyboard.press(" ")
        assert tab.inner_text("#pause") == "Pause"
        tab.keyboard.press(key)
        ready(tab)
        assert stored(tab)["answers"][-1]["answer"] == choice
    assert tab.inner_text("#count").startswith("Trial 5 of")


@pytest.mark.slow
def test_a_test_may_be_stopped_and_started_over(tab: Any, tmp_path: Path) -> None:
    tab.on("dialog", lambda dialog: dialog.accept())
    begin(tab)
    answer(tab)
    tab.click("#stop")
    assert downloaded(tab, tmp_path)["unanswered"] == sum(TRIALS.values()) - 1
    assert f"{sum(TRIALS.values()) - 1} trials were not answered" in tab.inner_text("#stopped")
    tab.click("#again")
    assert tab.is_visible("#start")
    assert tab.evaluate("localStorage.length") == 0


VERDICTS = [
    ({"marked": 1.0, "anchor": 1.0, "same": 0.5}, "You heard the mark"),
    ({"marked": 0.5, "anchor": 1.0, "same": 0.5}, "no sign that you heard the mark"),
    ({"marked": 0.5, "anchor": 0.5, "same": 0.5}, "missed even the much louder anchor"),
    ({"marked": 1.0, "anchor": 1.0, "same": 1.0}, "does not count"),
]
"""Share of right answers of each kind, and what the page says of it."""


@pytest.mark.slow
@pytest.mark.parametrize(("shares", "says"), VERDICTS)
def test_the_verdict_follows_from_the_answers(tab: Any, page: Path, shares: dict[str, float], says: str) -> None:
    counts = {"marked": 8, "anchor": 4, "same": 4}
    answers = [
        {"clip": clip, "kind": kind, "x": "A", "answer": "A" if number < share * counts[kind] else "B", "seconds": 1}
        for kind, share in shares.items()
        for clip in (0, 1)
        for number in range(counts[kind])
    ]
    state = json.dumps({"perClip": 8, "ended": True, "answers": answers})
    tab.evaluate(
        "([name, state]) => localStorage.setItem(name, state)", [f"ideaw-listen-{read_data(page)['id']}", state]
    )
    tab.reload()
    assert says in tab.inner_text("#verdict")
