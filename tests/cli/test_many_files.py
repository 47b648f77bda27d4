"""`embed` of many files, folders and pipes: each becomes what it says, and one that fails does not stop the others."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from tests.cli.conftest import PROGRAM, run


@pytest.fixture
def album(tmp_path: Path, speech: NDArray[np.float32]) -> Path:
    """A folder with two recordings, one of them in a folder of its own, noise, a text and a hidden file."""
    folder = tmp_path / "album"
    (folder / "side b").mkdir(parents=True)
    sf.write(folder / "one.wav", speech[:32_000], 16_000)
    sf.write(folder / "side b" / "two.flac", speech[32_000:64_000], 16_000)
    sf.write(folder / "side b" / "noise.wav", np.random.default_rng(0).normal(0, 0.1, 32_000), 16_000)
    (folder / "notes.txt").write_text("no audio")
    (folder / ".hidden.wav").write_text("no audio either")
    return folder


@pytest.mark.slow
def test_a_folder_becomes_a_folder(tmp_path: Path, album: Path) -> None:
    into = tmp_path / "marked"
    ran = run("embed", album, "--into", into, "-m", "hey")
    assert ran.code == 2  # the noise
    first, second = ran.out.splitlines()
    assert first.startswith(f"{into}/one.wav: holds")
    assert second.startswith(f"{into}/side b/two.flac: holds")
    assert "1 files are no audio by their names" in ran.err
    assert f"{album}/side b/noise.wav" in ran.err
    assert ran.err.count("\n") == 2
    written = sorted(path.relative_to(into) for path in into.rglob("*") if path.is_file())
    assert written == [Path("one.wav"), Path("side b/two.flac")]
    assert all(ideaw.detect_file(into / path).message == "hey" for path in written)

    again = run("embed", album / "one.wav", album / "side b" / "two.flac", "--into", into, "-m", "new", "--json")
    assert again.code == 2
    assert all("error" not in answer or "exists" in answer["error"] for answer in json.loads(again.out))
    ran = run("embed", album / "one.wav", "--into", into, "-m", "new", "--overwrite", "--json")
    assert (ran.code, ran.err) == (0, "")
    (answer,) = json.loads(ran.out)
    assert (answer["file"], answer["message"]) == (f"{into}/one.wav", "new")
    assert ideaw.detect_file(into / "one.wav").message == "new"


def test_outputs_in_a_folder_that_is_marked_are_left_out(album: Path) -> None:
    (album / "side b" / "noise.wav").unlink()
    for _ in range(2):
        ran = run("embed", album, "--into", album / "marked", "-m", "hey", "--overwrite")
        assert ran.code == 0, ran.err
    assert sorted(path.name for path in (album / "marked").rglob("*.*")) == ["one.wav", "two.flac"]


@pytest.mark.slow
def test_a_coding_that_cannot_be_kept_is_another_file_and_a_line(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "dictated.wav", speech[:32_000], 16_000, subtype="IMA_ADPCM")
    line = "ideaw: IMA ADPCM in WAV cannot be written; what is marked becomes .flac\n"
    ran = run("embed", tmp_path / "dictated.wav", "--into", tmp_path / "marked", "-m", "hey")
    assert (ran.code, ran.err) == (0, line)
    assert [path.name for path in (tmp_path / "marked").iterdir()] == ["dictated.wav.flac"]


def test_requests_that_cannot_be_meant_are_refused(tmp_path: Path, album: Path, spoken: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "one.wav").write_bytes((album / "one.wav").read_bytes())
    (tmp_path / "empty").mkdir()
    for arguments, line in (
        ((spoken,), "an input and an output"),
        ((spoken, spoken, spoken), "an input and an output"),
        ((album, tmp_path / "out.wav"), "give --into FOLDER"),
        ((album / "one.wav", tmp_path / "other" / "one.wav", "--into", tmp_path / "x"), "would both become"),
        ((tmp_path / "empty", "--into", tmp_path / "x"), "no audio file in"),
        ((spoken, "--into", spoken), "is a file; give a folder"),
        (("-", "--into", tmp_path / "x"), "a pipe has no name"),
        ((spoken, tmp_path / "out.wav", "--pcm", "48000x2"), "give - as the input"),
        (("-", "-", "--pcm", "stereo"), "is no form of PCM"),
    ):
        ran = run("embed", *arguments, "-m", "hey")
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert line in ran.err
    assert not (tmp_path / "x").exists()


def test_what_exists_is_not_replaced_unasked(tmp_path: Path, spoken: Path) -> None:
    target = tmp_path / "out.wav"
    target.write_bytes(b"what was here before")
    ran = run("embed", spoken, target, "-m", "hey")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "--overwrite" in ran.err
    assert target.read_bytes() == b"what was here before"
    assert run("embed", spoken, target, "-m", "hey", "--overwrite").code == 0
    ran = run("embed", target, tmp_path / "over.wav", "-m", "two")
    assert ran.code == 2
    assert 'carries the mark "hey" already' in ran.err
    assert "--over" in ran.err
    assert run("embed", target, tmp_path / "over.wav", "-m", "two", "--over").code == 0
    assert run("embed", tmp_path / "over.wav", tmp_path / "no.wav", "-m", "x", "--over", "--no-verify").code == 0


def pipe(content: bytes, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([PROGRAM, *map(str, arguments)], input=content, capture_output=True, check=False)


@pytest.mark.slow
def test_audio_goes_through_pipes(tmp_path: Path, spoken: Path, speech: NDArray[np.float32]) -> None:
    marked = pipe(spoken.read_bytes(), "embed", "-", "-", "-m", "hey")
    assert marked.returncode == 0
    assert marked.stderr.startswith(b'-: holds "hey"')
    assert len(marked.stdout) == spoken.stat().st_size
    found = pipe(marked.stdout, "detect", "-")
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout.startswith(b'-: found "hey"')

    bare = np.rint(speech[:32_000] * 32_767).astype("<i2")
    marked = pipe(bare.tobytes(), "embed", "-", "-", "--pcm", "16000x1", "-m", "hey")
    assert len(marked.stdout) == 2 * len(bare)
    heard = np.frombuffer(marked.stdout, "<i2")
    assert 0 < np.abs(heard.astype(int) - bare).max() < 2_000
    assert pipe(marked.stdout, "detect", "-", "--pcm", "16000x1").stdout.startswith(b'-: found "hey"')

    broken = pipe(b"no audio", "embed", "-", "-", "-m", "hey")
    assert (broken.returncode, broken.stdout, broken.stderr.count(b"\n")) == (2, b"", 1)
    assert b"the audio is not an audio file" in broken.stderr
