"""What a file of another format has no place for: named, so that nothing is lost in silence."""

from typing import BinaryIO

from ideaw.audio.containers.bytes import UnfitContainerError, num_bytes, read_at
from ideaw.audio.containers.chunks import chunk_ids
from ideaw.audio.containers.comments import read_comments, split_fields
from ideaw.audio.containers.flac import APPLICATION, CUESHEET, read_blocks
from ideaw.audio.containers.mp4 import boxes_left_behind
from ideaw.audio.containers.trailers import trailing_tags_start
from ideaw.audio.formats import Encoding
from ideaw.audio.tags import ID3_FRAMES, TAG_NAMES, id3_length

_SAMPLE_CHUNKS = (
    *("fmt", "data", "fact", "ds64", "JUNK", "PAD", "FLLR", "PEAK", "peak", "free", "LIST", "levl", "MD5"),
    *("COMM", "SSND", "FVER", "NAME", "AUTH", "ANNO", "(c)", "desc", "chan", "info", "pakt", "kuki"),
)
"""Chunks that describe samples, fill space, or hold usual tags."""

_FLAC_BLOCKS = {APPLICATION: "application data", CUESHEET: "cue sheet"}
_USUAL_COMMENTS = (*(name.upper() for name in TAG_NAMES), "ENCODER")


def name_left_behind(source: BinaryIO, encoding: Encoding, comments_stay: bool) -> list[str]:
    """What surrounds the samples of a file, besides what any format can hold.

    Args:
        source: the file.
        encoding: how it is coded.
        comments_stay: whether Vorbis comments and pictures come along.
    """
    try:
        return sorted(set(_names(source, encoding, comments_stay)))
    except (UnfitContainerError, ValueError, IndexError):
        return []  # what cannot even be read is not known to be there


def _names(source: BinaryIO, encoding: Encoding, comments_stay: bool) -> list[str]:
    opening = read_at(source, 0, 4)
    if encoding.container in ("FLAC", "OGG"):
        names = []
        if encoding.container == "FLAC":
            kinds = {kind for kind, _ in read_blocks(source, id3_length(read_at(source, 0, 10)))[0]}
            names = [
                name for kind, name in ((APPLICATION, "application data"), (CUESHEET, "cue sheet")) if kind in kinds
            ]
        if comments_stay:
            return names
        comment, pictures = read_comments(source)
        fields = {field.partition(b"=")[0].decode("ascii", "replace").upper() for field in split_fields(comment)}
        return names + ["picture"] * bool(pictures) + [name for name in fields if name not in _USUAL_COMMENTS]
    if encoding.container == "MP3":
        tail = ["tags at its end"] if trailing_tags_start(source) < num_bytes(source) - 128 else []
        usual = {frame.decode() for frame in ID3_FRAMES.values()} | {"TYER", "TSSE"}
        return tail + [frame for frame in _id3_frames(encoding.id3) if frame not in usual]
    if encoding.container == "M4A":
        return [*boxes_left_behind(source), *(name for name in encoding.tags if name not in TAG_NAMES)]
    chunks = [name[:4].decode("ascii", "replace").strip() for name in chunk_ids(source)] if opening else []
    return [name for name in chunks if name not in _SAMPLE_CHUNKS] or [
        name for name in encoding.tags if name not in TAG_NAMES and encoding.container in ("MKA", "WV")
    ]


def _id3_frames(tag: bytes) -> list[str]:
    """The names of the frames of an ID3v2.3 or 2.4 tag."""
    names, at, shift = [], 10, 7 if tag[3:4] == b"\x04" else 8
    while at + 10 <= len(tag) and tag[at : at + 4].isalnum():
        names.append(tag[at : at + 4].decode("ascii", "replace"))
        size = 0
        for byte in tag[at + 4 : at + 8]:
            size = size << shift | byte
        at += 10 + size
    return names
