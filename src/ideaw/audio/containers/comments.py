"""Vorbis comments and pictures between FLAC, Ogg Vorbis and Opus, which hold the same ones in different packing.

In FLAC a picture is a block of its own; in Ogg the same bytes stand in a comment, in base64.
"""

import base64
import binascii
from typing import BinaryIO

from ideaw.audio.containers import flac, ogg
from ideaw.audio.containers.bytes import Stretch, UnfitContainerError, append, num_bytes, read_at

_PICTURE_FIELD = b"METADATA_BLOCK_PICTURE="
_MAX_BLOCK_BYTES = (1 << 24) - 1
"""Bytes of a metadata block of FLAC."""

_COMMENT_OPENINGS = {b"\x03vorbis": b"\x01", b"OpusTags": b""}
"""How a comment packet opens → what closes it."""


def carry_comments(source: BinaryIO, coded: BinaryIO, output: BinaryIO) -> None:
    """Write `coded` with the comments and pictures of `source` to `output`; each is FLAC, Ogg Vorbis or Opus.

    Raises:
        UnfitContainerError: they cannot be read, or do not fit.
    """
    comment, pictures = read_comments(source)
    if read_at(coded, 0, 4) == b"OggS":
        headers, _ = ogg.read_headers(coded)
        opening = next(opening for opening in _COMMENT_OPENINGS if headers[1].startswith(opening))
        vendor = _vendor(headers[1][len(opening) :])
        fields = [*split_fields(comment), *(_PICTURE_FIELD + base64.b64encode(picture) for picture in pictures)]
        ogg.write_with_comments(coded, opening + vendor + _join(fields) + _COMMENT_OPENINGS[opening], output)
        return
    if max(map(len, [comment, *pictures])) > _MAX_BLOCK_BYTES:
        raise UnfitContainerError("its comments are longer than FLAC can hold")
    blocks, frames = flac.read_blocks(coded, 0)
    kept = [block for block in blocks if block[0] != flac.VORBIS_COMMENT]
    vendor = next((_vendor(body) for kind, body in blocks if kind == flac.VORBIS_COMMENT), bytes(4))
    comment = vendor + _join(split_fields(comment))
    added = [(flac.VORBIS_COMMENT, comment), *((flac.PICTURE, picture) for picture in pictures)]
    append(output, [flac.write_blocks([kept[0], *added, *kept[1:]]), Stretch(coded, frames, num_bytes(coded) - frames)])


def read_comments(file: BinaryIO) -> tuple[bytes, list[bytes]]:
    """The Vorbis comment of a file, without what its container puts around it, and its pictures."""
    if read_at(file, 0, 4) != b"OggS":
        return flac.comments_and_pictures(file)
    headers, _ = ogg.read_headers(file)
    comment = next(headers[1][len(opening) :] for opening in _COMMENT_OPENINGS if headers[1].startswith(opening))
    fields = split_fields(comment)
    pictures = [field for field in fields if field.upper().startswith(_PICTURE_FIELD)]
    try:
        decoded = [base64.b64decode(field[len(_PICTURE_FIELD) :], validate=True) for field in pictures]
    except binascii.Error:
        return comment, []
    others = [field for field in fields if field not in pictures]
    return _vendor(comment) + _join(others), decoded


def split_fields(comment: bytes) -> list[bytes]:
    """The fields of a Vorbis comment, each `NAME=text`."""
    at = len(_vendor(comment))
    fields, count = [], int.from_bytes(comment[at : at + 4], "little")
    at += 4
    for _ in range(count):
        size = int.from_bytes(comment[at : at + 4], "little")
        field = comment[at + 4 : at + 4 + size]
        if len(field) < size or at + 4 > len(comment):
            raise UnfitContainerError("its comments end too early")
        fields.append(field)
        at += 4 + size
    return fields


def add_comment(comment: bytes, name: bytes, text: bytes) -> bytes:
    """A Vorbis comment with a field of that name, in the place of any that it had."""
    others = [field for field in split_fields(comment) if field.partition(b"=")[0].upper() != name]
    return _vendor(comment) + _join([*others, name + b"=" + text])


def comment_packet(packet: bytes, name: bytes, text: bytes) -> bytes:
    """The same for a comment packet of Ogg, with what its codec puts around the comment."""
    opening = next(opening for opening in _COMMENT_OPENINGS if packet.startswith(opening))
    return opening + add_comment(packet[len(opening) :], name, text) + _COMMENT_OPENINGS[opening]


def _vendor(comment: bytes) -> bytes:
    """The beginning of a Vorbis comment: the length and the name of the program that wrote it."""
    return comment[: 4 + int.from_bytes(comment[:4], "little")]


def _join(fields: list[bytes]) -> bytes:
    parts = [len(fields).to_bytes(4, "little"), *(len(field).to_bytes(4, "little") + field for field in fields)]
    return b"".join(parts)
