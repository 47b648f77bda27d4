"""The page as people meet it: a real server process, and Debian's chromium driven by Playwright.

Every tab is watched: it may ask nothing of another host, and log no error, except those that a test announces.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import soundfile as sf
from numpy.typing import NDArray

from tests.chromium import chromium

START_SECONDS = 60.0

PATIENCE_SECONDS = 120.0
"""For anything that the page does; nothing takes that long unless it is broken, even where much else runs."""

RECORDED_SECONDS = 6
"""Length of what the fake microphone hears, again and again."""

MICROPHONE_ARGUMENTS = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]


@dataclass
class Server:
    """A server that runs: where, and as which process."""

    url: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End it as a service manager would."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(START_SECONDS)


@contextmanager
def serving(folder: Path, *options: object) -> Iterator[Server]:
    """`ideaw serve` on a free port of this machine, with these options; its log goes into `folder`."""
    command = [sys.executable, "-m", "ideaw", "serve", "--no-open", "--port", "0", "--workers", "1"]
    log = folder / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, *map(str, options)], stdout=file, stderr=file, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
    server = Server("", process)
    try:
        server.url = _address(process, log)
        yield server
    finally:
        if process.poll() is None:
            server.stop()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where a server listens, once it says that it is ready."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if ready := re.search(r"(http://\S+?)/? is ready", log.read_text()):
            return ready[1]
        time.sleep(0.1)
    raise AssertionError(f"the server does not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all tests of the page that do not stop it."""
    with serving(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, speech: NDArray) -> Iterator[Any]:
    """Chromium, whose microphone hears the packaged speech; closed after each module, since it can be driven once."""
    heard = tmp_path_factory.mktemp("microphone") / "speech.wav"
    sf.write(heard, speech[: RECORDED_SECONDS * 16_000], 16_000)
    with chromium(*MICROPHONE_ARGUMENTS, f"--use-file-for-fake-audio-capture={heard}") as opened:
        yield opened


@dataclass
class Tab:
    """The page in a tab of its own, and what a test expects to go wrong there."""

    page: Any
    expected: list[str] = field(default_factory=list)
    """Parts of the lines that chromium logs of answers that are errors."""

    def load(self, path: Path) -> None:
        """Choose a file, and wait until it is drawn."""
        self.page.set_input_files("#file", path)
        self.page.wait_for_selector(f"#file-name:text-is('{path.name}')")
        self.rest()

    def mark(self, message: str = "ab12", kind: str = "text") -> str:
        """Mark what is loaded; the answer's first line."""
        self.page.select_option("#kind", kind)
        self.page.fill("#message", message)
        self.page.click("#mark button[type=submit]")
        self.rest()
        return self.answer()

    def look(self) -> str:
        """Look for a mark in what is loaded; the answer's first line."""
        self.page.click("#look button[type=submit]")
        self.rest()
        return self.answer()

    def answer(self) -> str:
        """The first line of the answer; empty if there is none."""
        return self.text("#answer-title") if self.page.is_visible("#answer") else ""

    def rest(self) -> None:
        """Wait until nothing is under way."""
        self.page.wait_for_selector("#status:empty", state="attached")

    def until(self, expression: str) -> None:
        """Wait until this is true; Playwright's own way evaluates strings in the page, which its policy forbids."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.page.evaluate(expression):
            assert time.monotonic() < deadline, f"never came: {expression}"
            self.page.wait_for_timeout(20)

    def text(self, selector: str) -> str:
        """What an element says."""
        return str(self.page.inner_text(selector)).strip()

    def problem(self) -> str:
        """What went wrong, as it is told; empty if nothing did."""
        return self.text("#problem") if self.page.is_visible("#problem") else ""

    def save(self, folder: Path, link: str = "#download") -> Path:
        """Download what a link offers."""
        with self.page.expect_download() as download:
            self.page.click(link)
        path = folder / download.value.suggested_filename
        download.value.save_as(path)
        return path


OpenTab = Callable[..., Tab]


@pytest.fixture(scope="module")
def window(browser: Any) -> Any:
    """A window for all tests that need nothing special, since each costs chromium half a second."""
    return browser.new_page()


@pytest.fixture
def open_tab(browser: Any, window: Any, server: Server) -> Iterator[OpenTab]:
    """Opens the page, in a window of its own where there are options for `new_context`, and watches it."""
    with ExitStack() as opened:

        def open_one(url: str = server.url, **options: Any) -> Tab:
            page = opened.enter_context(browser.new_context(**options)).new_page() if options else window
            page.set_default_timeout(1000 * PATIENCE_SECONDS)
            tab = Tab(page)
            opened.enter_context(_watched(tab, url))
            page.goto(url)
            page.wait_for_selector("#about:not(:empty)")
            tab.rest()
            return tab

        yield open_one


@contextmanager
def _watched(tab: Tab, url: str) -> Iterator[None]:
    """Fail in the end if the page asked anything of another host, or logged an error that was not expected."""
    requested: list[str] = []
    complaints: list[str] = []
    listeners = {
        "request": lambda request: requested.append(request.url),
        "pageerror": lambda error: complaints.append(str(error)),
        "console": lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None,
    }
    for event, listener in listeners.items():
        tab.page.on(event, listener)
    yield
    tab.page.unroute_all()
    tab.page.wait_for_timeout(0)  # what was logged last has arrived
    for event, listener in listeners.items():
        tab.page.remove_listener(event, listener)
    assert [one for one in requested if not one.startswith((url, "blob:", "data:"))] == []
    assert [line for line in complaints if not any(part in line for part in tab.expected)] == []


@pytest.fixture
def tab(open_tab: OpenTab) -> Tab:
    """The page, as it opens."""
    return open_tab()
