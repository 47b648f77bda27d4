"""The Xing header of an MP3 file and the LAME tag in it: how the frames were made, and how long the audio is.

LAME leaves it out where a frame of the chosen bitrate is too small for it. It may be larger than the others, though,
so such a header is made here: without it the encoder's delay could not be undone, or the bitrate would have to rise.
"""

from typing import BinaryIO

from ideaw.audio import mpeg
from ideaw.audio.formats import RateControl

LAME_DELAY_SAMPLES = 576
"""Samples that LAME puts in front of the audio."""

_XING_BYTES, _LAME_BYTES = 120, 36
"""Bytes of a Xing header with all its parts, and of the LAME tag that follows it."""

_ALL_PARTS = 0x0F
_QUALITY = slice(116, 120)
_METHOD_BYTE, _DELAYS, _REPLAY_GAIN = 9, slice(21, 24), slice(15, 19)
_CONSTANT_METHODS, _AVERAGE_METHODS = (1, 8), (2, 9)

_VBR_KBPS = (245, 225, 190, 175, 165, 130, 115, 100, 85, 65)
"""Usual bitrate in kbit/s of LAME's qualities V0 to V9, in stereo at 44.1 kHz."""

_MONO_SHARE = 0.6
"""Bitrate of one channel by that of two."""


def rate_control(file: BinaryIO, stream: mpeg.Mp3Stream) -> RateControl:
    """How the frames of an MP3 file were made: by its header, or guessed from their bitrates where that is silent."""
    frame = mpeg.first_frame(file, stream)
    at = _xing_start(frame)
    tag = lame_tag(frame)
    method = frame[tag.start + _METHOD_BYTE] & 0x0F if tag is not None else 0
    if method in _CONSTANT_METHODS or not (stream.variable or method):
        return RateControl()
    if method in _AVERAGE_METHODS:
        return RateControl("AVERAGE")
    quality = int.from_bytes(frame[at:][_QUALITY], "big") if method and at is not None else 0
    if 0 < quality <= 100:  # LAME subtracts another digit for the care it took
        return RateControl("VARIABLE", float((100 - quality) // 10))
    rate, channels = mpeg.rate_and_channels(stream.header)
    usual = [kbps * rate / 44_100 * (_MONO_SHARE if channels == 1 else 1) for kbps in _VBR_KBPS]
    return RateControl("VARIABLE", float(max((v for v, kbps in enumerate(usual) if kbps >= stream.bitrate), default=0)))


def lame_tag(frame: bytes) -> slice | None:
    """Where the LAME tag lies in the first frame of a file; None where there is none."""
    at = _xing_start(frame)
    if at is None or frame[at + 7] & _ALL_PARTS != _ALL_PARTS:
        return None
    start = at + _XING_BYTES
    return slice(start, start + _LAME_BYTES) if any(frame[start : start + 4]) else None


def with_replay_gain(ours: bytes, theirs: bytes) -> bytes:
    """The first frame of a file, with the ReplayGain in the LAME tag of another's, if both have one."""
    our_tag, their_tag = lame_tag(ours), lame_tag(theirs)
    if our_tag is None or their_tag is None:
        return ours
    tag = bytearray(ours[our_tag])
    tag[_REPLAY_GAIN] = theirs[their_tag][_REPLAY_GAIN]
    return _sealed(ours[: our_tag.start] + bytes(tag[:-2]), ours[our_tag.stop :])


def info_frame(stream: mpeg.Mp3Stream, num_bytes: int, length: int) -> bytes:
    """A frame that tells the length of a stream without a header, for its beginning.

    Args:
        stream: what LAME wrote, at a constant bitrate.
        num_bytes: how long that is.
        length: samples per channel that were encoded.
    """
    header = stream.header_with_room(_XING_BYTES + _LAME_BYTES)
    frame_bytes, side_bytes, frame_samples = mpeg.frame_sizes(header)
    padding = stream.num_frames * frame_samples - LAME_DELAY_SAMPLES - length
    table = bytes(256 * percent // 100 for percent in range(100))
    counts = (stream.num_frames, num_bytes + frame_bytes)
    xing = b"Info" + _ALL_PARTS.to_bytes(4, "big") + b"".join(count.to_bytes(4, "big") for count in counts)
    tag = bytearray(_LAME_BYTES - 2)
    tag[: _METHOD_BYTE + 1] = b"LAME3.100\x01"
    tag[20] = min(255, round(stream.bitrate))
    tag[_DELAYS] = (LAME_DELAY_SAMPLES << 12 | padding).to_bytes(3, "big")
    tag[28:32] = (num_bytes + frame_bytes).to_bytes(4, "big")
    head = header + bytes(side_bytes) + xing + table + bytes(4) + bytes(tag)
    return _sealed(head, bytes(frame_bytes - len(head) - 2))


def _xing_start(frame: bytes) -> int | None:
    """Where the Xing header begins, if the frame has one with room for all its parts."""
    at = max(frame.find(b"Xing"), frame.find(b"Info"))
    return at if 0 <= at <= len(frame) - _XING_BYTES - _LAME_BYTES else None


def _sealed(head: bytes, rest: bytes) -> bytes:
    """A frame up to the check of its tag, with that check (CRC-16, reflected 0x8005), and what follows."""
    crc = 0
    for byte in head:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0xA001 if crc & 1 else crc >> 1
    return head + crc.to_bytes(2, "big") + rest
