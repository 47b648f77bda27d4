"""Tags of audio files: the names that libsndfile carries, and ID3v2 for MP3.

libsndfile writes every letter of an ID3 tag beyond ASCII as two wrong ones, so MP3 gets its tag from here, in UTF-8.
"""

TAG_NAMES = ("title", "artist", "album", "date", "comment", "genre", "tracknumber", "copyright", "license")
"""Tags that libsndfile carries. Its `software` is left out: it grows by libsndfile's name at every write."""

ID3_FRAMES = {
    "title": b"TIT2",
    "artist": b"TPE1",
    "album": b"TALB",
    "date": b"TDRC",
    "comment": b"COMM",
    "genre": b"TCON",
    "tracknumber": b"TRCK",
    "copyright": b"TCOP",
}
"""Tags that MP3 gets from here → their frames."""

_ID3_EXTENDED, _ID3_FOOTER = 0x40, 0x10
"""Flags of a tag."""


def id3_length(opening: bytes) -> int:
    """Bytes that the ID3v2 tag of a file with this opening claims to have; 0 if there is none."""
    if len(opening) < 10 or not opening.startswith(b"ID3"):
        return 0
    size = 0
    for byte in opening[6:10]:
        size = size << 7 | byte & 0x7F
    footer = 10 if opening[5] & _ID3_FOOTER else 0
    return 10 + size + footer


def encode_id3(texts: dict[str, str]) -> bytes:
    """An ID3v2.4 tag in UTF-8 of texts by libsndfile's names; empty if none of them has an ID3 frame."""
    frames = b""
    for name, text in texts.items():
        if name in ID3_FRAMES:
            opening = b"\x03und\0" if name == "comment" else b"\x03"
            body = opening + text.encode("utf-8", "replace")
            frames += ID3_FRAMES[name] + _synchsafe(len(body)) + b"\0\0" + body
    return b"ID3\x04\0\0" + _synchsafe(len(frames)) + frames if frames else b""


def with_text_frame(tag: bytes, name: bytes, text: bytes) -> bytes | None:
    """An ID3v2 tag with one more text of the user's own, in ASCII, before its other frames.

    Args:
        tag: the whole tag; empty for a new one.
        name, text: of the frame.

    Returns:
        The new tag; None if the tag is of an unknown version, or has a footer or an extended header.
    """
    tag = tag or b"ID3\x04\0\0" + bytes(4)
    release, flags = tag[3], tag[5]
    body = b"\0" + name + b"\0" + text
    frames = {
        2: b"TXX" + len(body).to_bytes(3, "big"),
        3: b"TXXX" + len(body).to_bytes(4, "big") + b"\0\0",
        4: b"TXXX" + _synchsafe(len(body)) + b"\0\0",
    }
    if release not in frames or flags & (_ID3_EXTENDED | _ID3_FOOTER):
        return None
    content = frames[release] + body + tag[10:]
    return tag[:6] + _synchsafe(len(content)) + content


def _synchsafe(size: int) -> bytes:
    """A length in four bytes of seven bits, so that no decoder takes it for the start of an MP3 frame."""
    return bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0))
