"""Ogg with Vorbis or Opus: all comments and pictures of the source in front of the packets of another file.

The comment packet is the source's own, byte for byte. It may take more or fewer pages than the coder's, so the pages
behind it get new numbers, and with them new checks; what is in them stays.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ideaw.audio.containers.bytes import UnfitContainerError, num_bytes, read_at

_PAGE_HEADER_BYTES = 27
_CONTINUED, _FIRST = 1, 2
_MAX_SEGMENTS = 255
_MAX_HEADER_PAGES_BYTES = 1 << 26
"""Bytes of header packets, which are held in memory: room for a few large pictures."""

_COMMENT_MAGIC = {b"\x01vorbis": b"\x03vorbis", b"OpusHead": b"OpusTags"}
"""How a codec's first packet opens → how its comment packet does."""

_NUM_HEADERS = {b"\x01vorbis": 3, b"OpusHead": 2}

_OPUS_INPUT_RATE = slice(12, 16)
"""Where the first packet of Opus tells the rate of what was encoded, which decoders need not follow."""

_OPUS_RATE_HZ = 48_000
"""Rate at which Opus comes back that was made from a rate that it does not have."""

_REVERSED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True)
class Page:
    """One page: where it begins, how long it is, and its header with the table of segments."""

    start: int
    size: int
    header: bytes

    @property
    def serial(self) -> bytes:
        """Which logical stream it belongs to."""
        return self.header[14:18]


def carry_ogg(source: BinaryIO, coded: BinaryIO, output: BinaryIO) -> None:
    """Write the packets of `coded` with the comments of `source`, both Ogg files of one codec, to `output`.

    Raises:
        UnfitContainerError: the headers of one cannot be read, or the source holds more than one stream.
    """
    _check_single_stream(source)
    theirs, _ = read_headers(source)
    write_with_comments(coded, theirs[1], output, theirs[0])


def write_with_comments(coded: BinaryIO, comments: bytes, output: BinaryIO, their_first: bytes = b"") -> None:
    """Write `coded` with another comment packet to `output`.

    Args:
        coded: the Ogg file that the audio is taken from.
        comments: a whole comment packet of the same codec.
        output: what is written.
        their_first: the first packet of the file that was marked, if it was of the same codec.
    """
    ours, next_page = read_headers(coded)
    first = ours[0]
    if first.startswith(b"OpusHead") and their_first.startswith(b"OpusHead"):
        rates = [int.from_bytes(packet[_OPUS_INPUT_RATE], "little") for packet in (first, their_first)]
        if rates[0] == _OPUS_RATE_HZ:
            first = first[: _OPUS_INPUT_RATE.start] + rates[1].to_bytes(4, "little") + first[_OPUS_INPUT_RATE.stop :]
    serial, number = next(_pages(coded)).serial, 0
    for packets in ([first], [comments, *ours[2:]]):
        for header_page in _paginate(packets, serial, number):
            output.write(header_page)
            number += 1
    for page in _pages(coded):
        if page.start >= next_page:
            content = bytearray(read_at(coded, page.start, page.size))
            content[18:22] = number.to_bytes(4, "little")
            output.write(_checked(content))
            number += 1


def read_headers(file: BinaryIO) -> tuple[list[bytes], int]:
    """The header packets of a Vorbis or Opus stream, and where the first page of audio begins."""
    packets: list[bytearray] = []
    wanted, complete, whole = 1, 0, True
    for page in _pages(file):
        if page.start > _MAX_HEADER_PAGES_BYTES:
            break
        at = page.start + len(page.header)
        for length in page.header[_PAGE_HEADER_BYTES:]:
            if whole:
                packets.append(bytearray())
            packets[-1] += read_at(file, at, length)
            at, whole = at + length, length < _MAX_SEGMENTS
            complete += whole
        wanted = _NUM_HEADERS.get(bytes(packets[0][:7]), _NUM_HEADERS.get(bytes(packets[0][:8]), 0)) if complete else 1
        if complete >= wanted:
            if not wanted or not whole or complete != wanted or not _is_comment(packets):
                break
            return [bytes(packet) for packet in packets], page.start + page.size
    raise UnfitContainerError("its Ogg headers cannot be read")


def header_bytes(file: BinaryIO) -> int:
    """Bytes of pages before the first page of audio, which hold comments and pictures; 0 where they are not known."""
    try:
        return read_headers(file)[1]
    except UnfitContainerError:
        return 0


def _is_comment(packets: list[bytearray]) -> bool:
    for first, magic in _COMMENT_MAGIC.items():
        if packets[0].startswith(first):
            return packets[1].startswith(magic)
    return False


def _check_single_stream(file: BinaryIO) -> None:
    """Raise `UnfitContainerError` for a file of several streams, side by side or one after the other."""
    if len({page.serial for page in _pages(file)}) > 1:
        raise UnfitContainerError("it holds several streams, of which only one would be left")


def _pages(file: BinaryIO) -> Iterator[Page]:
    """The pages from the first to the last complete one."""
    at, end = 0, num_bytes(file)
    while at + _PAGE_HEADER_BYTES <= end:
        header = read_at(file, at, _PAGE_HEADER_BYTES + _MAX_SEGMENTS)
        if not header.startswith(b"OggS"):
            raise UnfitContainerError("its Ogg pages do not follow one another")
        header = header[: _PAGE_HEADER_BYTES + header[26]]
        size = len(header) + sum(header[_PAGE_HEADER_BYTES:])
        yield Page(at, size, header)
        at += size


def _paginate(packets: list[bytes], serial: bytes, number: int) -> Iterator[bytes]:
    """Header packets as pages, the first with this number; the last ends a page, as audio has to begin a new one."""
    lacing = [length for packet in packets for length in (*[255] * (len(packet) // 255), len(packet) % 255)]
    content, at, starts = b"".join(packets), 0, {0}
    for index, length in enumerate(lacing):
        if length < _MAX_SEGMENTS:
            starts.add(index + 1)
    for index in range(0, len(lacing), _MAX_SEGMENTS):
        table = lacing[index : index + _MAX_SEGMENTS]
        size = sum(table)
        flags = (0 if index in starts else _CONTINUED) | (_FIRST if number == 0 else 0)
        ends_packet = any(length < _MAX_SEGMENTS for length in table)
        granule = bytes(8) if ends_packet else b"\xff" * 8
        header = b"OggS\0" + bytes([flags]) + granule + serial + number.to_bytes(4, "little") + bytes(4)
        yield _checked(bytearray(header + bytes([len(table), *table]) + content[at : at + size]))
        at, number = at + size, number + 1


def _checked(page: bytearray) -> bytes:
    """The page with its CRC: that of zlib, on reversed bits, and without what zlib turns over before and after."""
    page[22:26] = bytes(4)
    crc = zlib.crc32(page.translate(_REVERSED_BITS), 0xFFFF_FFFF) ^ 0xFFFF_FFFF
    page[22:26] = int(f"{crc:032b}"[::-1], 2).to_bytes(4, "little")
    return bytes(page)
