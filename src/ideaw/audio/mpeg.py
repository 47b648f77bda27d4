"""What libsndfile lacks for MP3: the stream's bitrate, its length where no index tells it, and tags beyond Latin-1.

Every frame's header is read, which gives the bitrate exactly (file size over duration counts tags
and cover pictures too) and the number of frames. A stream of varying bitrate without a Xing index
is measured wrongly by libsndfile and cut short; `Stream.index` makes the index that it lacks.
"""

import io
import os
import re
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

BITRATES = {
    1: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Legal bitrates of Layer III in kbit/s, for MPEG-1 and for MPEG-2 and 2.5."""

RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)

INDEX_ROOM = 192
"""Bytes of a frame that LAME needs to write its index; without it the encoder's delay cannot be undone."""

_RATES_OF_VERSION = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}

_HEADER = re.compile(rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb][\x10-\xef]", re.DOTALL)
"""How a Layer III frame opens: eleven set bits, a version, and a bitrate of the table."""

_TAG_FRAMES = {
    "title": b"TIT2",
    "artist": b"TPE1",
    "album": b"TALB",
    "date": b"TDRC",
    "comment": b"COMM",
    "genre": b"TCON",
    "tracknumber": b"TRCK",
    "copyright": b"TCOP",
}


@dataclass(frozen=True)
class Stream:
    """One MP3 stream: mean `bitrate` in kbit/s, number of `frames`, and the header of the first one."""

    bitrate: float
    frames: int
    header: bytes
    start: int
    indexed: bool
    varying: bool
    promised: int
    """Frames that the index says there are; 0 where it does not say."""

    def index(self) -> bytes:
        """A Xing frame that says how many frames follow, of the first frame's own size."""
        frame = _parse(self.header)
        assert frame is not None
        mono = self.header[3] >> 6 == 3
        side = (17 if mono else 32) if frame.version == 3 else (9 if mono else 17)
        body = b"\0" * side + b"Xing" + (1).to_bytes(4, "big") + self.frames.to_bytes(4, "big")
        return (self.header + body).ljust(frame.size, b"\0")[: frame.size]


def scan(file: BinaryIO) -> Stream | None:
    """The stream in an MP3 file; None if there is no Layer III frame of a known bitrate in it."""
    window = _Window(file)
    at: int | None = tag_length(window.take(0, 10))
    first, start, indexed, promised = b"", 0, False, 0
    frames = total = lowest = highest = 0
    while at is not None and len(header := window.take(at, 4)) == 4:
        frame = _parse(header)
        if frame is None or not (first or _continues(window, at, header, frame.size)):
            at = window.next_header(at + 1)
            continue
        if not first:
            first, start = header, at
            opening = window.take(at, 60)
            indexed = any(mark in opening for mark in (b"Xing", b"Info", b"VBRI"))
            promised = _promised(opening)
        if at != start or not indexed:
            frames, total = frames + 1, total + frame.bitrate
            lowest, highest = min(lowest or frame.bitrate, frame.bitrate), max(highest, frame.bitrate)
        at += frame.size
    if not frames:
        return None
    return Stream(total / frames, frames, first, start, indexed, lowest != highest, promised)


def with_index(file: BinaryIO, head: bytes, stream: Stream) -> io.BufferedReader:
    """The file as if an index stood between its tag `head` and its frames; nothing is copied."""
    return io.BufferedReader(_Spliced(head + stream.index(), file, stream.start))


def _promised(opening: bytes) -> int:
    """The number of frames in a Xing index (LAME calls it Info where the bitrate is constant); 0 if it has none."""
    at = max(opening.find(b"Xing"), opening.find(b"Info"))
    has_frames = at >= 0 and len(opening) >= at + 12 and opening[at + 7] & 1
    return int.from_bytes(opening[at + 8 : at + 12], "big") if has_frames else 0


def tag_length(opening: bytes) -> int:
    """Bytes that the ID3v2 tag of a file with this opening says it has; 0 if there is none."""
    if len(opening) < 10 or not opening.startswith(b"ID3"):
        return 0
    size = 0
    for byte in opening[6:10]:
        size = size << 7 | byte & 0x7F
    footer = 10 if opening[5] & 0x10 else 0
    return 10 + size + footer


