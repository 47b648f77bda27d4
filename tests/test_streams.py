"""The contract of streams: they take what arrays take and refuse what arrays refuse, with one line."""

import gc
from collections.abc import Iterator
from functools import partial

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
    with pytest.raises(ideaw.AudioError) as problem:
        marker.embed_stream([speech], rate, "ok")  # type: ignore[arg-type]
    assert one_line(problem)
    with pytest.raises(ideaw.AudioError) as problem:
        list(marker.detect_stream([speech], rate))  # type: ignore[arg-type]
    assert one_line(problem)


@pytest.mark.parametrize("stream", [np.zeros((RATE, 2), np.float32), None, 3])
def test_what_is_no_sequence_of_blocks_is_refused(marker: ideaw.Marker, stream: object) -> None:
    # The rows of an array would be taken for blocks of two samples.
    with pytest.raises(ideaw.AudioError, match="sequence of blocks") as problem:
        marker.embed_stream(stream, RATE, "ok")  # type: ignore[arg-type]
    assert one_line(problem)
    with pytest.raises(ideaw.AudioError, match="sequence of blocks") as problem:
        list(marker.detect_stream(stream, RATE))  # type: ignore[arg-type]
    assert one_line(problem)


@pytest.mark.parametrize("latency", [0.05, -1, "x", float("nan")])
def test_a_latency_that_is_no_number_of_seconds_is_refused(marker: ideaw.Marker, latency: object) -> None:
    for open_stream in (marker.open_stream, partial(marker.embed_stream, [])):
        with pytest.raises(ideaw.IdeawError, match="latency") as problem:
            open_stream(RATE, "ok", latency=latency)  # type: ignore[arg-type]
        assert one_line(problem)


@pytest.mark.parametrize("latency", [1, 5.5, "x", None])
def test_answers_come_after_whole_seconds(marker: ideaw.Marker, latency: object) -> None:
    with pytest.raises(ideaw.IdeawError, match="latency") as problem:
        list(marker.detect_stream([], RATE, latency=latency))  # type: ignore[arg-type]
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


@pytest.mark.slow
def test_the_end_tells_whether_there_was_enough(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    for seconds, enough in ((0.02, False), (0.3, False), (1.5, True)):
        stream = marker.open_stream(RATE, "ok")
        host = speech[RATE : RATE + int(seconds * RATE)]
        out = sum(len(stream.push(block)) for block in blocks(host, 160)) + len(stream.flush())
        assert out == len(host)
        assert stream.readable is enough
        assert stream.marked_seconds == pytest.approx(seconds, abs=0.1)
        assert stream.problem is None
    # What is silent does not count, in front or behind.
    silence = np.zeros(RATE, np.float32)
    stream = marker.open_stream(RATE, "ok")
    for block in (silence, speech[RATE : RATE + 4_000], silence):
        stream.push(block)
    stream.flush()
    assert not stream.readable
    assert 0.2 < stream.marked_seconds < 0.3


def test_a_long_message_needs_a_long_stream(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    stream = marker.embed_stream([speech[: 2 * RATE]], RATE, "a message of some length, in many seconds")
    assert sum(map(len, stream)) == 2 * RATE
    assert stream.marked_seconds > 1.9
    assert not stream.readable


def test_a_stream_that_was_refused_a_block_goes_on(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    stream, whole = marker.open_stream(RATE, "ok"), marker.open_stream(RATE, "ok")
    first, second = speech[:4_000], speech[4_000:9_000]
    marked = [stream.push(first)]
    for broken in (np.full(50, np.nan, np.float32), np.zeros((50, 2), np.float32), np.zeros(50, np.int16), "x"):
        with pytest.raises(ideaw.AudioError) as problem:
            stream.push(broken)
        assert one_line(problem)
    marked += [stream.push(second), stream.flush()]
    expected = [whole.push(speech[:9_000]), whole.flush()]
    assert np.array_equal(np.concatenate(marked), np.concatenate(expected))
    with pytest.raises(ideaw.IdeawError, match="ended"):
        stream.push(first)
    assert len(stream.flush()) == 0


def test_who_stops_reading_leaves_nothing_behind(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    closed = []

    def source() -> Iterator[NDArray[np.float32]]:
        try:
            while True:
                yield speech[:1_600]
        finally:
            closed.append(True)

    stream = marker.embed_stream(source(), RATE, "ok")
    assert len(next(stream))
    del stream
    gc.collect()
    assert closed == [True]


def test_a_message_that_does_not_fit_is_refused_before_any_audio(marker: ideaw.Marker) -> None:
    def never() -> Iterator[NDArray[np.float32]]:
        raise AssertionError("audio was asked for")
        yield

    with pytest.raises(ideaw.MessageError):
        list(marker.embed_stream(never(), RATE, ""))
