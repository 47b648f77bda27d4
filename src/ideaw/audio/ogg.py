"""What libsndfile does not tell about Ogg files: whether one is complete, and the bitrate that it was made with."""

import os
from pathlib import Path
from typing import BinaryIO

from ideaw.errors import FileError

_MAX_PAGE_BYTES = 27 + 255 + 255 * 255
"""Header, segment table and segments of the largest Ogg page."""


def check_last_page(path: Path, file: BinaryIO) -> None:
    """Raise `FileError` unless the last page of an Ogg file says that it is the last, and is complete."""
    file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * _MAX_PAGE_BYTES))
    tail = file.read()
    page = tail[tail.rfind(b"OggS") :]
    lengths = page[27 : 27 + page[26]] if len(page) > 26 else b""
    if not lengths or not page[5] & 4 or len(page) < 27 + len(lengths) + sum(lengths):
        raise FileError(f"{path} is truncated: its last page is missing")


def vorbis_nominal_bitrate(opening: bytes) -> float:
    """Nominal bitrate in kbit/s in a Vorbis identification header: the quality that an encoder can be asked for again.

    Not above 0 where there is none.
    """
    at = opening.find(b"\x01vorbis")
    return int.from_bytes(opening[at + 20 : at + 24], "little", signed=True) / 1000 if at >= 0 else 0
