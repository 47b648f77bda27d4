"""Peers as real processes: what they answer, what they are when absent, late or broken, and what is added to audio."""

import os
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from ideaw.bench.peers.adapters import mono, with_mark
from ideaw.bench.peers.peer import JsonLineProcess, Peer, installed_size, interpreter, version
from ideaw.bench.peers.systems import PEERS, SYSTEMS
from ideaw.errors import PeerError


def shell(script: str, timeout: float) -> JsonLineProcess:
    return JsonLineProcess("sh", ["sh", "-c", script], dict(os.environ), timeout)


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended may still be listed."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_a_process_that_sleeps_is_ended_with_its_children() -> None:
    began = time.monotonic()
    asleep = shell('sleep 300 & echo "{\\"child\\": $!}"; wait', timeout=3)
    child = asleep.start()["child"]
    assert alive(child)
    with pytest.raises(PeerError, match=r"^sh: no answer within 3 s$"):
        asleep.ask(task="detect")
    while alive(child):  # it has been killed, which takes a moment; five minutes if it has not
        time.sleep(0.01)
    assert time.monotonic() - began < 200


def test_a_process_that_breaks_down_says_why_and_is_begun_anew() -> None:
    broken = shell('echo "{}"; read line; echo trouble >&2; exit 3', timeout=60)
    for _ in range(2):
        with pytest.raises(PeerError, match=r"^sh: it broke down: trouble$"):
            broken.ask(task="detect")
    with pytest.raises(PeerError, match="it said nothing"):
        shell("exit 1", timeout=60).start()


@pytest.mark.slow
def test_absent_peers_are_one_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in PEERS:
        with pytest.raises(PeerError) as problem:
            Peer(name, at=tmp_path)
        assert str(problem.value).startswith(f"{SYSTEMS[name].title}: left out, since ")
        assert "\n" not in str(problem.value)
    monkeypatch.setenv("IDEAW_PEERS", str(tmp_path))
    with pytest.raises(PeerError, match=str(tmp_path)):
        interpreter("perth")
    (tmp_path / "perth" / "bin").mkdir(parents=True)
    (tmp_path / "perth" / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(PeerError, match="Perth: it broke down: ModuleNotFoundError"):
        Peer("perth")


@pytest.mark.slow
def test_a_system_embeds_detects_and_is_timed(tmp_path: Path, music: NDArray[np.float32]) -> None:
    host, marked = tmp_path / "host.wav", tmp_path / "marked.wav"
    sf.write(host, music[: 3 * 44_100], 44_100)
    with Peer("ideaw") as ours:
        message = tuple(k % 3 % 2 for k in range(ours.bits))
        took = ours.embed(host, marked, message)
        assert took.peak > 1e7
        found = ours.detect(marked)
        assert (found.mark, found.bits) == (True, message)
        assert found.score == pytest.approx(1, abs=1e-5)
        assert (ours.detect(host).mark, ours.detect(host).bits) == (False, None)
        assert ours.time("detect_at_its_speed", host).wall > 0
        with pytest.raises(PeerError, match="ideaw: a message of 32 bits is needed, not of 2"):
            ours.embed(host, marked, (0, 1))
        with pytest.raises(PeerError, match="ideaw: LibsndfileError"):
            ours.detect(tmp_path / "none.wav")
    assert sf.info(marked).channels == 2
    assert installed_size("ideaw") > 1e7
    assert version("ideaw") == metadata.version("ideaw")


def test_perth_tells_a_marked_file(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    host, marked = tmp_path / "host.wav", tmp_path / "marked.wav"
    sf.write(host, speech, 16_000)
    try:
        peer = Peer("perth")
    except PeerError as problem:
        pytest.skip(str(problem))
    with peer:
        assert peer.bits == 0
        peer.embed(host, marked)
        here, there = peer.detect(marked), peer.detect(host)
    assert (here.mark, there.mark, here.bits, there.bits) == (True, False, None, None)
    assert there.score < 0.5 < here.score


@pytest.mark.parametrize("at", [16_000, 44_100])
def test_only_what_a_mark_changes_is_added_to_every_channel(at: int, music: NDArray[np.float32]) -> None:
    clip = music[:44_100]
    tone = 0.01 * np.sin(np.arange(at) * 2 * np.pi * 440 / at).astype(np.float32)
    marked = with_mark(clip, 44_100, at, lambda host: (host + tone)[:-10])  # some lose a few samples at the end
    assert marked.shape == clip.shape
    change = marked - clip
    assert np.abs(change[:, 0] - change[:, 1]).max() < 1e-6
    expected = 0.01 * np.sin(np.arange(44_100) * 2 * np.pi * 440 / 44_100)
    assert np.abs(change[:, 0] - expected)[1000:-1000].max() < 1e-4
    assert mono(clip, 44_100, at).shape == (at,)
