"""The contract of streams: they take what arrays take and refuse what arrays refuse, with one line."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw

RATE = 16_000


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


def blocks(samples: NDArray[np.float32], length: int = RATE // 2) -> Iterator[NDArray[np.float32]]:
    """The samples in blocks of so many."""
    return (samples[start : start + length] for start in range(0, len(samples), length))


def one_line(problem: pytest.ExceptionInfo[BaseException]) -> bool:
    return bool(str(problem.value)) and "\n" not in str(problem.value)


@pytest.mark.slow
def test_a_float_rate_is_taken(marker: ideaw.Marker, music: NDArray[np.float32]) -> None:
    excerpt = music[: 3 * 44_100]
    marked = np.concatenate(list(marker.embed_stream(blocks(excerpt, 44_100), 44_100.0, "ok")))
    np.testing.assert_array_equal(marked, np.concatenate(list(marker.embed_stream([excerpt], 44_100, "ok"))))
    *_, last = marker.detect_stream(blocks(marked, 44_100), 44_100.0)
    assert last.message == "ok"


@pytest.mark.parametrize("rate", ["24000", None, 0, float("nan"), 44_100.5])
def test_what_is_no_rate_is_refused(marker: ideaw.Marker, speech: NDArray[np.float32], rate: object) -> None:
    for stream in (marker.embed_stream([speech], rate, "ok"), marker.detect_stream([speech], rate)):  # type: ignore[arg-type]
        with pytest.raises(ideaw.AudioError) as problem:
            list(stream)
        assert one_line(problem)


@pytest.mark.parametrize("stream", [np.zeros((RATE, 2), np.float32), None, 3])
def test_what_is_no_sequence_of_blocks_is_refused(marker: ideaw.Marker, stream: object) -> None:
    # The rows of an array would be taken for blocks of two samples.
    for result in (marker.embed_stream(stream, RATE, "ok"), marker.detect_stream(stream, RATE)):  # type: ignore[arg-type]
        with pytest.raises(ideaw.AudioError, match="sequence of blocks") as problem:
            list(result)
        assert one_line(problem)


@pytest.mark.parametrize("latency", [1, 5.5, "x", None])
def test_a_latency_that_is_no_number_of_seconds_is_refused(marker: ideaw.Marker, latency: object) -> None:
    for stream in (
        marker.embed_stream([], RATE, "ok", latency=latency),
        marker.detect_stream([], RATE, latency=latency),
    ):  # type: ignore[arg-type]
        with pytest.raises(ideaw.IdeawError, match="latency") as problem:
            list(stream)
        assert one_line(problem)


def test_more_than_sixteen_channels_are_refused(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    wide = np.repeat(speech[:RATE, None], 17, axis=1)
    for stream in (marker.embed_stream([wide], RATE, "ok"), marker.detect_stream([wide], RATE)):
        with pytest.raises(ideaw.AudioError, match="17") as problem:
            list(stream)
        assert one_line(problem)


def test_a_block_with_other_channels_than_the_first_is_refused(
    marker: ideaw.Marker, speech: NDArray[np.float32]
) -> None:
    mono = speech[: 2 * RATE]
    stereo = np.stack([mono, mono], axis=1)
    for first, second in ((mono, stereo), (stereo, mono)):
        for stream in (marker.embed_stream([first, second], RATE, "ok"), marker.detect_stream([first, second], RATE)):
            with pytest.raises(ideaw.AudioError, match="channel") as problem:
                list(stream)
            assert one_line(problem)


def test_nan_in_a_later_block_is_refused(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    broken = speech[:RATE].copy()
    broken[5] = np.nan
    for stream in (marker.embed_stream([speech, broken], RATE, "ok"), marker.detect_stream([speech, broken], RATE)):
        with pytest.raises(ideaw.AudioError) as problem:
            list(stream)
        assert one_line(problem)


def test_a_stream_of_silence_is_refused_at_its_end(marker: ideaw.Marker) -> None:
    silence = np.zeros(3 * RATE, np.float32)
    with pytest.raises(ideaw.AudioError, match="silent") as stream_problem:
        list(marker.embed_stream(blocks(silence), RATE, "ok"))
    with pytest.raises(ideaw.AudioError) as array_problem:
        marker.embed(silence, RATE, "ok")
    assert str(stream_problem.value) == str(array_problem.value)


def test_half_a_second_is_refused_at_its_end(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    short = speech[: RATE // 2]
    with pytest.raises(ideaw.AudioError) as stream_problem:
        list(marker.embed_stream(blocks(short, 1000), RATE, "ok"))
    with pytest.raises(ideaw.AudioError) as array_problem:
        marker.embed(short, RATE, "ok")
    assert str(stream_problem.value) == str(array_problem.value)


def test_a_message_that_does_not_fit_is_refused_before_any_audio(marker: ideaw.Marker) -> None:
    def never() -> Iterator[NDArray[np.float32]]:
        raise AssertionError("audio was asked for")
        yield

    with pytest.raises(ideaw.MessageError):
        list(marker.embed_stream(never(), RATE, ""))
