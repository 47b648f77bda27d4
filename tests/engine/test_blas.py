"""BLAS has one thread while we work, whoever else works, and as many as before afterwards."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import ideaw
from ideaw.engine.blas import single_threaded


def _threads() -> set[int]:
    """Of every BLAS in this process."""
    return {each["num_threads"] for each in ThreadpoolController().select(user_api="blas").info()}


BEFORE = _threads()


def test_there_is_one_thread_inside() -> None:
    with single_threaded():
        assert _threads() == {1}
        with single_threaded():
            assert _threads() == {1}
        assert _threads() == {1}
    assert _threads() == BEFORE


def test_an_error_leaves_everything_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), single_threaded():
        _ = 1 / 0
    assert _threads() == BEFORE


def test_two_at_once_leave_everything_as_it_was() -> None:
    together, first_left = Barrier(2), Barrier(2)

    def work(leaves_first: bool) -> None:
        with single_threaded():
            together.wait(10)
            assert _threads() == {1}
            together.wait(10)
            if not leaves_first:
                first_left.wait(10)
        if leaves_first:
            first_left.wait(10)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (True, False)))
    assert _threads() == BEFORE
    test_there_is_one_thread_inside()


def test_marking_and_searching_keep_to_one() -> None:
    seen: list[set[int]] = []
    marker = ideaw.load(threads=1)
    noise = np.random.default_rng(0).standard_normal(48_000).astype(np.float32) / 10
    marker.detect(noise, 16_000, speeds="none", progress=lambda share: seen.append(_threads()))
    stream = marker.embed_stream([noise], 16_000, "ab12")
    next(stream)
    assert seen
    assert all(each == {1} for each in seen)
    assert _threads() == BEFORE  # between the blocks of a stream the caller has it back
