"""What bad input gets: exit code 2, one line that names the problem, and a folder that stays as it was."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from ideaw.audio.write import write_audio
from tests.cli.conftest import Ran, run, run_process

Maker = Callable[[Path, np.ndarray], Path]
"""Makes a bad file in a folder, of speech `(96000,)` at 16 kHz."""


def state(folder: Path) -> dict[str, bytes | None]:
    """Everything under a folder, hidden files included."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def refused(ran: Ran, says: str) -> None:
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("ideaw: ")
    assert ran.err.count("\n") == 1
    assert ran.err.endswith("\n")
    assert says in ran.err


def holding(samples: Callable[[np.ndarray], np.ndarray], subtype: str = "PCM_16") -> Maker:
    def make(folder: Path, speech: np.ndarray) -> Path:
        sf.write(folder / "in.wav", samples(speech), 16_000, subtype=subtype)
        return folder / "in.wav"

    return make


def spoilt(place: int, value: float) -> Maker:
    def with_it(speech: np.ndarray) -> np.ndarray:
        copy = speech.copy()
        copy[place] = value
        return copy

    return holding(with_it, "FLOAT")


def bytes_of(content: bytes, name: str = "in.wav") -> Maker:
    def make(folder: Path, speech: np.ndarray) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def truncated(suffix: str, share: float = 0.5) -> Maker:
    def make(folder: Path, speech: np.ndarray) -> Path:
        path = folder / f"in{suffix}"
        write_audio(path, speech[:, None], 16_000)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
        return path

    return make


def no_channels(folder: Path, speech: np.ndarray) -> Path:
    path = holding(lambda it: it)(folder, speech)
    content = bytearray(path.read_bytes())
    assert content[12:16] == b"fmt "
    content[22:24] = struct.pack("<H", 0)
    path.write_bytes(content)
    return path


def missing(folder: Path, speech: np.ndarray) -> Path:
    return folder / "missing.wav"


def directory(folder: Path, speech: np.ndarray) -> Path:
    (folder / "in.wav").mkdir()
    return folder / "in.wav"


