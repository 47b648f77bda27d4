"""Files in one call, with the packaged models: each is loaded once and then shared."""

from collections.abc import Sequence
from functools import cache

from ideaw.audio.blocks import Progress
from ideaw.audio.formats import PathLike
from ideaw.hypotheses import Speeds
from ideaw.keys import Key
from ideaw.marker import load
from ideaw.payload.message import MessageLike
from ideaw.results import Detection


def embed_file(
    source: PathLike,
    target: PathLike,
    message: MessageLike,
    *,
    model: str | None = None,
    snr: float | None = None,
    progress: Progress | None = None,
) -> None:
    """Mark the file `source` as `target` under the public key; see `Marker.embed_file`."""
    _shared(model).embed_file(source, target, message, snr=snr, progress=progress)


def detect_file(
    path: PathLike,
    *,
    model: str | None = None,
    keys: Sequence[Key] | None = None,
    speeds: Speeds = "near",
    progress: Progress | None = None,
) -> Detection:
    """Search the file at `path` for a mark; see `Marker.detect_file`."""
    return _shared(model).detect_file(path, keys=keys, speeds=speeds, progress=progress)


_shared = cache(load)