def tag(texts: dict[str, str]) -> bytes:
    """An ID3v2.4 tag in UTF-8; libsndfile's own writes every letter beyond ASCII as two wrong ones."""
    frames = b""
    for name, text in texts.items():
        if name in _TAG_FRAMES:
            opening = b"\x03und\0" if name == "comment" else b"\x03"
            body = opening + text.encode("utf-8", "replace")
            frames += _TAG_FRAMES[name] + _synchsafe(len(body)) + b"\0\0" + body
    return b"ID3\x04\0\0" + _synchsafe(len(frames)) + frames if frames else b""


def legal_bitrate(wanted: float, rate: int) -> int:
    """The lowest bitrate in kbit/s not below `wanted` that MP3 at `rate` Hz can have, index included."""
    version = 1 if rate >= 32_000 else 2
    bytes_per_kbit = (144_000 if version == 1 else 72_000) / rate
    legal = [kbps for kbps in BITRATES[version] if kbps * bytes_per_kbit >= INDEX_ROOM and kbps <= highest(rate)]
    return next((kbps for kbps in legal if kbps >= wanted - 0.5), legal[-1])


def highest(rate: int) -> int:
    """The highest bitrate in kbit/s that LAME writes at `rate` Hz."""
    return 320 if rate >= 32_000 else 160 if rate >= 16_000 else 64


def _synchsafe(size: int) -> bytes:
    """A length in four bytes of seven bits, so that no decoder takes it for the start of a frame."""
    return bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0))


def _continues(window: "_Window", at: int, header: bytes, size: int) -> bool:
    """Whether another frame of the same kind follows, which random bytes hardly ever show."""
    after = window.take(at + size, 4)
    if len(after) < 4 or _parse(after) is None:
        return False
    return header[1] == after[1] and header[2] & 0x0C == after[2] & 0x0C


class _Frame(NamedTuple):
    """What a header tells: version bits, bitrate in kbit/s, and size in bytes."""

    version: int
    bitrate: int
    size: int


def _parse(header: bytes) -> _Frame | None:
    """The Layer III frame that these four bytes open, if they do."""
    if not _HEADER.match(header):
        return None
    second, third = header[1], header[2]
    version, bitrate_index, rate_index = second >> 3 & 3, third >> 4, third >> 2 & 3
    if rate_index == 3:
        return None
    bitrate = BITRATES[1 if version == 3 else 2][bitrate_index - 1]
    rate = _RATES_OF_VERSION[version][rate_index]
    padding = third >> 1 & 1
    return _Frame(version, bitrate, (144_000 if version == 3 else 72_000) * bitrate // rate + padding)


class _Window:
    """A file looked at anywhere, with only a piece of it in memory: a few hours of MP3 are half a gigabyte."""

    PIECE = 1 << 16
    BEHIND = 1 << 12
    """Bytes kept before the place asked for: more than a frame, since a search looks one ahead and comes back."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._load(0)

    def take(self, at: int, count: int) -> bytes:
        """`count` bytes from `at` on; fewer at the end of the file."""
        if not self._start <= at <= at + count <= self._end:
            self._load(at)
        return self._piece[at - self._start : at - self._start + count]

    def next_header(self, at: int) -> int | None:
        """Where, from `at` on, the next header may lie; None if nowhere."""
        while len(self.take(at, 3)) == 3:
            if found := _HEADER.search(self._piece, at - self._start):
                return self._start + found.start()
            at = self._end - 2
        return None

    def _load(self, at: int) -> None:
        self._start = max(0, at - self.BEHIND)
        self._file.seek(self._start)
        self._piece = self._file.read(self.PIECE)
        self._end = self._start + len(self._piece)


class _Spliced(io.RawIOBase):
    """`opening`, and then `file` from `start` on, as one file."""

    def __init__(self, opening: bytes, file: BinaryIO, start: int) -> None:
        self._opening, self._file, self._skipped = opening, file, start - len(opening)
        self._at, self._size = 0, file.seek(0, os.SEEK_END) - self._skipped

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        piece = self._opening[self._at : self._at + len(buffer)]
        if not piece:
            self._file.seek(self._skipped + self._at)
            piece = self._file.read(len(buffer))
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)
