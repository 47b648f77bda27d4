"""What other people's programs read from our files, and write over them, still holds the mark.

The programs are Debian's; where one is not installed, its tests are skipped by name.
"""

import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

import ideaw

pytestmark = pytest.mark.slow

MESSAGE = "ok"
READ_BY = {
    "ffmpeg": (["wav", "flac", "ogg", "mp3", "m4a"], ["ffmpeg", "-v", "error", "-i", "{source}", "{target}"]),
    "sox": (["wav", "flac", "ogg", "aiff"], ["sox", "{source}", "{target}"]),
    "flac": (["flac"], ["flac", "--silent", "--decode", "-o", "{target}", "{source}"]),
}
"""Which of our formats a program decodes, and its command for doing so."""

WRITTEN_BY_FFMPEG = {"mp3": ["-b:a", "128k"], "m4a": ["-b:a", "128k"], "opus": ["-b:a", "96k"], "ogg": ["-q:a", "4"]}


def convert(program: str, command: list[str], source: Path, target: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    subprocess.run([part.format(source=source, target=target) for part in command], check=True)


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "music.ogg"
    path.write_bytes(resources.files("ideaw").joinpath("samples", "music.ogg").read_bytes())
    return path


@pytest.mark.parametrize(
    ("program", "extension"), [(name, extension) for name in READ_BY for extension in READ_BY[name][0]]
)
def test_programs_read_what_we_write(
    marker: ideaw.Marker, original: Path, tmp_path: Path, program: str, extension: str
) -> None:
    marked, decoded = tmp_path / f"marked.{extension}", tmp_path / "decoded.wav"
    marker.embed_file(original, marked, MESSAGE)
    convert(program, READ_BY[program][1], marked, decoded)
    assert marker.detect_file(decoded).message == MESSAGE


@pytest.mark.parametrize("extension", WRITTEN_BY_FFMPEG)
def test_a_mark_is_read_from_what_ffmpeg_compresses(
    marker: ideaw.Marker, original: Path, tmp_path: Path, extension: str
) -> None:
    marked, coded = tmp_path / "marked.wav", tmp_path / f"coded.{extension}"
    marker.embed_file(original, marked, MESSAGE)
    command = ["ffmpeg", "-v", "error", "-i", "{source}", *WRITTEN_BY_FFMPEG[extension], "{target}"]
    convert("ffmpeg", command, marked, coded)
    assert marker.detect_file(coded).message == MESSAGE
