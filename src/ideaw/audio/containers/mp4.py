"""The boxes of MP4 that FFmpeg does not carry over: brands, and user data with tags, cover and chapters.

They are copied byte for byte from the source into a file that FFmpeg has written, in which the index is last, so that
nothing but the places of the samples' chunks has to be corrected.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ideaw.audio.containers.bytes import Stretch, UnfitContainerError, append, num_bytes, read_at

_MAX_INDEX_BYTES = 1 << 28
"""Bytes of an index that is held in memory: that of a day of video."""

_WRAPPERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"tref")
_CODER_DELAY_SAMPLES, _CODER_FRAME_SAMPLES = 1024, 1024
"""Samples that FFmpeg's AAC encoder puts in front of the audio, and those of a frame."""

_FREEFORM_OWNER = b"com.apple.iTunes"
_UTF8_TYPE = (1).to_bytes(4, "big")
_TAGS_HANDLER = bytes(8) + b"mdirappl" + bytes(9)
"""What the box says that holds tags as iTunes has them."""

_GAPLESS_NAME = b"iTunSMPB"
_GAPLESS_FIELDS = re.compile(rb"[0-9A-Fa-f]{8,16}")
"""What stands there: a zero, the samples before the audio, those behind it, and its length."""


@dataclass(frozen=True)
class Box:
    """A box of a file: its name, where it begins, the bytes of its header, and those of all of it."""

    kind: bytes
    start: int
    header_bytes: int
    size: int


def restore_boxes(source: BinaryIO, muxed: BinaryIO, output: BinaryIO) -> None:
    """Write `muxed` with the brands and the user data of `source` to `output`.

    Raises:
        UnfitContainerError: one of them has no index.
    """
    theirs, ours = list(file_boxes(source)), list(file_boxes(muxed))
    indices = [_first(file, boxes, b"moov") for file, boxes in ((muxed, ours), (source, theirs))]
    if not all(indices):
        raise UnfitContainerError("its index is missing, or too large")
    index, their_index = map(_parse, indices)
    former = _first(muxed, ours, b"ftyp")
    brands = _first(source, theirs, b"ftyp") or former
    for kind in (b"udta", b"meta"):
        index.children = [child for child in index.children if child.kind != kind]
        index.children += [
            _Node(kind, _correct_gapless(child.body), []) for child in their_index.children if child.kind == kind
        ]
    _shift_chunks(index, len(brands) - len(former))
    samples = [Stretch(muxed, box.start, box.size) for box in ours if box.kind not in (b"ftyp", b"moov")]
    extra = [Stretch(source, box.start, box.size) for box in theirs if box.kind == b"uuid"]
    append(output, [brands, *samples, index.as_bytes(), *extra])


def chapter_track_ids(file: BinaryIO) -> set[int]:
    """The numbers of tracks that hold nothing but the titles of chapters, which FFmpeg makes again."""
    moov = _first(file, list(file_boxes(file)), b"moov")
    if not moov:
        return set()
    ids = set()
    for track in _parse(moov).children:
        for reference in (box for child in track.children if child.kind == b"tref" for box in child.children):
            if reference.kind == b"chap":
                ids |= {int.from_bytes(reference.body[at : at + 4], "big") for at in range(0, len(reference.body), 4)}
    return ids


def boxes_left_behind(file: BinaryIO) -> list[str]:
    """What the user data of a file holds besides texts, which only MP4 has."""
    moov = _first(file, list(file_boxes(file)), b"moov")
    user_data = b"".join(child.body for child in _parse(moov).children if child.kind == b"udta") if moov else b""
    return [name for kind, name in ((b"covr", "cover"), (b"chpl", "chapters")) if kind in user_data]


def add_freeform(source: BinaryIO, output: BinaryIO, name: bytes, text: bytes) -> None:
    """Write `source` with one more text among its tags to `output`, as an item of a name that iTunes has not.

    Raises:
        UnfitContainerError: there is no index.
    """
    boxes = list(file_boxes(source))
    content = _first(source, boxes, b"moov")
    if not content:
        raise UnfitContainerError("its index is missing, or too large")
    index = _parse(content)
    parts = [
        _Node(b"mean", bytes(4) + _FREEFORM_OWNER, []),
        _Node(b"name", bytes(4) + name, []),
        _Node(b"data", _UTF8_TYPE + bytes(4) + text, []),
    ]
    user_data = _child(index.children, _Node(b"udta", b"", []))
    inside = _parse_all(user_data.body)
    meta = _child(inside, _Node(b"meta", bytes(4) + _Node(b"hdlr", _TAGS_HANDLER, []).as_bytes(), []))
    items = _parse_all(meta.body[4:])
    former = _child(items, _Node(b"ilst", b"", []))
    former.body += _Node(b"----", b"", parts).as_bytes()
    meta.body = meta.body[:4] + b"".join(item.as_bytes() for item in items)
    user_data.body = b"".join(box.as_bytes() for box in inside)
    moov = next(box for box in boxes if box.kind == b"moov")
    if any(box.kind == b"mdat" and box.start > moov.start for box in boxes):
        _shift_chunks(index, len(index.as_bytes()) - moov.size)
    rest = Stretch(source, moov.start + moov.size, num_bytes(source) - moov.start - moov.size)
    append(output, [Stretch(source, 0, moov.start), index.as_bytes(), rest])


