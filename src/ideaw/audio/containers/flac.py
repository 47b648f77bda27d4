"""FLAC: all metadata blocks of the source around the frames of another file.

STREAMINFO and the seek table describe the frames, so the first is the coder's and the second is made again, with the
points where the source has them. Blocks with pictures, cue sheets and comments stay byte for byte, in their order.
"""

import bisect
from typing import BinaryIO

from ideaw.audio.containers.bytes import Stretch, UnfitContainerError, append, num_bytes, read_at
from ideaw.audio.containers.trailers import trailing_tags_start
from ideaw.audio.tags import id3_length

_STREAMINFO, APPLICATION, _SEEKTABLE, VORBIS_COMMENT, CUESHEET, PICTURE = 0, 2, 3, 4, 5, 6
"""Kinds of metadata blocks."""

_LAST_BLOCK = 0x80
_SEEK_POINT_BYTES = 18
_PLACEHOLDER = 0xFFFF_FFFF_FFFF_FFFF
"""Sample number of a seek point that is not used."""

_SCANNED_BYTES = 1 << 20
_MAX_FRAME_HEADER_BYTES = 16


def carry_flac(source: BinaryIO, coded: BinaryIO, output: BinaryIO) -> None:
    """Write the frames of `coded` with everything else of `source`, both FLAC files, to `output`.

    Raises:
        UnfitContainerError: the metadata of one cannot be read.
    """
    start = id3_length(read_at(source, 0, 10))
    theirs, _ = read_blocks(source, start)
    ours, first_frame = read_blocks(coded, 0)
    frames = Stretch(coded, first_frame, num_bytes(coded) - first_frame)
    blocks = []
    for kind, body in theirs:
        if kind == _STREAMINFO:
            body = ours[0][1]
        elif kind == _SEEKTABLE:
            body = _seek_table(body, frames, ours[0][1])
        blocks.append((kind, body))
    tail = trailing_tags_start(source)
    append(
        output,
        [
            Stretch(source, 0, start),
            write_blocks(blocks),
            frames,
            Stretch(source, tail, num_bytes(source) - tail),
        ],
    )


def comments_and_pictures(file: BinaryIO) -> tuple[bytes, list[bytes]]:
    """The Vorbis comment of a FLAC file, an empty one if there is none, and its PICTURE blocks, as they stand in it."""
    blocks, _ = read_blocks(file, id3_length(read_at(file, 0, 10)))
    comments = [body for kind, body in blocks if kind == VORBIS_COMMENT]
    return (comments[0] if comments else bytes(8)), [body for kind, body in blocks if kind == PICTURE]


def read_blocks(file: BinaryIO, start: int) -> tuple[list[tuple[int, bytes]], int]:
    """The kinds and bodies of all metadata blocks of a FLAC stream that begins at `start`; where the frames begin."""
    if read_at(file, start, 4) != b"fLaC":
        raise UnfitContainerError("its FLAC metadata cannot be located")
    blocks, at, last = [], start + 4, False
    while not last:
        header = read_at(file, at, 4)
        size = int.from_bytes(header[1:], "big")
        body = file.read(size)
        if len(header) < 4 or len(body) < size:
            raise UnfitContainerError("its FLAC metadata ends too early")
        kind, last = header[0] & ~_LAST_BLOCK, bool(header[0] & _LAST_BLOCK)
        blocks.append((kind, body))
        at += 4 + size
    return blocks, at


def write_blocks(blocks: list[tuple[int, bytes]]) -> bytes:
    """The opening of a FLAC file up to its frames, from the kinds and bodies of its metadata blocks."""
    parts = [b"fLaC"]
    for number, (kind, body) in enumerate(blocks):
        last = _LAST_BLOCK if number == len(blocks) - 1 else 0
        parts += [bytes([kind | last]), len(body).to_bytes(3, "big"), body]
    return b"".join(parts)


def _seek_table(theirs: bytes, frames: Stretch, streaminfo: bytes) -> bytes:
    """As many points as in a seek table of another coding, each the frame that holds the sample of the former point."""
    block_samples = int.from_bytes(streaminfo[2:4], "big")
    offsets = _frame_offsets(frames)
    num_points = len(theirs) // _SEEK_POINT_BYTES
    wanted = [int.from_bytes(theirs[18 * k : 18 * k + 8], "big") for k in range(num_points)]
    numbers = {min(sample // block_samples, len(offsets) - 1) for sample in wanted if sample != _PLACEHOLDER}
    points = [
        (number * block_samples).to_bytes(8, "big")
        + offsets[number].to_bytes(8, "big")
        + block_samples.to_bytes(2, "big")
        for number in sorted(numbers)
        if number >= 0
    ]
    unused = _PLACEHOLDER.to_bytes(8, "big") + bytes(10)
    return b"".join([*points, *[unused] * (num_points - len(points))]) + theirs[num_points * _SEEK_POINT_BYTES :]


def _frame_offsets(frames: Stretch) -> list[int]:
    """Where each frame of fixed block length begins, counted from the first: found by its number and check."""
    offsets: list[int] = []
    for base in range(0, frames.size, _SCANNED_BYTES):
        window = read_at(frames.file, frames.start + base, _SCANNED_BYTES + _MAX_FRAME_HEADER_BYTES)
        at = window.find(b"\xff\xf8")
        while 0 <= at < _SCANNED_BYTES:
            if _opens_frame(window[at : at + _MAX_FRAME_HEADER_BYTES], len(offsets)):
                offsets.append(base + at)
            at = window.find(b"\xff\xf8", at + 1)
    return offsets


def _opens_frame(header: bytes, number: int) -> bool:
    """Whether these bytes open the frame of that number."""
    coded_number = _utf8_like(number)
    end = 4 + len(coded_number)
    if len(header) < 6 or header[4:end] != coded_number:
        return False
    end += {6: 1, 7: 2}.get(header[2] >> 4, 0) + {12: 1, 13: 2, 14: 2}.get(header[2] & 15, 0)
    return end < len(header) and _crc8(header[:end]) == header[end]


def _utf8_like(number: int) -> bytes:
    """A frame's number in the manner of UTF-8, which goes on to 36 bits here."""
    if number < 0x80:
        return bytes([number])
    extra = bisect.bisect([1 << 11, 1 << 16, 1 << 21, 1 << 26, 1 << 31], number) + 1
    first = (0xFF00 >> (extra + 1) & 0xFF) | number >> 6 * extra
    return bytes([first, *(0x80 | number >> 6 * k & 0x3F for k in reversed(range(extra)))])


def _crc8(content: bytes) -> int:
    """The check of a frame's header: polynomial x⁸ + x² + x + 1."""
    crc = 0
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x07) & 0xFF if crc & 0x80 else crc << 1
    return crc
