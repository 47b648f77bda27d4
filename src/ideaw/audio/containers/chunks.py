"""Containers made of chunks around plain samples: WAV, RF64, BW64, W64, AIFF and CAF; and AU, a header before samples.

Marked samples take as many bytes as those that they replace. So everything else of the source, known or unknown, in
whatever order, stays where it is, byte for byte; only what describes the samples is brought up to date.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

from ideaw.audio.containers.bytes import (
    COPIED_AT_ONCE_BYTES,
    Stretch,
    UnfitContainerError,
    copy_except,
    num_bytes,
    read_at,
)

_W64_GUID_TAIL = bytes.fromhex("f3acd3118cd100c04f8edb8a")
"""What follows the four letters in a chunk's name in W64."""

_PEAK_IDS = (b"PEAK", b"peak")
"""Chunks with the largest sample of every channel."""

_STALE_IDS = (*_PEAK_IDS, b"levl")
"""Chunks that describe samples, and would be false about others: largest values, drawn envelopes."""


@dataclass(frozen=True)
class ChunkStyle:
    """How a family of containers writes chunks.

    Attributes:
        id_bytes, size_bytes: lengths of a chunk's name and of its size.
        byteorder: of the size.
        first: where the first chunk begins.
        alignment: chunks begin at multiples of so many bytes.
        counts_header: whether a size includes name and size.
        samples_id: name of the chunk with the samples.
        unused_id: what a chunk is called whose content is no longer true: programs skip it, and nothing moves.
        lead_bytes: bytes in that chunk before the samples.
    """

    id_bytes: int
    size_bytes: int
    byteorder: Literal["little", "big"]
    first: int
    alignment: int
    counts_header: bool
    samples_id: bytes
    unused_id: bytes = b"JUNK"
    lead_bytes: int = 0


_RIFF_STYLE = ChunkStyle(4, 4, "little", 12, 2, False, b"data")
_RIFX_STYLE = ChunkStyle(4, 4, "big", 12, 2, False, b"data")
_AIFF_STYLE = ChunkStyle(4, 4, "big", 12, 2, False, b"SSND", lead_bytes=8)
_W64_STYLE = ChunkStyle(16, 8, "little", 40, 8, True, b"data" + _W64_GUID_TAIL)
_CAF_STYLE = ChunkStyle(4, 8, "big", 8, 1, False, b"data", b"free", 4)

_STYLES = {
    b"RIFF": _RIFF_STYLE,
    b"RF64": _RIFF_STYLE,
    b"BW64": _RIFF_STYLE,
    b"RIFX": _RIFX_STYLE,
    b"FORM": _AIFF_STYLE,
    b"riff": _W64_STYLE,
    b"caff": _CAF_STYLE,
}

_AU_MAGIC = (b".snd", b"dns.")


@dataclass(frozen=True)
class Chunk:
    """A chunk: its name, where its content begins, and how many bytes of it there are."""

    id: bytes
    start: int
    size: int


def carry_around_samples(source: BinaryIO, coded: BinaryIO, output: BinaryIO) -> None:
    """Write the file `source` with the samples of `coded`, a file of the same kind, to `output`.

    Raises:
        UnfitContainerError: the samples of the two do not have the same form.
    """
    if read_at(source, 0, 4) in _AU_MAGIC:
        theirs, ours = _au_samples(source), _au_samples(coded)
        copy_except(output, source, [(theirs.start, _fitted(theirs, ours))])
        return
    their_chunks, our_chunks = _chunks(source), _chunks(coded)
    theirs, ours = (_samples(file, found) for file, found in ((source, their_chunks), (coded, our_chunks)))
    replaced: list[tuple[int, Stretch | bytes]] = [(theirs.start, _fitted(theirs, ours))]
    style = _STYLES[read_at(source, 0, 4)]
    for chunk in their_chunks.values():
        peak = our_chunks.get(chunk.id)
        if chunk.id in _PEAK_IDS and peak is not None and peak.size == chunk.size:
            replaced.append((chunk.start, Stretch(coded, peak.start, peak.size)))
        elif chunk.id in _STALE_IDS:
            replaced.append((chunk.start - style.id_bytes - style.size_bytes, style.unused_id))
        elif chunk.id == b"MD5 " and chunk.size == hashlib.md5().digest_size:
            rest = Stretch(source, theirs.start + ours.size, theirs.size - ours.size)
            replaced.append((chunk.start, _digest(ours, rest)))
    copy_except(output, source, replaced)


def chunk_ids(file: BinaryIO) -> tuple[bytes, ...]:
    """The names of the chunks in a file of one of these kinds; none in another file."""
    return tuple(_chunks(file)) if read_at(file, 0, 4) in _STYLES else ()


def _chunks(file: BinaryIO) -> dict[bytes, Chunk]:
    """The chunks of a file by their names; of several with one name, the first."""
    found: dict[bytes, Chunk] = {}
    for chunk in _walk(file, _STYLES[read_at(file, 0, 4)]):
        found.setdefault(chunk.id, chunk)
    return found


def _walk(file: BinaryIO, style: ChunkStyle) -> Iterator[Chunk]:
    """The chunks from the first to the last, sizes cut to what is there."""
    at, end = style.first, num_bytes(file)
    long_size = _ds64_data_size(file)
    header_bytes = style.id_bytes + style.size_bytes
    while at < end and len(header := read_at(file, at, header_bytes)) == header_bytes:
        name, size = header[: style.id_bytes], int.from_bytes(header[style.id_bytes :], style.byteorder)
        if style.counts_header:
            size = max(0, size - header_bytes)
        if name == style.samples_id and long_size is not None:
            size = long_size
        start = at + header_bytes
        yield Chunk(name, start, min(size, end - start))
        at = start + size
        at += -at % style.alignment


def _ds64_data_size(file: BinaryIO) -> int | None:
    """Bytes of samples by the 64-bit sizes of RF64, which comes first there; None in other files."""
    head = read_at(file, 0, 40)
    is_long = head[:4] in (b"RF64", b"BW64") and head[12:16] == b"ds64"
    return int.from_bytes(head[28:36], "little") if is_long else None


def _samples(file: BinaryIO, chunks: dict[bytes, Chunk]) -> Stretch:
    style = _STYLES[read_at(file, 0, 4)]
    chunk = chunks.get(style.samples_id)
    if chunk is None:
        raise UnfitContainerError("its samples cannot be located")
    lead = style.lead_bytes
    if style is _AIFF_STYLE:  # samples may begin later, for the sake of alignment
        lead += int.from_bytes(read_at(file, chunk.start, 4), "big")
    return Stretch(file, chunk.start + lead, max(0, chunk.size - lead))


def _au_samples(file: BinaryIO) -> Stretch:
    """The samples of an AU file, whose header tells where they begin."""
    head = read_at(file, 0, 8)
    start = int.from_bytes(head[4:8], "little" if head.startswith(b"dns.") else "big")
    return Stretch(file, start, max(0, num_bytes(file) - start))


def _fitted(theirs: Stretch, ours: Stretch) -> Stretch:
    """Our samples, if they fit into the place of theirs, of which a part of a last sample may stay."""
    if ours.size > theirs.size:
        raise UnfitContainerError("its samples would not take the place that they had")
    return ours


def _digest(*parts: Stretch) -> bytes:
    md5 = hashlib.md5(usedforsecurity=False)
    for part in parts:
        part.file.seek(part.start)
        left = part.size
        while left and (piece := part.file.read(min(left, COPIED_AT_ONCE_BYTES))):
            md5.update(piece)
            left -= len(piece)
    return md5.digest()
