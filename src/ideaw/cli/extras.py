"""Optional packages: a missing one is one line that says what to install."""

from collections.abc import Iterator
from contextlib import contextmanager

from ideaw.errors import MissingExtraError


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Around the imports of `what`, which needs the extra `name`; a mistake in ideaw's own imports stays one."""
    try:
        yield
    except ModuleNotFoundError as problem:
        missing = problem.name or ""
        if missing.split(".")[0] == "ideaw":
            raise
        raise MissingExtraError(f'{what} needs {missing}; install it with: pip install "ideaw[{name}]"') from problem
