"""Tags that stand behind the audio: ID3v1 with its extension, APE (also of ReplayGain and MP3Gain), Lyrics3."""

from typing import BinaryIO

from ideaw.audio.containers.bytes import Stretch, append, num_bytes, read_at

_ID3V1_BYTES, _ID3V1_EXTENSION_BYTES = 128, 227
_APE_FOOTER_BYTES = 32
_LYRICS_END = b"LYRICS200"
_LYRICS_SIZE_DIGITS = 6
_APE_HAS_HEADER = 1 << 31


def trailing_tags_start(file: BinaryIO) -> int:
    """Where the tags at the end of a file begin; its length where there are none."""
    end = num_bytes(file)
    while (start := _tag_start(file, end)) < end:
        end = start
    return end


def carry_trailing_tags(source: BinaryIO, coded: BinaryIO, output: BinaryIO) -> None:
    """Write `coded`, in whose container all tags stand at the end (WavPack), with those of `source` to `output`."""
    ours, theirs = trailing_tags_start(coded), trailing_tags_start(source)
    append(output, [Stretch(coded, 0, ours), Stretch(source, theirs, num_bytes(source) - theirs)])


def _tag_start(file: BinaryIO, end: int) -> int:
    """Where the tag that ends at `end` begins; `end` if none does."""
    if end >= _ID3V1_BYTES and read_at(file, end - _ID3V1_BYTES, 3) == b"TAG":
        start = end - _ID3V1_BYTES
        extended = start - _ID3V1_EXTENSION_BYTES
        return extended if extended >= 0 and read_at(file, extended, 4) == b"TAG+" else start
    footer = read_at(file, max(0, end - _APE_FOOTER_BYTES), _APE_FOOTER_BYTES)
    if footer.startswith(b"APETAGEX"):
        size, flags = (int.from_bytes(footer[at : at + 4], "little") for at in (12, 20))
        start = end - size - (_APE_FOOTER_BYTES if flags & _APE_HAS_HEADER else 0)
        return start if 0 <= start < end else end
    if footer.endswith(_LYRICS_END):
        digits = footer[: -len(_LYRICS_END)][-_LYRICS_SIZE_DIGITS:]
        start = end - len(_LYRICS_END) - _LYRICS_SIZE_DIGITS - int(digits) if digits.isdigit() else end
        return start if start >= 0 and read_at(file, start, 11) == b"LYRICSBEGIN" else end
    return end
