"""The demo as a site: what it says of its sounds is true of the files that it plays, and a browser plays them all.

The browser is Debian's chromium, driven by Playwright; where one of them is not installed, its tests are skipped.
"""

import functools
import http.server
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.bench.demo import site as demo
from ideaw.bench.demo.clips import packaged_clips
from ideaw.bench.demo.pages import OUTCOMES
from ideaw.bench.demo.site import LIST_FILE, Site, write_site
from ideaw.bench.demo.sounds import TREATMENTS
from ideaw.bench.tables import paper_values
from ideaw.errors import AudioError, FileError
from ideaw.quality.fidelity import snr
from tests.cli.conftest import run

SECONDS = 3.0
SHORTEST = 2.5
"""Seconds of clips whose sounds do not matter; half of it has to be long enough for a search."""

MESSAGE = "IDEA"
HOME = "../index.html"
CLIPS = ("clip-1", "clip-2")
PAGES = ("index.html", *(f"{clip}.html" for clip in CLIPS), "results.html", "listen.html")

AXE = Path(__file__).parent.parent / "service" / "vendor" / "axe-core" / "axe.min.js"


class References(HTMLParser):
    """What a page refers to, and the attributes of its pictures."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.pictures: list[dict[str, str | None]] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value for name, value in attrs if name in ("href", "src") and value]
        if tag == "img":
            self.pictures.append(dict(attrs))


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32], music: NDArray[np.float32]) -> Path:
    """Speech at a rate that MP3 lacks, music, and a file that is too short."""
    folder = tmp_path_factory.mktemp("sounds")
    sf.write(folder / "R&B.wav", music, 44_100)
    sf.write(folder / "talk.flac", np.repeat(speech, 6), 96_000)
    sf.write(folder / "short.wav", speech[:16_000], 16_000)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, folder: Path, marker: ideaw.Marker) -> Site:
    shares: list[float] = []
    into = tmp_path_factory.mktemp("demo") / "new" / "site"
    made = write_site(into, MESSAGE, marker, folder, home=HOME, seconds=SECONDS, progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) == 2
    return made


@pytest.mark.slow
def test_every_reference_leads_to_a_file_and_every_file_is_used(made: Site) -> None:
    files = {path.relative_to(made.path).as_posix() for path in made.path.rglob("*") if path.is_file()}
    targets = {target for name in PAGES for target in References(made.path / name).targets} - {HOME, "data:,", "#main"}
    assert targets | {LIST_FILE} == files
    assert {*json.loads((made.path / LIST_FILE).read_text("utf-8"))["files"], LIST_FILE} == files
    assert made.num_bytes == sum((made.path / file).stat().st_size for file in files)
    assert [path.name for path in made.path.parent.iterdir()] == ["site"]  # nothing temporary is left


@pytest.mark.slow
def test_a_page_says_what_a_search_in_its_files_gives(made: Site, marker: ideaw.Marker) -> None:
    for clip in CLIPS:
        page = unescape((made.path / f"{clip}.html").read_text("utf-8"))
        rows = re.findall(
            r'class="label">(.+?)</span> <span class="tag \w+">(.+?)</span></span> <span class="answer">(.+?)</span>'
            r'</div><audio .*?src="(.+?)">',
            page,
        )
        labels = [treatment.label for treatment in TREATMENTS]
        assert [label for label, *_ in rows] == ["Host, not marked", "Marked, untouched", *labels]
        for label, tag, answer, file in rows:
            detection = marker.detect_file(made.path / file)
            assert answer == str(detection), label
            assert detection.message in (None, MESSAGE)
            assert tag == ("no mark, rightly" if label.startswith("Host") else OUTCOMES[detection.status][1])
        assert rows[1][1] == "message found"


@pytest.mark.slow
@pytest.mark.parametrize(("clip", "rate", "channels"), [("clip-1", 44_100, 2), ("clip-2", 48_000, 1)])
def test_the_players_have_what_they_say(made: Site, clip: str, rate: int, channels: int) -> None:
    sounds = {}
    for name in ("host", "marked", "difference"):
        sounds[name], found_rate = sf.read(made.path / "clips" / clip / f"{name}.flac", always_2d=True)
        assert found_rate == rate
        assert sounds[name].shape == (SECONDS * rate, channels)
    residual = sounds["marked"] - sounds["host"]
    assert np.abs(sounds["difference"] - residual).max() < 2**-15
    page = (made.path / f"{clip}.html").read_text("utf-8")
    assert f"<dt>SNR</dt><dd>{snr(sounds['host'], sounds['marked']):.1f} dB</dd>" in page
    for name, kbps in (("mp3-64", 64), ("mp3-32", 32), ("quieter", 64 * channels)):
        file = made.path / "clips" / clip / f"{name}.mp3"
        seconds = sf.info(file).duration
        assert file.stat().st_size * 8 / 1_000 / seconds == pytest.approx(kbps, rel=0.05), name


@pytest.mark.slow
def test_the_results_are_those_of_the_documentation_beside_the_papers(made: Site) -> None:
    page = (made.path / "results.html").read_text("utf-8")
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?>(.*?)</tr>", page, re.DOTALL)]
    tables = Path(__file__).parent.parent.parent / "docs" / "results" / "tables"
    for name in ("segments", "others", "files", "quality", "unmarked"):
        lines = (tables / f"{name}.md").read_text("utf-8").replace("**", "").splitlines()
        for line in (line for line in lines if line.startswith("| ") and "---" not in line):
            assert [unescape(cell) for cell in line[2:-2].split(" | ")] in [[*map(unescape, row)] for row in rows], name
        assert lines[-1].replace("`", "") in unescape(page)
    for name in ("46+10", "22+10", "10+10"):
        printed = paper_values.MODELS[name]
        figures = [f"{value:.2f}" for value in (printed.accuracy, *printed.attacked)]
        assert [f"the paper's {name}", f"{printed.snr} dB", *figures] in [[*map(unescape, row)] for row in rows]


def test_every_packaged_sound_has_a_licence_and_a_credit() -> None:
    clips = packaged_clips()
    assert len({clip.name for clip in clips}) == len(clips) == 5
    for clip in clips:
        assert sf.info(clip.path).duration >= demo.CLIP_SECONDS
        assert clip.credit is not None
        assert clip.credit.author
        assert clip.credit.licence in ("CC BY 3.0", "CC BY 4.0", "public domain")
        assert clip.credit.source.startswith("https://")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_the_name_of_a_file_stays_text(tmp_path: Path, speech: NDArray[np.float32], marker: ideaw.Marker) -> None:
    name = "<script>alert(1)<.wav"
    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in" / name, speech, 16_000)
    (tmp_path / "out").mkdir()  # an empty folder will do
    made = write_site(tmp_path / "out", MESSAGE, marker, tmp_path / "in", seconds=SHORTEST)
    for page in ("index.html", "clip-1.html", "listen.html"):
        text = (made.path / page).read_text("utf-8")
        assert name not in text
        assert name in unescape(text).replace("\\u003c", "<")


# ---- The folder


@pytest.fixture
def talk(tmp_path: Path, speech: NDArray[np.float32]) -> Path:
    """A file of speech, and no longer than need be."""
    (tmp_path / "talk").mkdir()
    sf.write(tmp_path / "talk" / "a.wav", speech[-round(SHORTEST * 16_000) :], 16_000)
    return tmp_path / "talk"


@pytest.fixture
def site(tmp_path: Path, made: Site) -> Path:
    """A demo of two clips, which may be replaced."""
    return shutil.copytree(made.path, tmp_path / "site")


@pytest.mark.slow
def test_a_demo_is_replaced_by_the_next_one(tmp_path: Path, site: Path, talk: Path, marker: ideaw.Marker) -> None:
    assert (site / "clip-2.html").exists()
    assert len(write_site(site, MESSAGE, marker, talk, seconds=SHORTEST).shown) == 1
    assert (site / "clip-1.html").exists()
    assert not (site / "clip-2.html").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "talk"]


def test_nothing_else_is_replaced(tmp_path: Path, folder: Path, marker: ideaw.Marker) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match="site holds other files and no demo; choose another folder"):
        write_site(site, MESSAGE, marker, folder)
    (site / LIST_FILE).write_text(json.dumps({"files": ["index.html"]}))
    with pytest.raises(FileError, match=r"site holds thesis\.txt, which is not of the demo"):
        write_site(site, MESSAGE, marker, folder)
    (site / LIST_FILE).write_text("[]")
    with pytest.raises(FileError, match="no demo"):
        write_site(site, MESSAGE, marker, folder)
    with pytest.raises(FileError, match=r"thesis\.txt is a file"):
        write_site(site / "thesis.txt", MESSAGE, marker, folder)
    assert (site / "thesis.txt").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


@pytest.mark.slow
def test_what_fails_leaves_everything_as_it_was(
    tmp_path: Path, site: Path, talk: Path, speech: NDArray[np.float32], marker: ideaw.Marker
) -> None:
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    sf.write(talk / "b.wav", 0 * speech, 16_000)
    with pytest.raises(AudioError, match=r"b\.wav: .*silen"):
        write_site(site, MESSAGE, marker, talk, seconds=SHORTEST)
    sf.write(talk / "a.wav", np.repeat(speech[:, None], 3, axis=1), 16_000)
    with pytest.raises(AudioError, match=r"a\.wav has 3 channels; .* at most 2"):
        write_site(tmp_path / "other", MESSAGE, marker, talk, seconds=SHORTEST)
    with pytest.raises(FileError, match="no audio file of 20 s or more"):
        write_site(site, MESSAGE, marker, talk, seconds=20)
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "talk"]


@pytest.mark.slow
def test_the_command_says_what_it_wrote(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "talk.wav", speech, 16_000)
    ran = run("demo", "--site", tmp_path / "site", "--data", tmp_path, "--home", "https://example.org/")
    assert (ran.code, ran.err) == (0, "")
    megabytes = sum(path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file()) / 1e6
    expected = f"{tmp_path / 'site' / 'index.html'}: model 46+10, 1 sound, {megabytes:.1f} MB; open it in a browser"
    assert ran.out == expected + "\n"
    assert '<a href="https://example.org/">Documentation</a>' in (tmp_path / "site" / "index.html").read_text("utf-8")
    ran = run("demo", "--data", tmp_path)
    assert (ran.code, ran.out, ran.err) == (
        2,
        "",
        "ideaw: --data is shown by --site; give the folder of the site too\n",
    )


# ---- In a browser


@pytest.fixture(scope="module")
def host(made: Site) -> Iterator[str]:
    """Any static host: Python's own, on a free port of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(made.path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def tab(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """An empty tab. Nothing may be asked of another host, no request may fail, and no error may occur."""
    context = browser.new_context(**getattr(request, "param", {}))
    requested: list[str] = []
    problems: list[str] = []
    context.on("request", lambda request: requested.append(request.url))
    context.on("response", lambda response: problems.append(response.url) if response.status >= 400 else None)
    tab = context.new_page()
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda line: problems.append(line.text) if line.type in ("error", "warning") else None)
    yield tab
    own = ("file:", "data:", "blob:", "http://127.0.0.1:")
    assert requested
    assert [url for url in requested if not url.startswith(own)] == []
    assert problems == []
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "page"),
    [("disk", "index.html"), ("disk", "clip-1.html"), ("disk", "clip-2.html"), ("host", "clip-1.html")],
)
def test_every_player_plays_and_every_picture_shows(tab: Any, made: Site, host: str, place: str, page: str) -> None:
    tab.goto((made.path / page).as_uri() if place == "disk" else host + page)
    players = 2 * len(CLIPS) if page == "index.html" else 3 + 2 + len(TREATMENTS)
    assert tab.locator("audio").count() == players
    for number in range(players):
        seconds = (
            tab.locator("audio")
            .nth(number)
            .evaluate(
                """async (audio) => {
              const moved = new Promise((done) => audio.addEventListener("timeupdate", () => {
                if (audio.currentTime > 0) done();
              }));
              await audio.play();
              await moved;
              return audio.duration;
            }"""
            )
        )
        assert seconds == pytest.approx(SECONDS, abs=0.25) or 0.5 * SECONDS <= seconds + 0.1 < SECONDS
    pictures = References(made.path / page).pictures
    assert len(pictures) == (len(CLIPS) if page == "index.html" else 5)
    assert len({picture["alt"] for picture in pictures if picture["alt"]}) == len(pictures)
    for number in range(len(pictures)):
        tab.locator("img").nth(number).scroll_into_view_if_needed()
    tab.wait_for_function("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")


