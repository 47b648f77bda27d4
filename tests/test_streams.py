"""The contract of streams: they take what arrays take and refuse what arrays refuse, with one line."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw

RATE = 16_000
LOUD = 40_000
"""Where the speech is loud."""

STREAMED = 3 * RATE
"""Samples of each of many streams."""


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


# Short utterances


@pytest.mark.slow
@pytest.mark.parametrize("name", ideaw.model_names())
@pytest.mark.parametrize("kind", [np.float32, np.int16])
def test_half_a_second_can_be_marked_and_read(speech: NDArray[np.float32], name: str, kind: type) -> None:
    marker = ideaw.load(name, threads=1)
    message = "hey" if marker.message_bits > 40 else (1, 0, 1)
    for start in (5_000, 30_000, 60_000):
        word = speech[start : start + RATE // 2]
        samples = word if kind is np.float32 else np.rint(32_767 * word).astype(np.int16)
        assert marker.detect(marker.embed(samples, RATE, message), RATE).message == message


@pytest.mark.slow
def test_short_utterances_in_a_row_are_read(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    words = [speech[start : start + int(0.7 * RATE)] for start in range(4_000, 80_000, 16_000)]
    row = np.concatenate([marker.embed(word, RATE, "hey") for word in words])
    assert marker.detect(row, RATE).message == "hey"
    *_, last = marker.detect_stream(blocks(row, 320), RATE)
    assert last.message == "hey"


@pytest.mark.parametrize("padding", [(0, 8_000), (8_000, 0), (3_000, 5_000)])
def test_silence_around_it_makes_nothing_long_enough(
    marker: ideaw.Marker, speech: NDArray[np.float32], padding: tuple[int, int]
) -> None:
    padded = np.pad(speech[LOUD : LOUD + 4_000], padding)
    with pytest.raises(ideaw.AudioError, match="hold sound") as problem:
        marker.embed(padded, RATE, "hey")
    assert one_line(problem)


@pytest.mark.slow
def test_many_pieces_are_searched_as_each_of_them_is(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    pieces = [marker.embed(speech[start : start + 20_000], RATE, "hey") for start in (0, 20_000, 40_000)]
    pieces.append(speech[60_000:80_000])
    for threads in (1, 2):
        answers = ideaw.load(threads=threads).detect_many(pieces, RATE, speeds="none")
        assert answers == [marker.detect(piece, RATE, speeds="none") for piece in pieces]
    assert [answer.message for answer in answers] == ["hey", "hey", "hey", None]
    assert marker.detect_many([], RATE) == []


# Many streams in one event loop


@pytest.mark.slow
def test_sixteen_streams_keep_up_with_each_other_in_bounded_memory(
    marker: ideaw.Marker, speech: NDArray[np.float32]
) -> None:
    ahead, most = 16, RATE // 10  # samples that a stream may hold

    async def play(number: int) -> NDArray[np.float32]:
        host, given, out = np.roll(speech, 5_000 * number)[:STREAMED], 0, []

        async def source() -> AsyncIterator[NDArray[np.float32]]:
            nonlocal given
            for block in blocks(host, 320):
                given += len(block)
                yield block
                await asyncio.sleep(0)

        came = 0
        async for marked in marker.aembed_stream(source(), RATE, f"s{number}"):
            came += len(marked)
            out.append(marked)
            assert given - came <= most
        return np.concatenate(out)

    async def play_all() -> list[NDArray[np.float32]]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        beside = asyncio.create_task(tick())
        marked = await asyncio.gather(*map(play, range(ahead)))
        beside.cancel()
        assert ticks > 20  # the loop went on meanwhile
        return marked

    begin = time.process_time()
    marked = asyncio.run(play_all())
    spent = time.process_time() - begin
    assert spent < 2 * STREAMED / RATE  # two cores in real time: nobody would have had to wait
    for number, samples in enumerate(marked):
        assert len(samples) == STREAMED
        if number % 5 == 0:
            assert marker.detect(samples, RATE).message == f"s{number}"


def test_a_stream_that_is_awaited_ends_with_who_reads_it(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    closed = []

    async def source() -> AsyncIterator[NDArray[np.float32]]:
        try:
            while True:
                yield speech[:1_600]
        finally:
            closed.append(True)

    async def leave_early() -> None:
        stream = marker.aembed_stream(source(), RATE, "ok")
        assert len(await anext(stream))
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave_early())
    assert closed == [True]
