"""Keeps numpy's BLAS on one thread while we work, since our threads have parts of their own to do.

OpenBLAS starts a thread for every core and lets them spin while they wait: two threads of ours with two of its beside
them are no faster than one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_taken = Lock()


@contextmanager
def single_threaded() -> Iterator[None]:
    """One thread of numpy's BLAS, in the whole process, and then as many as before.

    Of several who ask at once the first is heard. When it leaves, the others go on with more threads: slower, but
    what they would set back is what they found, and that was not there before.
    """
    if not _taken.acquire(blocking=False):
        yield
        return
    try:
        with _libraries().limit(limits=1):
            yield
    finally:
        _taken.release()


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
