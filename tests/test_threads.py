"""Threads change how long something takes, never what comes out."""

import io
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw

RATE = 16_000


@pytest.fixture(scope="module")
def compressed(speech: NDArray[np.float32], strings: NDArray[np.float32]) -> NDArray[np.float32]:
    """Twelve marked seconds through MP3 and back."""
    marked = ideaw.load(threads=1).embed(np.concatenate([speech, strings]), RATE, "ab12")
    file = io.BytesIO()
    sf.write(file, marked, RATE, format="MP3")
    file.seek(0)
    decoded, _ = sf.read(file, dtype="float32")
    return np.asarray(decoded[: 12 * RATE])


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 2])
def test_any_number_of_threads_detects_exactly_the_same(compressed: NDArray[np.float32], channels: int) -> None:
    noise = np.random.default_rng(0).standard_normal(len(compressed)).astype(np.float32) * 1e-3
    audio = compressed if channels == 1 else np.stack([compressed, noise], 1)
    detections: dict[int, ideaw.Detection] = {
        threads: ideaw.load(threads=threads).detect(audio, RATE) for threads in (1, 2, 4)
    }
    alone = detections.pop(1)
    assert alone.message == "ab12"
    for detection in detections.values():
        assert detection.p_value == alone.p_value
        assert detection.segments == alone.segments
        assert detection.bit_confidence == alone.bit_confidence
        assert detection == alone


@pytest.mark.slow
def test_any_number_of_threads_finds_exactly_as_little(speech: NDArray[np.float32]) -> None:
    unmarked = np.concatenate([speech, speech[::-1]])
    alone, *others = (ideaw.load(threads=threads).detect(unmarked, RATE, speeds="none") for threads in (1, 2, 4))
    assert all(detection == alone for detection in others)


# Many pieces at once


def _pieces(speech: NDArray[np.float32], music: NDArray[np.float32]) -> list[NDArray[Any]]:
    """Of several types, lengths and channels."""
    return [
        speech[:40_000],
        (speech[-50_000:] * 32_767).astype(np.int16),
        music[:48_000].astype(np.float64),
        speech[-RATE:, None],
        speech[-30_000:],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
def test_many_pieces_are_marked_as_each_of_them_is(
    speech: NDArray[np.float32], music: NDArray[np.float32], threads: int
) -> None:
    pieces, alone = _pieces(speech, music), ideaw.load(threads=1)
    messages = ["ab12", b"\x00\x01", (1, 0, 1), "c", "ab12"]
    many = ideaw.load(threads=threads).embed_many(pieces, RATE, messages)
    for piece, message, marked in zip(pieces, messages, many, strict=True):
        assert marked.dtype == piece.dtype
        assert np.array_equal(marked, alone.embed(piece, RATE, message))


@pytest.mark.slow
def test_one_message_serves_many_pieces(speech: NDArray[np.float32]) -> None:
    marker, pieces = ideaw.load(threads=1), [speech[:32_000], speech[-32_000:]]
    for message in ("ab12", b"ab"):
        many = marker.embed_many(pieces, RATE, message)
        assert all(
            np.array_equal(marked, marker.embed(piece, RATE, message))
            for piece, marked in zip(pieces, many, strict=True)
        )
    assert marker.embed_many([], RATE, "ab12") == []


@pytest.mark.parametrize("messages", [[], ["a"], ["a", "b", "c"]])
def test_as_many_messages_as_pieces_are_needed(speech: NDArray[np.float32], messages: list[str]) -> None:
    with pytest.raises(ideaw.IdeawError, match="2 arrays") as caught:
        ideaw.load(threads=1).embed_many([speech, speech], RATE, messages)
    assert str(len(messages)) in str(caught.value)
    assert "\n" not in str(caught.value)