def _child(boxes: list["_Node"], missing: "_Node") -> "_Node":
    """The first box of the kind of `missing`, which is added if there is none."""
    for box in boxes:
        if box.kind == missing.kind:
            return box
    boxes.append(missing)
    return missing


def file_boxes(file: BinaryIO) -> Iterator[Box]:
    """The outermost boxes of a file."""
    at, end = 0, num_bytes(file)
    while at + 8 <= end:
        head = read_at(file, at, 16)
        size, kind, header_bytes = int.from_bytes(head[:4], "big"), head[4:8], 8
        if size == 1:
            size, header_bytes = int.from_bytes(head[8:16], "big"), 16
        size = end - at if size == 0 else size
        if size < header_bytes or at + size > end:
            return
        yield Box(kind, at, header_bytes, size)
        at += size


@dataclass
class _Node:
    """A box in memory: of a wrapper its children, of others the body."""

    kind: bytes
    body: bytes
    children: list["_Node"]

    def as_bytes(self) -> bytes:
        """The box with its header."""
        content = self.body + b"".join(child.as_bytes() for child in self.children)
        return (8 + len(content)).to_bytes(4, "big") + self.kind + content

    def descendants(self) -> Iterator["_Node"]:
        """The box itself, and all in it."""
        yield self
        for child in self.children:
            yield from child.descendants()


def _first(file: BinaryIO, boxes: Iterable[Box], kind: bytes) -> bytes:
    """The first box of a kind, with its header; empty if there is none that fits into memory."""
    found = next((box for box in boxes if box.kind == kind and box.size <= _MAX_INDEX_BYTES), None)
    return read_at(file, found.start, found.size) if found else b""


def _parse(content: bytes) -> _Node:
    """A box with its header as a tree."""
    kind, body = content[4:8], content[16 if content[:4] == b"\0\0\0\1" else 8 :]
    if kind not in _WRAPPERS:
        return _Node(kind, body, [])
    return _Node(kind, b"", _parse_all(body))


def _parse_all(content: bytes) -> list[_Node]:
    """Boxes that follow one another."""
    boxes, at = [], 0
    while at + 8 <= len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        size = int.from_bytes(content[at + 8 : at + 16], "big") if size == 1 else size or len(content) - at
        if size < 8:
            break
        boxes.append(_parse(content[at : at + size]))
        at += size
    return boxes


def _shift_chunks(index: _Node, shift: int) -> None:
    """Correct the places of all chunks, which lie `shift` bytes further on."""
    for node in index.descendants():
        if node.kind in (b"stco", b"co64"):
            width = 4 if node.kind == b"stco" else 8
            places = [node.body[at : at + width] for at in range(8, len(node.body), width)]
            moved = [(int.from_bytes(place, "big") + shift).to_bytes(width, "big") for place in places]
            node.body = node.body[:8] + b"".join(moved)


def _correct_gapless(user_data: bytes) -> bytes:
    """User data, with what iTunes notes there about samples around the audio: it was true of the former coder."""
    name = user_data.find(_GAPLESS_NAME)
    data = user_data.find(b"data", name + len(_GAPLESS_NAME))
    fields = list(_GAPLESS_FIELDS.finditer(user_data, data, data + 64)) if 0 <= name < data else []
    if len(fields) < 4:
        return user_data
    _, delay, padding, length = fields[:4]
    missing = -(int(length[0], 16) + _CODER_DELAY_SAMPLES) % _CODER_FRAME_SAMPLES
    corrected = bytearray(user_data)
    for field, value in ((delay, _CODER_DELAY_SAMPLES), (padding, missing)):
        corrected[field.start() : field.end()] = f"{value:08X}".encode()
    return bytes(corrected)
