"""What libsndfile lacks for MP3: the stream's bitrate, its length where no index tells it, and tags beyond Latin-1.

Every frame's header is read, which gives the bitrate exactly (file size over duration counts tags
and cover pictures too) and the number of frames. A stream of varying bitrate without a Xing index
is measured wrongly by libsndfile and cut short; `Stream.index` makes the index that it lacks.
"""

from dataclasses import dataclass

BITRATES = {
    1: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Legal bitrates of Layer III in kbit/s, for MPEG-1 and for MPEG-2 and 2.5."""

RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)

INDEX_ROOM = 192
"""Bytes of a frame that LAME needs to write its index; without it the encoder's delay cannot be undone."""

_RATES_OF_VERSION = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}

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
        parsed = _parse(self.header, 0)
        assert parsed is not None
        version, _, size = parsed
        mono = self.header[3] >> 6 == 3
        side = (17 if mono else 32) if version == 3 else (9 if mono else 17)
        body = b"\0" * side + b"Xing" + (1).to_bytes(4, "big") + self.frames.to_bytes(4, "big")
        return (self.header + body).ljust(size, b"\0")[:size]


def scan(data: bytes) -> Stream | None:
    """The stream in a whole MP3 file; None if there is no Layer III frame of a known bitrate in it."""
    at = start = tag_length(data)
    first, indexed, promised, bitrates = b"", False, 0, []
    while 0 <= at < len(data) - 4:
        frame = _parse(data, at)
        if frame is None or not (first or _continues(data, at, frame[2])):
            at = data.find(b"\xff", at + 1)
            continue
        _, bitrate, size = frame
        if not first:
            first, start = data[at : at + 4], at
            opening = data[at : at + 60]
            indexed = any(mark in opening for mark in (b"Xing", b"Info", b"VBRI"))
            if indexed:
                promised = _promised(opening)
                at += size
                continue
        bitrates.append(bitrate)
        at += size
    if not bitrates:
        return None
    mean = sum(bitrates) / len(bitrates)
    return Stream(mean, len(bitrates), first, start, indexed, min(bitrates) != max(bitrates), promised)


def _promised(opening: bytes) -> int:
    """The number of frames in a Xing index (LAME calls it Info where the bitrate is constant); 0 if it has none."""
    at = max(opening.find(b"Xing"), opening.find(b"Info"))
    has_frames = at >= 0 and len(opening) >= at + 12 and opening[at + 7] & 1
    return int.from_bytes(opening[at + 8 : at + 12], "big") if has_frames else 0


def tag_length(data: bytes) -> int:
    """Bytes of the ID3v2 tag that a file opens with; 0 if it has none."""
    if len(data) < 10 or not data.startswith(b"ID3"):
        return 0
    size = 0
    for byte in data[6:10]:
        size = size << 7 | byte & 0x7F
    footer = 10 if data[5] & 0x10 else 0
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


def _continues(data: bytes, at: int, size: int) -> bool:
    """Whether another frame of the same kind follows, which random bytes hardly ever show."""
    after = at + size
    if after + 4 > len(data) or _parse(data, after) is None:
        return False
    return data[at + 1] == data[after + 1] and data[at + 2] & 0x0C == data[after + 2] & 0x0C


def _parse(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Version bits, bitrate in kbit/s and size in bytes of the Layer III frame at `at`, if there is one."""
    sync, second, third = data[at], data[at + 1], data[at + 2]
    version, layer = second >> 3 & 3, second >> 1 & 3
    bitrate_index, rate_index = third >> 4, third >> 2 & 3
    if sync != 0xFF or second < 0xE0 or version == 1 or layer != 1 or bitrate_index in (0, 15) or rate_index == 3:
        return None
    bitrate = BITRATES[1 if version == 3 else 2][bitrate_index - 1]
    rate = _RATES_OF_VERSION[version][rate_index]
    padding = third >> 1 & 1
    return version, bitrate, (144_000 if version == 3 else 72_000) * bitrate // rate + padding