BAD: dict[str, tuple[Maker, str]] = {
    "empty file": (bytes_of(b""), "is empty"),
    "no samples": (holding(lambda speech: speech[:0]), "no samples"),
    "NaN": (spoilt(40_000, np.nan), "NaN or infinite"),
    "infinite": (spoilt(95_999, -np.inf), "NaN or infinite"),
    "shorter than half a second": (holding(lambda speech: speech[:7_999]), "at least 0.5 s"),
    "0 channels": (no_channels, "damaged"),
    "17 channels": (holding(lambda speech: np.tile(speech[:32_000, None], 17)), "17 channels"),
    "unknown": (bytes_of(b"The quick brown fox jumps over the lazy dog. " * 99, "in.xyz"), "not an audio file"),
    "text called MP3": (bytes_of(b"The quick brown fox jumps over the lazy dog. " * 99, "in.mp3"), "no MP3 frames"),
    "header alone": (truncated(".wav", 0.0002), "damaged or truncated"),
    "truncated WAV": (truncated(".wav"), "truncated"),
    "truncated FLAC": (truncated(".flac"), "truncated"),
    "truncated Ogg": (truncated(".ogg"), "truncated"),
    "truncated Opus": (truncated(".opus"), "truncated"),
    "truncated M4A": (truncated(".m4a"), "truncated"),
    "directory": (directory, "is a directory"),
    "missing": (missing, "does not exist"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_not_marked_and_nothing_is_written(tmp_path: Path, speech: np.ndarray, case: str) -> None:
    make, says = BAD[case]
    source, target = make(tmp_path, speech), tmp_path / "out.wav"
    before = state(tmp_path)
    refused(run("embed", source, target, "-m", "hey"), says)
    assert state(tmp_path) == before
    target.write_bytes(b"what was here before")
    before = state(tmp_path)
    refused(run("embed", source, target, "-m", "hey", "--overwrite"), says)
    assert state(tmp_path) == before


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_not_searched(tmp_path: Path, speech: np.ndarray, case: str) -> None:
    make, says = BAD[case]
    source = make(tmp_path, speech)
    before = state(tmp_path)
    ran = run("detect", source)
    refused(ran, says)
    assert str(source) in ran.err
    assert state(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.0, 1e-5])
def test_silence_is_not_marked_but_searched(tmp_path: Path, speech: np.ndarray, level: float) -> None:
    source = holding(lambda it: it / np.abs(it).max() * level, "FLOAT")(tmp_path, speech)
    before = state(tmp_path)
    refused(run("embed", source, tmp_path / "out.wav", "-m", "hey"), "silent")
    assert state(tmp_path) == before
    assert run("detect", source).code == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("out.xyz", '".xyz"'),
        ("out", "without an extension"),
        ("out.aac", '".aac"'),
        ("nowhere/out.wav", "nowhere does not exist"),
        ("folder.wav", "is a directory"),
        ("/proc/out.wav", "cannot be written"),
        ("in.wav", "is the input itself"),
        ("folder.wav/../in.wav", "is the input itself"),
        ("link.wav", "is the input itself"),
        ("hard.wav", "is the input itself"),
    ],
)
def test_a_target_that_cannot_be_written(tmp_path: Path, spoken: Path, name: str, says: str) -> None:
    source = tmp_path / "in.wav"
    source.write_bytes(spoken.read_bytes())
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "link.wav").symlink_to(source)
    os.link(source, tmp_path / "hard.wav")
    before = state(tmp_path)
    refused(run("embed", source, tmp_path / name, "-m", "hey"), says)
    refused(run("attack", "noise", source, tmp_path / name), says)
    assert state(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_protected_target(tmp_path: Path, spoken: Path) -> None:
    (tmp_path / "out.wav").write_bytes(b"kept")
    (tmp_path / "out.wav").chmod(0o444)
    (tmp_path / "locked").mkdir(mode=0o555)
    for name in ("out.wav", "locked/out.wav"):
        refused(run("embed", spoken, tmp_path / name, "-m", "hey"), "permission denied")
    assert (tmp_path / "out.wav").read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("-m", "x" * 60), "this message needs at least"),
        (("-m", "x" * 9_999), "this model holds at most"),
        (("-m", ""), "the message is empty"),
        (("-m", "0123", "--bits"), "zeros and ones"),
        (("-m", "01" * 99, "--bits"), "this message needs at least"),
        (("-m", "abc", "--hex"), "not hexadecimal"),
        (("-m", "00ff" * 20, "--hex"), "this message needs at least"),
        (("-m", "01", "--hex", "--bits"), "not both"),
        (("-m", "hey", "--snr", "101"), "0 to 100 dB"),
        (("-m", "hey", "--snr", "nan"), "0 to 100 dB"),
        (("-m", "hey", "--model", "7+7"), 'no model "7+7"'),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, spoken: Path, options: tuple[str, ...], says: str) -> None:
    refused(run("embed", spoken, tmp_path / "out.wav", *options), says)
    assert state(tmp_path) == {}


@pytest.mark.slow
def test_the_installed_program_says_the_same(tmp_path: Path, spoken: Path) -> None:
    (tmp_path / "in.wav").write_bytes(b"RIFF")
    before = state(tmp_path)
    refused(run_process("embed", tmp_path / "in.wav", tmp_path / "out.wav", "-m", "hey"), "damaged or truncated")
    refused(run_process("detect", tmp_path / "none.wav"), "does not exist")
    assert state(tmp_path) == before


def test_a_name_that_would_steer_a_terminal_is_printed_escaped(tmp_path: Path) -> None:
    ran = run("detect", tmp_path / "a\n\x1b[2Jb.wav")
    refused(ran, r"a\n\x1b[2Jb.wav")


def test_one_bad_file_of_several_does_not_stop_the_others(tmp_path: Path, marked: Path, spoken: Path) -> None:
    ran = run("detect", tmp_path / "none.wav", marked, spoken)
    assert ran.code == 2
    assert ran.err == f"ideaw: {tmp_path / 'none.wav'} does not exist\n"
    first, second = ran.out.splitlines()
    assert first.startswith(f'{marked}: found "hey"')
    assert second.startswith(f"{spoken}: not found")
