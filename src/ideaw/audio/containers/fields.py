"""Adds a named text to what surrounds the samples of a file, in the form that its container has for such texts.

ID3 gets a TXXX frame, FLAC and Ogg a Vorbis comment, WAV and AIFF a chunk, MP4 a freeform item. Samples stay.
"""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ideaw.audio.containers import flac, mp4, ogg
from ideaw.audio.containers.bytes import Stretch, UnfitContainerError, append, num_bytes, read_at
from ideaw.audio.containers.comments import add_comment, comment_packet
from ideaw.audio.formats import SOUND_CONTAINERS
from ideaw.audio.read import open_audio
from ideaw.audio.tags import id3_length, with_text_frame
from ideaw.errors import FileError

_CHUNK_NAME_BYTES = 4


def add_field(source: Path, output: Path, name: str, text: str, called: Path) -> None:
    """Write a file with one more text to an empty file.

    Args:
        source: the file.
        output: what is written.
        name: of the text: four capital letters.
        text: in ASCII.
        called: how the file is called in errors.

    Raises:
        FileError: the container has no place for it, or what surrounds the samples is damaged.
    """
    with open_audio(source) as opened:
        container = SOUND_CONTAINERS.get(opened.encoding.container, opened.encoding.container)
    add = _ADDERS.get(container)
    if add is None:
        raise FileError(f"{called} has no place for {name}; use .wav, .flac, .mp3, .ogg, .opus, .aiff or .m4a")
    with source.open("rb") as before, output.open("wb") as after:
        try:
            add(before, after, name.encode("ascii"), text.encode("ascii"))
        except UnfitContainerError as problem:
            raise FileError(f"{called} cannot hold {name}: {problem}") from problem


def _add_chunk(source: BinaryIO, output: BinaryIO, name: bytes, text: bytes) -> None:
    """A LIST INFO chunk in WAV and RF64, an annotation in AIFF, behind all other chunks."""
    head = read_at(source, 0, 28)
    size, end = _chunks_size(head), num_bytes(source)
    stop = min(8 + size, end)
    padding = bytes(stop % 2)
    if head.startswith(b"FORM"):
        added = _chunk(b"ANNO", name + b"=" + text, "big")
        opening = head[:4] + (stop - 8 + len(padding + added)).to_bytes(4, "big")
    else:
        added = _chunk(b"LIST", b"INFO" + _chunk(name, text + b"\0", "little"), "little")
        opening = _riff_opening(head, stop - 8 + len(padding + added))
    rest = Stretch(source, len(opening), stop - len(opening))
    append(output, [opening, rest, padding, added, Stretch(source, stop, end - stop)])


def _chunks_size(head: bytes) -> int:
    """Bytes behind the first eight that are chunks."""
    if head[:4] in (b"RF64", b"BW64"):
        if head[12:16] != b"ds64":
            raise UnfitContainerError("its 64-bit sizes cannot be located")
        return int.from_bytes(head[20:28], "little")
    return int.from_bytes(head[4:8], "big" if head.startswith(b"FORM") else "little")


def _riff_opening(head: bytes, size: int) -> bytes:
    """The beginning of a WAV file with another size."""
    if head[:4] in (b"RF64", b"BW64"):
        return head[:20] + size.to_bytes(8, "little")
    if size >= 1 << 32:
        raise UnfitContainerError("it would grow beyond 4 GiB")
    return head[:4] + size.to_bytes(4, "little")


def _chunk(name: bytes, content: bytes, byteorder: str) -> bytes:
    size = len(content).to_bytes(_CHUNK_NAME_BYTES, "big" if byteorder == "big" else "little")
    return name + size + content + bytes(len(content) % 2)


def _add_to_flac(source: BinaryIO, output: BinaryIO, name: bytes, text: bytes) -> None:
    start = id3_length(read_at(source, 0, 10))
    blocks, frames = flac.read_blocks(source, start)
    comment = next((body for kind, body in blocks if kind == flac.VORBIS_COMMENT), bytes(8))
    others = [block for block in blocks if block[0] != flac.VORBIS_COMMENT]
    written = [others[0], (flac.VORBIS_COMMENT, add_comment(comment, name, text)), *others[1:]]
    rest = Stretch(source, frames, num_bytes(source) - frames)
    append(output, [Stretch(source, 0, start), flac.write_blocks(written), rest])


def _add_to_ogg(source: BinaryIO, output: BinaryIO, name: bytes, text: bytes) -> None:
    headers, _ = ogg.read_headers(source)
    ogg.write_with_comments(source, comment_packet(headers[1], name, text), output)


def _add_to_mp3(source: BinaryIO, output: BinaryIO, name: bytes, text: bytes) -> None:
    length = id3_length(read_at(source, 0, 10))
    tag = with_text_frame(read_at(source, 0, length), name, text)
    if tag is None:
        raise UnfitContainerError("its ID3 tag is of an unknown form")
    append(output, [tag, Stretch(source, length, num_bytes(source) - length)])


_ADDERS: dict[str, Callable[[BinaryIO, BinaryIO, bytes, bytes], None]] = {
    **dict.fromkeys(("WAV", "WAVEX", "RF64", "AIFF"), _add_chunk),
    "FLAC": _add_to_flac,
    "OGG": _add_to_ogg,
    "MP3": _add_to_mp3,
    "M4A": mp4.add_freeform,
}
