"""MP3: the tags before and behind the frames of the source around the frames of another file.

ID3v2 stands before the audio; ID3v1, APE and Lyrics3 behind it. The Xing and LAME header is that of the coder, whose
frames it describes; the ReplayGain in it is the source's, since a mark does not change how loud audio is.
"""

from typing import BinaryIO

from ideaw.audio import mpeg, xing
from ideaw.audio.containers.bytes import Stretch, UnfitContainerError, append, num_bytes
from ideaw.audio.containers.trailers import trailing_tags_start


def carry_mp3(source: BinaryIO, coded: BinaryIO, output: BinaryIO) -> None:
    """Write the frames of `coded` with everything else of `source`, both MP3 files, to `output`.

    Raises:
        UnfitContainerError: one of them holds no frames.
    """
    theirs, ours = mpeg.scan(source), mpeg.scan(coded)
    if theirs is None or ours is None:
        raise UnfitContainerError("its MP3 frames cannot be located")
    tail = trailing_tags_start(source)
    first = xing.with_replay_gain(mpeg.first_frame(coded, ours), mpeg.first_frame(source, theirs))
    rest = ours.start + len(first)
    append(
        output,
        [
            Stretch(source, 0, theirs.start),
            first,
            Stretch(coded, rest, num_bytes(coded) - rest),
            Stretch(source, tail, num_bytes(source) - tail),
        ],
    )
