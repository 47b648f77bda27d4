"""Parts that were measured already: `metrics.json` in a folder of results, written anew after every part.

A run that was stopped goes on where it was. A part is measured again where it was given something else: other audio, a
model with other weights, another number of segments.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ideaw.bench import cache
from ideaw.bench.corpus import paths_under
from ideaw.errors import FileError
from ideaw.marker import load

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Found = TypeVar("Found", bound=DataclassInstance)


class Kept:
    """The parts in one folder, which is made if it is not there."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise FileError(f"{folder} is a file; give a folder for the results")
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "metrics.json"
        try:
            self._parts: dict[str, Any] = json.loads(self._path.read_text()) if self._path.exists() else {}
        except ValueError:
            raise FileError(f"{self._path} is not a file of results; move it away, or give another folder") from None

    def part(
        self, name: str, given: dict[str, Any], measure: "Callable[[], Found]", restore: "Callable[[Any], Found]"
    ) -> "Found":
        """What `measure` finds, or what it found before with the same things given."""
        known = self._parts.get(name)
        if known and known["given"] == given:
            with contextlib.suppress(TypeError, KeyError):  # another version kept something else
                return restore(known["found"])
        found = measure()
        self._parts[name] = {"given": given, "found": asdict(found)}
        cache.write(self._path, json.dumps(self._parts, indent=2) + "\n")
        return found


def audio_given(data: Path) -> dict[str, Any]:
    """What tells a folder of audio from another one, wherever it lies: the names and the sizes of its files."""
    sizes = {str(path.relative_to(data)): path.stat().st_size for path in paths_under(data)}
    return {"files": len(sizes), "audio": _digest(json.dumps(sizes).encode())}


def model_given(model: str) -> dict[str, Any]:
    """What tells a model from another one: its card, without the results on it, and its weights."""
    marker = load(model)
    card = asdict(marker.card)
    del card["facts"]
    return card | {"weights": marker.weights}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
