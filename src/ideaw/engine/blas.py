"""Keeps numpy's BLAS on one thread while we work, since our threads have parts of their own to do.

OpenBLAS starts a thread for every core and lets them spin while they wait: two threads of ours with two of its beside
them are no faster than one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_counting = Lock()
_limits: list[Any] = []
"""The limit that is in force, once for everyone who asked for it."""


@contextmanager
def single_threaded() -> Iterator[None]:
    """One thread of BLAS in the whole process; what was before comes back when the last who asked has left."""
    with _counting:
        _limits.append(_limits[-1] if _limits else _libraries().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _counting:
            limit = _limits.pop()
            if not _limits:
                limit.restore_original_limits()


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
