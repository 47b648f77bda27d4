"""How much proof that a message was made with the key is asked for: more is read for it, and less is not told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import SAMPLE_RATE
from tests.cli.conftest import run

KEY = ideaw.Key(bytes(range(32)))


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(key=KEY, threads=1)


@pytest.fixture(scope="module")
def marked(marker: ideaw.Marker, speech: NDArray[np.float32]) -> NDArray[np.float32]:
    return marker.embed(np.concatenate([speech, 0.8 * speech[::-1]]), SAMPLE_RATE, "ab")


@pytest.fixture(scope="module")
def noisy(marked: NDArray[np.float32]) -> NDArray[np.float32]:
    noise = np.random.default_rng(0).normal(0, 0.03 * marked.std(), len(marked))
    return (marked + noise).astype(np.float32)


def test_more_is_read_where_more_proof_is_asked_for(
    marker: ideaw.Marker, marked: NDArray[np.float32], noisy: NDArray[np.float32]
) -> None:
    for heard in (marked, noisy):
        usual = marker.detect(heard, SAMPLE_RATE, layers="fast", speeds="none")
        asked = marker.detect(heard, SAMPLE_RATE, layers="fast", speeds="none", min_check_bits=48)
        assert usual.check_bits >= 12
        assert asked.check_bits >= 48
        assert (asked.message, asked.key) == ("ab", KEY.fingerprint)


@pytest.mark.parametrize("layers", ["fast", "deep"])
def test_a_message_with_less_proof_is_as_if_it_could_not_be_read(
    marker: ideaw.Marker, noisy: NDArray[np.float32], layers: str
) -> None:
    heard = noisy if layers == "deep" else noisy[: 4 * SAMPLE_RATE]
    usual = marker.detect(heard, SAMPLE_RATE, layers=layers, speeds="none")
    assert usual.message == "ab"
    asked = marker.detect(heard, SAMPLE_RATE, layers=layers, speeds="none", min_check_bits=48)
    assert (asked.status, asked.message, asked.messages) == ("unreadable", None, ())
    assert (asked.key, asked.check_bits, asked.wire_format) == (None, 0, None)
    assert asked.p_value >= usual.p_value
    assert not any(segment.message_ok for segment in asked.segments)
    *_, last = marker.detect_stream([heard], SAMPLE_RATE, layers=layers, min_check_bits=48)
    assert last.message is None


@pytest.mark.parametrize("proven_first", [True, False])
def test_of_two_messages_the_one_that_is_proven_is_told(
    marker: ideaw.Marker, marked: NDArray[np.float32], speech: NDArray[np.float32], proven_first: bool
) -> None:
    other = marker.embed(np.tile(speech, 2), SAMPLE_RATE, "cd", layers="fast")
    faint = (other + np.random.default_rng(0).normal(0, 0.03 * other.std(), len(other))).astype(np.float32)
    parts = [marked[: 6 * SAMPLE_RATE], np.zeros(SAMPLE_RATE // 3, np.float32), faint[: 4 * SAMPLE_RATE]]
    joined = np.concatenate(parts if proven_first else parts[::-1])
    both = marker.detect(joined, SAMPLE_RATE, layers="fast", speeds="none")
    assert set(both.messages) == {"ab", "cd"}
    asked = marker.detect(joined, SAMPLE_RATE, layers="fast", speeds="none", min_check_bits=48)
    assert asked.messages == ("ab",)


def test_proof_does_not_fade_while_a_stream_goes_on(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    marked = marker.embed(np.tile(speech, 8), SAMPLE_RATE, "abcdefgh", layers="fast")
    blocks = [marked[start : start + SAMPLE_RATE] for start in range(0, len(marked), SAMPLE_RATE)]
    answers = list(marker.detect_stream(blocks, SAMPLE_RATE, layers="fast"))
    proofs = [answer.check_bits for answer in answers if answer.found]
    assert len(proofs) > 5
    assert proofs == sorted(proofs)
    assert proofs[0] >= 44


def test_the_deep_layer_proves_its_words_too(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    host = np.concatenate([speech, 0.8 * speech[::-1], 0.6 * np.roll(speech, 31_000)])
    proofs = []
    for message in ("ab", "cd", b"\x01\x02"):
        marked = marker.embed(host, SAMPLE_RATE, message, layers="deep")
        usual = marker.detect(marked, SAMPLE_RATE, layers="deep", speeds="none")
        asked = marker.detect(marked, SAMPLE_RATE, layers="deep", speeds="none", min_check_bits=usual.check_bits)
        assert usual.message == asked.message == message
        refused = marker.detect(marked, SAMPLE_RATE, layers="deep", speeds="none", min_check_bits=usual.check_bits + 1)
        assert refused.status == "unreadable"
        proofs.append(usual.check_bits)
    assert max(proofs) >= 8


@pytest.mark.parametrize("bits", [-1, 49, 47.5, True, "8", None])
def test_proof_that_is_none_cannot_be_asked_for(marker: ideaw.Marker, bits: Any) -> None:
    with pytest.raises(ideaw.IdeawError, match="0 to 48"):
        marker.detect(np.ones(SAMPLE_RATE), SAMPLE_RATE, min_check_bits=bits)


def test_the_command_asks_for_proof(noisy: NDArray[np.float32], tmp_path: Path) -> None:
    path, key = tmp_path / "marked.wav", tmp_path / "key"
    soundfile.write(path, noisy[: 4 * SAMPLE_RATE], SAMPLE_RATE)
    key.write_text(bytes(KEY).hex())
    key.chmod(0o600)
    words = ["detect", path, "--key", key, "--layers", "fast", "--speeds", "none"]
    assert run(*words).code == 0
    refused = run(*words, "--check-bits", 48)
    assert (refused.code, refused.err) == (1, "")
    assert "or is proven by less than 48 bits" in refused.out
    assert run(*words, "--check-bits", 49).code == 2
