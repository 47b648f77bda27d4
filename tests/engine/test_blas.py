"""BLAS has one thread while we work, and as many as before afterwards."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from ideaw.engine.blas import single_threaded
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

import ideaw
from ideaw.engine.network import Network

BEFORE = {2}


def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _threads() -> set[int]:
    """Of every BLAS in this process."""
    return {each["num_threads"] for each in _blas().info()}


def _set(threads: set[int]) -> None:
    for library in _blas().lib_controllers:
        library.set_num_threads(*threads)
    with _blas().limit(limits=None):
        pass  # from now on any thread may change it again


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    found = _threads()
    _set(BEFORE)
    yield
    _set({max(found)})


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


@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_two_at_once_leave_everything_as_it_was(first_leaves_first: bool) -> None:
    first_in, both_in, one_left = Barrier(2), Barrier(2), Barrier(2)

    def work(first: bool) -> None:
        if not first:
            first_in.wait(10)
        with single_threaded():
            if first:
                first_in.wait(10)
            both_in.wait(10)
            assert _threads() == {1}
            both_in.wait(10)
            if first != first_leaves_first:
                one_left.wait(10)
        if first == first_leaves_first:
            one_left.wait(10)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (True, False)))
    assert _threads() == BEFORE


@pytest.mark.slow
def test_marking_and_searching_keep_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[set[int]]] = {}

    def watch(name: str) -> None:
        watched = getattr(Network, name)

        def look(self: Network, *given: Any) -> Any:
            seen.setdefault(name, []).append(_threads())
            return watched(self, *given)

        monkeypatch.setattr(Network, name, look)

    def blocks() -> Iterator[NDArray[np.float32]]:
        for _ in range(8):
            seen.setdefault("between", []).append(_threads())
            yield noise

    for name in ("mark", "locate"):
        watch(name)
    noise = np.random.default_rng(0).standard_normal(16_000).astype(np.float32) / 10
    marker = ideaw.load(threads=1)
    marked = np.concatenate(list(marker.embed_stream(blocks(), 16_000, "ab12")))
    list(marker.detect_stream([marked], 16_000))
    marker.detect(marked, 16_000, speeds="none")
    assert seen.pop("between") == [BEFORE] * 8  # the caller has them back
    assert set(seen) == {"mark", "locate"}
    assert all(each == {1} for some in seen.values() for each in some)
