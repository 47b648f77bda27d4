"""What is answered: files that are gone from the disk before they are sent, and what strangers are told of a search."""

import asyncio
import contextlib
import math
import os
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

PIECE_BYTES = 1 << 18
"""Bytes of a file that are read at a time."""

ID_HEADER = "X-Ideaw-Id"
"""Header of audio that got an id: 8 hexadecimal digits."""

MAX_NAME_CHARACTERS = 100

MEDIA_TYPES = {
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".aiff": "audio/aiff",
    ".aif": "audio/aiff",
    ".au": "audio/basic",
    ".m4a": "audio/mp4",
    ".m4b": "audio/mp4",
    ".mp4": "audio/mp4",
    ".m4v": "video/mp4",
    ".mov": "video/quicktime",
    ".mka": "audio/x-matroska",
    ".mkv": "video/x-matroska",
    ".webm": "video/webm",
    ".caf": "audio/x-caf",
}
"""Types of what can be answered, by extension."""

NO_TYPE = "application/octet-stream"
"""Of the few formats that have no type of their own."""

ANSWERED_TYPES = (*dict.fromkeys(MEDIA_TYPES.values()), NO_TYPE)


class FileAnswer(StreamingResponse):
    """A file as an answer. It is opened now, so that its folder can be deleted before a client has read it."""

    def __init__(self, path: Path, headers: dict[str, str], held: AbstractContextManager[None]) -> None:
        """`held` is entered now too, and left when the file is closed: sent, or given up with its client."""
        with contextlib.ExitStack() as opened:
            opened.enter_context(held)
            self._file = opened.enter_context(path.open("rb"))
            self._opened = opened.pop_all()
        length = {"Content-Length": str(os.fstat(self._file.fileno()).st_size)}
        kind = MEDIA_TYPES.get(path.suffix, NO_TYPE)
        super().__init__(self._pieces(), media_type=kind, headers=headers | length)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._opened:
            await super().__call__(scope, receive, send)

    async def _pieces(self) -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(self._file.read, PIECE_BYTES):
            yield piece


def attachment(name: str, ending: str) -> str:
    """A header that has a browser save the answer under the upload's own name with another ending.

    Args:
        name: what the client called the upload.
        ending: replaces its extension.
    """
    stem = PurePosixPath(name).stem.lstrip(".")
    shown = "".join(c for c in stem if c.isprintable() and c not in '\\/"<>:|?*;%')[:MAX_NAME_CHARACTERS].strip()
    full = f"{shown or 'audio'}{ending}"
    plain = full.encode("ascii", "replace").decode().replace("?", "_")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(full, safe='')}"


def coarse(answer: dict[str, Any]) -> dict[str, Any]:
    """What a stranger is told: found or not, the message, and places in whole seconds.

    A mark whose message cannot be read counts as none, and where several lie in each other's reach they are one: exact
    borders, p-values and speeds would tell an attacker how far a mark is from being gone.
    """
    found = answer["status"] == "found"
    places: list[dict[str, int]] = []
    for segment in sorted(answer["segments"], key=lambda segment: float(segment["start"])) if found else ():
        start, end = math.floor(segment["start"]), math.ceil(segment["end"])
        if places and start <= places[-1]["end"]:
            places[-1]["end"] = max(end, places[-1]["end"])
        else:
            places.append({"start": start, "end": end})
    told = {name: answer[name] if found else None for name in ("message", "kind")}
    return {"found": found, "status": "found" if found else "none"} | told | {"segments": places}
