"""What the network heard: small, true to its bound, and enough to find the marks of any key without listening again."""

import math
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import ideaw
from ideaw.audio.blocks import split_blocks
from ideaw.catalogue.cache import NUM_PHASES, KeyTemplates, count_windows
from ideaw.catalogue.evidence import KEPT_SHARE, EvidenceRecorder, pack, size_per_hour, strongest_signs, unpack
from ideaw.detector import Detector
from ideaw.keys import PUBLIC, Key
from tests.catalogue.conftest import RATE, rows
from tests.cli.conftest import run

KEYS = [Key(number.to_bytes(16, "big")) for number in range(1, 301)]
MAX_BYTES_PER_HOUR = 5e6


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


def heard(marker: ideaw.Marker, audio: NDArray[np.float32]) -> tuple[bytes, NDArray[np.int8]]:
    """What is kept of audio, and the same unpacked."""
    recorder = EvidenceRecorder()
    blocks = partial(split_blocks, audio[:, None], 70_000)
    Detector(marker.network, [PUBLIC], "none").detect(blocks, RATE, 1, len(audio), None, keep_evidence=recorder.keep)
    row = recorder.packed(len(audio) / RATE)
    content, hops, width = row["evidence"], row["hops"], row["rows"]
    assert isinstance(content, bytes)
    assert isinstance(hops, int)
    assert isinstance(width, int)
    return content, unpack(content, hops, width)


@given(st.integers(0, 40), st.integers(1, 9), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_what_is_packed_comes_back(hops: int, width: int, seed: int) -> None:
    signs = np.random.default_rng(seed).integers(-1, 2, (hops, width)).astype(np.int8)
    np.testing.assert_array_equal(unpack(pack(signs), hops, width), signs)


def test_any_audio_takes_less_than_five_megabytes_an_hour(
    marker: ideaw.Marker, speech: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    noise = np.random.default_rng(0).standard_normal(len(speech)).astype(np.float32) / 10
    for audio in (speech, strings, noise, marker.embed(speech, RATE, "hey")):
        content, signs = heard(marker, audio)
        assert size_per_hour(content, len(signs)) < MAX_BYTES_PER_HOUR
    # The worst there is: the kept share at random places.
    stream = np.random.default_rng(1).standard_normal((64 * 120, 240)).astype(np.float32)
    worst = strongest_signs(stream)
    assert np.count_nonzero(worst) == pytest.approx(KEPT_SHARE * worst.size, rel=0.01)
    assert size_per_hour(pack(worst), len(worst)) < MAX_BYTES_PER_HOUR


def test_every_hop_is_kept_once(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    audio = np.tile(speech, 21)
    _, signs = heard(marker, audio)
    assert len(signs) == 64 * 126
    assert signs[64 * 119 : 64 * 122].any(1).mean() > 0.9  # where two chunks meet


def test_a_mark_is_located_for_its_key_alone(
    marker: ideaw.Marker, speech: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    for audio in (speech, strings):
        marked = ideaw.load(key=KEYS[7], threads=1).embed(audio, RATE, "hey")
        for offset in (0, 125, 250, 5_000):  # where a second begins among the hops makes no difference
            _, signs = heard(marker, marked[offset:])
            best = KeyTemplates(marker.network, KEYS).locate(signs)[0]
            assert best.key_index == 7
            assert best.p_value < 1e-9
            assert best.first == 0


def test_p_values_are_bounds(marker: ideaw.Marker, speech: NDArray[np.float32], strings: NDArray[np.float32]) -> None:
    """Keys that nobody used, on audio that another key marked: no more small p-values than the bound allows."""
    audio = np.concatenate([marker.embed(strings, RATE, "hey"), speech, strings, 0 * speech, speech])
    _, signs = heard(marker, audio)
    places = KeyTemplates(marker.network, KEYS).locate(signs)
    trials = count_windows(math.ceil(len(audio) / RATE)) * NUM_PHASES  # of each key by itself
    p_values = trials * np.exp(-np.square([place.score for place in places]) / 2)
    for level in (0.5, 0.1, 0.01):
        allowed = len(KEYS) * level
        assert (p_values <= level).sum() <= allowed + 3 * math.sqrt(allowed)
    assert KeyTemplates(marker.network, KEYS).locate(np.zeros((640, 240), np.int8)) == []


@pytest.fixture(scope="module")
def catalogue(
    tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32], strings: NDArray[np.float32]
) -> Path:
    """Three files, of which the first two were marked under keys of their own, and one that is no audio."""
    folder = tmp_path_factory.mktemp("catalogue")
    long = np.concatenate([speech, strings] * 2)
    for number in range(2):
        marked = ideaw.load(key=KEYS[number], threads=1).embed(long, RATE, f"k{number}")
        sf.write(folder / f"{number}.flac", marked, RATE)
    sf.write(folder / "2.flac", long, RATE)
    (folder / "x.wav").write_bytes(b"nothing")
    return folder


@pytest.mark.slow
def test_new_keys_are_searched_without_listening_again(catalogue: Path, tmp_path: Path) -> None:
    source = shutil.copytree(catalogue, tmp_path / "in")
    first, second, keys = tmp_path / "first", tmp_path / "second", tmp_path / "keys"
    keys.mkdir()
    for number in range(3):
        KEYS[number].write(keys / f"{number}.key")
    ran = run("scan", source, "--out", first, "--cache", "--speeds", "none", "--workers", "1", "--shard-size", "2")
    assert ran.code == 0, ran.err
    assert rows(first).column("status") == ["none", "none", "none", "error"]
    (source / "2.flac").unlink()  # nobody listens to what holds no mark
    ran = run("scan", first, "--out", second, "--from-cache", "--key", keys, "--workers", "1")
    assert ran.code == 0, ran.err
    found = rows(second)
    for number in range(2):
        row = found.of(f"{number}.flac")
        assert (row["status"], row["message"], row["key"]) == ("found", f"k{number}", KEYS[number].fingerprint)
        assert (row["listened"], row["seconds"]) == ("cache", 24)
        assert 0 < row["heard_seconds"] <= 24
        assert row["p_value"] < 1e-9
    plain = found.of("2.flac")
    assert (plain["status"], plain["heard_seconds"], plain["seconds"]) == ("none", 0, 24)
    assert "was not heard in the earlier scan" in found.of("x.wav")["error"]
    assert "has no cache" in run("scan", second, "--out", tmp_path / "third", "--from-cache").err


@pytest.mark.slow
def test_a_mark_whose_file_is_gone_is_an_error_that_can_be_done_again(catalogue: Path, tmp_path: Path) -> None:
    source = shutil.copytree(catalogue, tmp_path / "in")
    first, second, key = tmp_path / "first", tmp_path / "second", tmp_path / "0.key"
    KEYS[0].write(key)
    assert run("scan", source, "--out", first, "--cache", "--speeds", "none", "--workers", "1").code == 0
    moved = (source / "0.flac").rename(tmp_path / "0.flac")
    again = ("scan", first, "--out", second, "--from-cache", "--key", key, "--workers", "1")
    assert run(*again).code == 0
    assert rows(second).of("0.flac")["error"].endswith("does not exist")
    moved.rename(source / "0.flac")
    assert run(*again, "--retry-errors").code == 0
    assert rows(second).of("0.flac")["message"] == "k0"
