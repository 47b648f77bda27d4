"""What figures depend on, as short digests: weights, wire format, engine and deep layer. A figure whose digests are not
those of the source any more is stale, and docs/results/tables/freshness.md says so.

Comments, docstrings and white space do not count: only what runs can change a figure.
"""

import ast
import hashlib
import io
import threading
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

WEIGHTS = ("weights/*/*.onnx",)
WIRE = ("modem/*.py", "payload/*.py", "keys.py")
ENGINE = (
    *("engine/*.py", "detector.py", "hypotheses.py", "layered_*.py", "layers.py", "listening.py"),
    *("audio/grid.py", "audio/hearing.py", "audio/masking.py", "audio/spectrum.py"),
)
DEEP = ("deep/*.py", "deep/*.npz", "deep/*.npy", "audio/modulation.py")
"""Files under src/ideaw that decide what a mark is and whether it is found; DEEP matters to the deep layer alone."""

PARTS = {"weights": WEIGHTS, "wire format": WIRE, "engine": ENGINE, "deep layer": DEEP}

DIGEST_LETTERS = 12

Stamp = dict[str, str]
"""Part → its digest."""


_ONE_AT_A_TIME = threading.Lock()
"""CPython 3.11 parses in one thread only: two at once end in a `SystemError`."""


def stamp(root: Path = ROOT) -> Stamp:
    """The digests of a source tree as it is now."""
    with _ONE_AT_A_TIME:
        return {part: _digest(root / "src/ideaw", patterns) for part, patterns in PARTS.items()}


def changed_parts(made_with: Stamp, now: Stamp) -> list[str]:
    """The parts that are not what they were."""
    return [part for part in PARTS if made_with.get(part) != now[part]]


def _digest(package: Path, patterns: Iterable[str]) -> str:
    paths = sorted({path for pattern in patterns for path in package.glob(pattern)})
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package)}\n".encode())
        digest.update(what_runs(content.decode()).encode() if path.suffix == ".py" else content)
    return digest.hexdigest()[:DIGEST_LETTERS]


def what_runs(source: str) -> str:
    """The source without comments, docstrings and white space, alike under every version of Python."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data, left = source.encode(), []
    place = 0
    for begin, end in sorted((*_docstrings(source, starts), *_comments(source, lines, starts))):
        left.append(data[place:begin])
        place = end
    return "".join(b"".join([*left, data[place:]]).decode().split())


def _docstrings(source: str, starts: list[int]) -> Iterator[tuple[int, int]]:
    """Bytes of strings that stand alone as statements."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            yield starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _comments(source: str, lines: list[str], starts: list[int]) -> Iterator[tuple[int, int]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            (row, first), (_, last) = token.start, token.end
            line, begin = lines[row - 1], starts[row - 1]
            yield begin + len(line[:first].encode()), begin + len(line[:last].encode())
