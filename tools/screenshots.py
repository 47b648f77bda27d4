"""Pictures of the page for the documentation: `python tools/screenshots.py [FOLDER]`, which needs Debian's chromium.

A server of its own is started for it; what is shown is the packaged sample, so that the pictures can be made again.
"""

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

ASSETS = Path(__file__).parent.parent / "docs" / "assets"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
ATTACKS = ("MP3 64", "Cut", "Noise", "Faster")
COLOURS = 160  # of a picture: a third of the size, and as clear
MARGIN = 16


def picture(page: Any, path: Path, first: str | None = None, last: str | None = None) -> None:
    """What the window shows; or everything from one element to another, with a margin."""
    if first is None or last is None:
        content = page.screenshot()
    else:
        boxes = [page.locator(selector).bounding_box() for selector in (first, last)]
        scrolled = page.evaluate("scrollY")
        top = max(0, boxes[0]["y"] + scrolled - MARGIN)
        bottom = boxes[1]["y"] + boxes[1]["height"] + scrolled + MARGIN
        clip = {"x": 0, "y": top, "width": page.viewport_size["width"], "height": bottom - top}
        content = page.screenshot(full_page=True, clip=clip)
    shown = Image.open(io.BytesIO(content)).convert("RGB")
    shown.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def marked(browser: Any, url: str, **options: Any) -> Any:
    """The page after marking the sample."""
    page = browser.new_context(**options).new_page()
    page.goto(url)
    page.wait_for_selector("#about:not(:empty)")
    page.click("#sample")
    page.wait_for_selector("#work:visible")
    page.fill("#message", "ab12")
    page.click("#mark button[type=submit]")
    page.wait_for_selector("#answer:visible")
    page.wait_for_selector("#status:empty", state="attached")
    return page


def take(browser: Any, url: str, folder: Path) -> None:
    """All pictures, into a folder."""
    page = browser.new_context(viewport={"width": 1000, "height": 640}).new_page()
    page.goto(url)
    page.wait_for_selector("#about:not(:empty)")
    picture(page, folder / "page-start.png")
    page = marked(browser, url, viewport={"width": 1000, "height": 900})
    picture(page, folder / "page-marked.png", "#drop", "#listening")
    for label in ATTACKS:
        row = f"#attacks li:has(.try:text-is('{label}'))"
        page.click(f"{row} .try")
        page.wait_for_selector(f"{row} .outcome")
    page.wait_for_selector("#status:empty", state="attached")
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(0, 0)
    picture(page, folder / "page-attacks.png", "#playground", "#playground")
    page = marked(browser, url, viewport={"width": 360, "height": 740}, color_scheme="dark")
    picture(page, folder / "page-phone.png", "#answer", "#facts")


def main(folder: Path) -> None:
    """Start a server, take the pictures, stop it."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ideaw", "serve", "--no-open", "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            assert server.stdout is not None
            ready = re.search(r"http://\S+", server.stdout.readline())
            assert ready, "the server does not start"
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
            take(browser, ready[0], folder)
            browser.close()
        finally:
            server.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ASSETS)
