"""What surrounds the samples of a file, as other people's programs see it before and after marking.

The cells are those of `benchmarks/container_matrix.py`, whose table the documentation shows. Where a program is not
installed, its cells are skipped by its name.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ideaw

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
matrix = importlib.import_module("container_matrix")
sys.path.pop(0)

pytestmark = [pytest.mark.xdist_group("containers"), pytest.mark.slow]

LEAST_CELLS = 60

Files = Callable[[str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Each file as it was made, and marked; made when it is first asked for."""
    folder, marker = tmp_path_factory.mktemp("containers"), ideaw.load(threads=1)
    made: dict[str, tuple[Path, Path]] = {}

    def make(name: str) -> tuple[Path, Path]:
        if not made:
            matrix.make.make_inputs(folder)
        if name not in made:
            made[name] = folder / name, matrix.mark(marker, matrix.SUBJECTS[name], folder)
        return made[name]

    return make


@pytest.mark.parametrize("cell", matrix.CELLS, ids=lambda cell: f"{cell.subject}: {cell.kind}")
def test_metadata_stays(files: Files, cell: matrix.Cell) -> None:
    missing = matrix.missing_program(matrix.SUBJECTS[cell.subject], cell)
    if missing:
        pytest.skip(f"{missing} is not installed")
    assert matrix.compare(cell, *files(cell.subject)) is None


def test_there_are_cells_enough_of_every_subject() -> None:
    assert len(matrix.CELLS) >= LEAST_CELLS
    assert {cell.subject for cell in matrix.CELLS} == set(matrix.SUBJECTS)


BARE_SAMPLES = ["broadcast.wav", "float.wav", "long.rf64", "sony.w64", "mac.aiff", "sun.au", "core.caf"]


@pytest.mark.parametrize("name", BARE_SAMPLES)
def test_all_but_the_samples_stays_byte_for_byte(files: Files, name: str) -> None:
    """Outside of one stretch as long as the samples, and the largest sample that float files note."""
    missing = matrix.missing_program(matrix.SUBJECTS[name])
    if missing:
        pytest.skip(f"{missing} is not installed")
    before, after = (path.read_bytes() for path in files(name))
    assert len(before) == len(after)
    changed = [at for at in range(len(before)) if before[at] != after[at]]
    peak = before.find(b"PEAK")
    outside = [at for at in changed if not (peak > 0 and peak <= at < peak + 32)]
    width = {"float.wav": 8, "sony.w64": 6, "core.caf": 6}.get(name, 4)
    assert outside[-1] - outside[0] < width * matrix.make.RATE * matrix.make.SECONDS


def test_both_sounds_of_a_film_are_marked(files: Files, tmp_path: Path) -> None:
    missing = matrix.missing_program(matrix.SUBJECTS["film.mkv"])
    if missing:
        pytest.skip(f"{missing} is not installed")
    source, marked = files("film.mkv")
    for number in (0, 1):
        for path, message in ((source, None), (marked, matrix.MESSAGE)):
            matrix.make.run("ffmpeg", "-v", "error", "-y", "-i", path, "-map", f"0:a:{number}", tmp_path / "sound.wav")
            assert ideaw.detect_file(tmp_path / "sound.wav").message == message


def test_no_cell_holds_where_metadata_is_lost(files: Files, tmp_path: Path) -> None:
    """The matrix itself: a file without what surrounded its samples is told apart."""
    missing = matrix.missing_program(matrix.SUBJECTS["all.flac"])
    if missing:
        pytest.skip(f"{missing} is not installed")
    source, _ = files("all.flac")
    matrix.make.run("ffmpeg", "-v", "error", "-i", source, "-map_metadata", "-1", "-vn", tmp_path / "bare.flac")
    lost = ("picture", "comments, repeated", "cue sheet")
    cells = [cell for cell in matrix.CELLS if cell.subject == "all.flac" and cell.kind in lost]
    assert len(cells) == len(lost)
    assert all(matrix.compare(cell, source, tmp_path / "bare.flac") for cell in cells)


def test_comments_and_pictures_move_between_flac_and_ogg(files: Files, tmp_path: Path) -> None:
    cells = {cell.kind: cell for cell in matrix.CELLS if cell.subject == "all.flac"}
    for program in ("vorbiscomment", "metaflac", "flac"):
        if missing := matrix.missing_program(matrix.SUBJECTS["all.flac"]) or not matrix.shutil.which(program):
            pytest.skip(f"{missing if isinstance(missing, str) else program} is not installed")
    source, _ = files("all.flac")
    marker, path = ideaw.load(threads=1), source
    for name in ("out.ogg", "back.flac"):
        marker.embed_file(path, tmp_path / name, "kept", over=True)
        path = tmp_path / name
    for kind in ("comments, repeated", "picture", "ReplayGain, ids"):
        assert matrix.compare(cells[kind], source, path) is None
    shown = matrix.show(matrix.Cell("", "", "vorbiscomment -l {file}", ""), tmp_path / "out.ogg")
    assert "ARTIST=Brahms\nARTIST=Joachim" in shown
    assert "METADATA_BLOCK_PICTURE=" in shown


@pytest.mark.parametrize(
    ("name", "target", "lost"),
    [
        ("broadcast.wav", "out.flac", ("bext", "iXML", "smpl", "cue", "abcd")),
        ("all.flac", "out.mp3", ("ALBUMARTIST", "picture", "cue sheet")),
        ("vbr.mp3", "out.flac", ("APIC", "TPE2", "USLT")),
        ("book.m4a", "out.flac", ("cover", "chapters", "album_artist")),
    ],
)
def test_what_another_format_has_no_place_for_is_named(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, target: str, lost: tuple[str, ...]
) -> None:
    missing = matrix.missing_program(matrix.SUBJECTS[name])
    if missing:
        pytest.skip(f"{missing} is not installed")
    source, _ = files(name)
    caplog.clear()
    ideaw.embed_file(source, tmp_path / target, "kept")
    (record,) = caplog.records
    line = record.getMessage()
    assert str(tmp_path / target) in line
    assert all(part in line for part in lost), line
