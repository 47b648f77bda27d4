"""Where frames end in a stream of bytes that arrives in pieces of any length: Ogg pages and FLAC frames.

FFmpeg's own parsers wait for several frames before they give one; here a frame is given as soon as its last byte is
there.
"""

from collections.abc import Iterator
from functools import reduce

PAGE_HEAD_BYTES = 27
"""Bytes of an Ogg page before its table of segments."""

MAX_HELD_BYTES = 1 << 20
"""Bytes without a frame after which a stream is given up."""

FLAC_SYNC = (b"\xff\xf8", b"\xff\xf9")
"""First bytes of a FLAC frame: of fixed and of variable length."""

MIN_FLAC_FRAME_BYTES = 10


class OggPackets:
    """The packets of the first stream in Ogg pages."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._packet = bytearray()

    def push(self, data: bytes) -> Iterator[bytes]:
        """The packets that are complete with these bytes.

        Raises:
            ValueError: they are no Ogg pages.
        """
        self._held += data
        while len(self._held) >= PAGE_HEAD_BYTES:
            if self._held[:4] != b"OggS":
                raise ValueError("no Ogg page where one should begin")
            body = PAGE_HEAD_BYTES + self._held[26]
            lengths = self._held[PAGE_HEAD_BYTES:body]
            if len(self._held) < body or len(self._held) < body + sum(lengths):
                return
            for length in lengths:
                self._packet += self._held[body : body + length]
                body += length
                if length < 255:
                    yield bytes(self._packet)
                    self._packet.clear()
            del self._held[:body]


class FlacFrames:
    """The frames of a FLAC stream, the first with the stream's metadata before it.

    A frame ends with a checksum over all of it, and the next begins with a sync code: where both agree is a border.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._metadata_known = False
        self._checked, self._checksum = 0, 0
        self.stream_info = b""
        """The 34 bytes that say rate, channels and width, once they are known."""

    def push(self, data: bytes) -> Iterator[bytes]:
        """The frames that are complete with these bytes.

        Raises:
            ValueError: they are no FLAC stream, or no frame ends for very long.
        """
        self._held += data
        if not self._metadata_known and not self._skip_metadata():
            return
        place = MIN_FLAC_FRAME_BYTES
        while (place := min((at for sync in FLAC_SYNC if (at := self._held.find(sync, place)) >= 0), default=-1)) >= 0:
            if self._ends_at(place):
                yield self._pop(place)
                place = MIN_FLAC_FRAME_BYTES
            else:
                place += 1
        if len(self._held) >= MIN_FLAC_FRAME_BYTES and self._ends_at(len(self._held)):
            yield self._pop(len(self._held))
        if len(self._held) > MAX_HELD_BYTES:
            raise ValueError("no FLAC frame ends")

    def _skip_metadata(self) -> bool:
        if len(self._held) >= 4 and self._held[:4] != b"fLaC":
            raise ValueError("no FLAC stream")
        place, last = 4, False
        while not last:
            if len(self._held) < place + 4:
                return False
            last, kind = bool(self._held[place] & 0x80), self._held[place] & 0x7F
            end = place + 4 + int.from_bytes(self._held[place + 1 : place + 4], "big")
            if len(self._held) < end:
                return False
            if kind == 0:
                self.stream_info = bytes(self._held[place + 4 : end])
            place = end
        del self._held[:place]
        self._metadata_known = True
        return True

    def _ends_at(self, place: int) -> bool:
        """Whether the bytes before `place` end with their checksum: of whole frames the CRC-16 is 0."""
        if place < self._checked:
            self._checked, self._checksum = 0, 0
        self._checksum = reduce(_step, self._held[self._checked : place], self._checksum)
        self._checked = place
        return self._checksum == 0

    def _pop(self, place: int) -> bytes:
        frame = bytes(self._held[:place])
        del self._held[:place]
        self._checked, self._checksum = 0, 0
        return frame


def _crc16(byte: int) -> int:
    value = byte << 8
    for _ in range(8):
        value = (value << 1) ^ (0x8005 if value & 0x8000 else 0)
    return value & 0xFFFF


_CRC16 = [_crc16(byte) for byte in range(256)]


def _step(checksum: int, byte: int) -> int:
    return ((checksum << 8) & 0xFFFF) ^ _CRC16[(checksum >> 8) ^ byte]
