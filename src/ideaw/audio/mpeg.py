"""What libsndfile lacks for MP3: the bitrate of a stream, and its length where no Xing header gives it.

Every MPEG frame header is parsed, which gives the bitrate exactly (file size over duration counts tags and cover
pictures too) and the number of frames. libsndfile takes a stream of variable bitrate without a Xing header for
shorter than it is; `with_xing_header` supplies the header.
"""

import io
import os
import re
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from ideaw.audio.containers.trailers import trailing_tags_start
from ideaw.audio.tags import id3_length

LAYER3_KBPS = {
    1: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Legal bitrates of Layer III in kbit/s, for MPEG-1 and for MPEG-2 and 2.5."""

_RATES_BY_VERSION_BITS = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}

_HEADER = re.compile(rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb][\x10-\xef]", re.DOTALL)
"""How a Layer III frame opens: eleven set bits, a version, and a bitrate of the table."""


@dataclass(frozen=True)
class Mp3Stream:
    """The audio of one MP3 file.

    Attributes:
        bitrate: mean over the frames, in kbit/s.
        num_frames: MPEG frames, that of a Xing header not counted.
        header: the four bytes that open the first frame.
        start: where the first frame begins, in bytes.
        has_xing: whether the first frame is a Xing, Info or VBRI header.
        variable: whether frames differ in bitrate.
        claimed_frames: frames that the Xing header claims; 0 where it does not say.
    """

    bitrate: float
    num_frames: int
    header: bytes
    start: int
    has_xing: bool
    variable: bool
    claimed_frames: int

    def xing_frame(self) -> bytes:
        """A Xing header that says how many MPEG frames follow, of the first frame's own size."""
        frame = _parse_header(self.header)
        assert frame is not None
        body = bytes(frame.side_bytes) + b"Xing" + (1).to_bytes(4, "big") + self.num_frames.to_bytes(4, "big")
        return (self.header + body).ljust(frame.size, b"\0")[: frame.size]

    def header_with_room(self, count: int) -> bytes:
        """Four bytes that open a frame like the first, of the least bitrate that leaves room for `count` bytes."""
        frame = _parse_header(self.header)
        assert frame is not None
        for bitrate_index in range(1, 15):
            header = self.header[:2] + bytes([bitrate_index << 4 | self.header[2] & 0x0D]) + self.header[3:]
            size, side_bytes, _ = frame_sizes(header)
            if size >= len(header) + side_bytes + count:
                break
        return header


def scan(file: BinaryIO) -> Mp3Stream | None:
    """The stream in an MP3 file; None if there is no Layer III frame of a known bitrate in it."""
    end = trailing_tags_start(file)
    window = _FileWindow(file)
    at: int | None = id3_length(window.read_at(0, 10))
    first, start, has_xing, claimed_frames = b"", 0, False, 0
    frames = total = lowest = highest = 0
    while at is not None and at < end and len(header := window.read_at(at, 4)) == 4:
        frame = _parse_header(header)
        if frame is None or not (first or _continues(window, at, header, frame.size)):
            at = window.next_header(at + 1)
            continue
        if not first:
            first, start = header, at
            opening = window.read_at(at, 60)
            has_xing = any(mark in opening for mark in (b"Xing", b"Info", b"VBRI"))
            claimed_frames = _claimed_frames(opening)
        if at != start or not has_xing:
            frames, total = frames + 1, total + frame.bitrate
            lowest, highest = min(lowest or frame.bitrate, frame.bitrate), max(highest, frame.bitrate)
        at += frame.size
    if not frames:
        return None
    return Mp3Stream(total / frames, frames, first, start, has_xing, lowest != highest, claimed_frames)


def first_frame(file: BinaryIO, stream: Mp3Stream) -> bytes:
    """The first frame of an MP3 file, which may be a header of the others."""
    frame = _parse_header(stream.header)
    assert frame is not None
    file.seek(stream.start)
    return file.read(frame.size)


def frame_sizes(header: bytes) -> tuple[int, int, int]:
    """Bytes of the frame that these four bytes open, of its side information, and samples per channel that it holds."""
    frame = _parse_header(header)
    assert frame is not None
    return frame.size, frame.side_bytes, 1152 if frame.version == 3 else 576


def rate_and_channels(header: bytes) -> tuple[int, int]:
    """Sampling rate in Hz and number of channels of the frame that these four bytes open."""
    return _RATES_BY_VERSION_BITS[header[1] >> 3 & 3][header[2] >> 2 & 3], 1 if header[3] >> 6 == 3 else 2


def with_xing_header(file: BinaryIO, id3: bytes, stream: Mp3Stream) -> io.BufferedReader:
    """The file as if a Xing header stood between its ID3v2 tag and its frames; nothing is copied."""
    return io.BufferedReader(_SplicedFile(id3 + stream.xing_frame(), file, stream.start))


def without_opening(file: BinaryIO, start: int) -> io.BufferedReader:
    """The file as if it began at `start`; nothing is copied."""
    return io.BufferedReader(_SplicedFile(b"", file, start))


def _claimed_frames(opening: bytes) -> int:
    """Number of frames in a Xing header (LAME calls it Info where the bitrate is constant); 0 if it has none."""
    at = max(opening.find(b"Xing"), opening.find(b"Info"))
    has_frames = at >= 0 and len(opening) >= at + 12 and opening[at + 7] & 1
    return int.from_bytes(opening[at + 8 : at + 12], "big") if has_frames else 0


def legal_bitrate(wanted: float, rate: int) -> int:
    """The lowest bitrate in kbit/s not below `wanted` that LAME writes at `rate` Hz."""
    legal = [kbps for kbps in LAYER3_KBPS[1 if rate >= 32_000 else 2] if kbps <= max_bitrate(rate)]
    return next((kbps for kbps in legal if kbps >= wanted - 0.5), legal[-1])


def max_bitrate(rate: int) -> int:
    """The highest bitrate in kbit/s that LAME writes at `rate` Hz."""
    return 320 if rate >= 32_000 else 160 if rate >= 16_000 else 64


def _continues(window: "_FileWindow", at: int, header: bytes, size: int) -> bool:
    """Whether another frame of the same kind follows, which random bytes hardly ever show."""
    after = window.read_at(at + size, 4)
    if len(after) < 4 or _parse_header(after) is None:
        return False
    return header[1] == after[1] and header[2] & 0x0C == after[2] & 0x0C


class _FrameHeader(NamedTuple):
    """What a header tells: version bits, bitrate in kbit/s, and bytes of the frame and of its side information."""

    version: int
    bitrate: int
    size: int
    side_bytes: int


def _parse_header(header: bytes) -> _FrameHeader | None:
    """The Layer III frame that these four bytes open, if they do."""
    if not _HEADER.match(header):
        return None
    second, third = header[1], header[2]
    version, bitrate_index, rate_index = second >> 3 & 3, third >> 4, third >> 2 & 3
    if rate_index == 3:
        return None
    bitrate = LAYER3_KBPS[1 if version == 3 else 2][bitrate_index - 1]
    rate = _RATES_BY_VERSION_BITS[version][rate_index]
    padding = third >> 1 & 1
    side_bytes = (17 if header[3] >> 6 == 3 else 32) if version == 3 else (9 if header[3] >> 6 == 3 else 17)
    size = (144_000 if version == 3 else 72_000) * bitrate // rate + padding
    return _FrameHeader(version, bitrate, size, side_bytes)


class _FileWindow:
    """A file looked at anywhere, with only a piece of it in memory: a few hours of MP3 are half a gigabyte."""

    WINDOW_BYTES = 1 << 16
    LOOKBACK_BYTES = 1 << 12
    """Bytes kept before the place asked for: more than a frame, since a search looks one ahead and comes back."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._load(0)

    def read_at(self, at: int, count: int) -> bytes:
        """`count` bytes from `at` on; fewer at the end of the file."""
        if not self._start <= at <= at + count <= self._end:
            self._load(at)
        return self._window[at - self._start : at - self._start + count]

    def next_header(self, at: int) -> int | None:
        """Where, from `at` on, the next header may lie; None if nowhere."""
        while len(self.read_at(at, 3)) == 3:
            if match := _HEADER.search(self._window, at - self._start):
                return self._start + match.start()
            at = self._end - 2
        return None

    def _load(self, at: int) -> None:
        self._start = max(0, at - self.LOOKBACK_BYTES)
        self._file.seek(self._start)
        self._window = self._file.read(self.WINDOW_BYTES)
        self._end = self._start + len(self._window)


class _SplicedFile(io.RawIOBase):
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