@pytest.mark.slow
def test_one_plays_at_a_time_and_goes_on_where_the_other_was(tab: Any, made: Site) -> None:
    tab.goto((made.path / "clip-1.html").as_uri())
    host, marked, other = (tab.locator("audio").nth(number) for number in (0, 1, 5))
    host.evaluate("async (audio) => { await audio.play(); audio.currentTime = 1.5; }")
    tab.wait_for_function("document.querySelector('audio').currentTime > 1.55")
    marked.evaluate("(audio) => audio.play()")
    tab.wait_for_function("document.querySelectorAll('audio')[1].currentTime > 1.5")
    assert host.evaluate("(audio) => audio.paused")
    assert marked.evaluate("(audio) => audio.played.start(0)") >= 1.5
    other.evaluate("(audio) => audio.play()")
    tab.wait_for_function("document.querySelectorAll('audio')[1].paused")
    assert other.evaluate("(audio) => audio.currentTime") < 1.5  # attacks change times, so copies begin at their own


@pytest.mark.slow
def test_the_keyboard_reaches_and_plays(tab: Any, made: Site) -> None:
    tab.goto((made.path / "clip-1.html").as_uri())
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    while tab.evaluate("document.activeElement.tagName") != "AUDIO":
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.tagName") in ("A", "AUDIO")
    tab.keyboard.press(" ")
    tab.wait_for_function("document.activeElement.currentTime > 0")


@pytest.mark.slow
@pytest.mark.parametrize("tab", [{"color_scheme": scheme} for scheme in ("light", "dark")], indirect=True)
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_serious(tab: Any, made: Site, page: str) -> None:
    tab.goto((made.path / page).as_uri())
    tab.evaluate(AXE.read_text("utf-8"))
    found = tab.evaluate("axe.run({ preload: false })")  # else axe asks for the style sheet, which a disk refuses
    assert found["passes"]
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in serious] == []


@pytest.mark.slow
@pytest.mark.parametrize("tab", [{"viewport": {"width": 360, "height": 700}}], indirect=True)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_onto_a_phone(tab: Any, made: Site, page: str) -> None:
    tab.goto((made.path / page).as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.slow
def test_the_listening_test_leads_back(tab: Any, made: Site) -> None:
    tab.goto((made.path / "listen.html").as_uri())
    tab.click("#home a")
    assert tab.url == (made.path / "index.html").as_uri()
