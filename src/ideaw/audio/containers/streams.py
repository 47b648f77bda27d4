"""MP4, MOV, Matroska and WebM through PyAV: one sound is replaced, and every other stream is copied packet by packet.

Pictures, subtitles, other sounds, data, attachments and chapters come over with their times; what FFmpeg does not
carry over in MP4, the user data, is put in afterwards by `mp4.py`. Imported only where it is needed, as PyAV is.
"""

import heapq
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import av
from av.packet import Packet
from av.stream import AttachmentStream, Disposition, Stream

from ideaw.audio.containers.bytes import UnfitContainerError
from ideaw.audio.containers.mp4 import chapter_track_ids, restore_boxes
from ideaw.audio.pyav import MP4_MUXERS, open_demuxer

_WRITTEN_ANEW_TAGS = ("encoder", "duration")
"""Tags of a container, or of a stream that is coded again, that FFmpeg writes by itself."""


def carry_streams(
    source: BinaryIO, coded: BinaryIO, output: BinaryIO, *, muxer: str, track: int, with_video: bool, folder: Path
) -> None:
    """Write `source` with one sound replaced by that of `coded` to `output`.

    Args:
        source: MP4 or Matroska.
        coded: a file that holds one audio stream.
        output: where the result goes.
        muxer: FFmpeg's name of the container that is written.
        track: which of the sounds is replaced, counted from 0.
        with_video: whether moving pictures come along.
        folder: has room for another copy of the file meanwhile.

    Raises:
        UnfitContainerError: a stream cannot be copied into this container.
    """
    is_mp4 = muxer in MP4_MUXERS
    with ExitStack() as files:
        muxed: Any = files.enter_context(tempfile.TemporaryFile(dir=folder)) if is_mp4 else output
        try:
            _remux(source, coded, muxed, muxer, track, with_video)
        except (av.FFmpegError, ValueError) as problem:
            raise UnfitContainerError(f"a stream cannot be copied to this container ({problem})") from problem
        if is_mp4:
            restore_boxes(source, muxed, output)


def _remux(source: BinaryIO, coded: BinaryIO, output: Any, muxer: str, track: int, with_video: bool) -> None:
    options = {"movie_timescale": str(_sound_rate(coded))} if muxer in MP4_MUXERS else {}
    skipped = chapter_track_ids(source) if muxer in MP4_MUXERS else set()
    covers = _read_covers(source)
    with (
        open_demuxer(source) as theirs,
        open_demuxer(coded) as ours,
        av.open(output, "w", format=muxer, options=options) as whole,
    ):
        replaced = theirs.streams.audio[track]
        targets: dict[int, Stream] = {}
        for stream in theirs.streams:
            if stream is replaced:
                marked = _add_stream(whole, ours.streams.audio[0], stream)
            elif isinstance(stream, AttachmentStream):
                whole.add_attachment(stream.name or "", stream.mimetype or "", stream.data or b"")
            elif stream.index in covers:
                if muxer not in MP4_MUXERS:  # where a cover is a tag, which comes with the user data
                    whole.add_attachment(*covers[stream.index])
            elif _is_copied(stream, with_video) and stream.id not in skipped:
                targets[stream.index] = _add_stream(whole, stream, stream)
        whole.metadata.update(_kept_tags(theirs.metadata))
        if theirs.chapters():
            whole.set_chapters(theirs.chapters())
        start = (replaced.start_time or 0) * (replaced.time_base or Fraction(0))
        copied = _packets(theirs, [theirs.streams[index] for index in targets], Fraction(0))
        replacing = _packets(ours, [ours.streams.audio[0]], start)
        for _, _, packet in heapq.merge(copied, replacing, key=lambda item: item[:2]):
            packet.stream = marked if packet.stream.container is ours else targets[packet.stream.index]
            whole.mux(packet)


def _add_stream(whole: av.container.OutputContainer, template: Stream, described: Stream) -> Stream:
    """A new stream with the coding of one and the tags and role of another."""
    added = whole.add_stream_from_template(template)
    added.time_base = template.time_base
    added.disposition = described.disposition
    added.metadata.update(described.metadata if template is described else _kept_tags(described.metadata))
    return added


def _is_copied(stream: Stream, with_video: bool) -> bool:
    """Whether a stream comes along; a track of time codes is made again from the tag of the pictures."""
    if stream.type == "data" and "timecode" in stream.metadata:
        return False
    return with_video or stream.type in ("audio", "subtitle")


def _read_covers(source: BinaryIO) -> dict[int, tuple[str, str, bytes]]:
    """The pictures that stand for a file and are no film: number of the stream → name, type and content."""
    covers = {}
    with open_demuxer(source) as theirs:
        pictures = [stream for stream in theirs.streams.video if stream.disposition & Disposition.attached_pic]
        for packet in theirs.demux(pictures) if pictures else ():
            tags = {name.lower(): text for name, text in packet.stream.metadata.items()}
            if packet.size and packet.stream.index not in covers:
                name, kind = tags.get("filename", "cover"), tags.get("mimetype", "image/jpeg")
                covers[packet.stream.index] = (name, kind, bytes(packet))
            if len(covers) == len(pictures):
                break
    return covers


def _packets(
    container: av.container.InputContainer, streams: list[Stream], shift: Fraction
) -> Iterator[tuple[float, int, "Packet[Stream]"]]:
    """The packets of some streams, `shift` seconds later, with the time by which they are to be written."""
    latest = 0.0
    for number, packet in enumerate(container.demux(streams) if streams else ()):
        if not packet.size:
            continue
        ticks = round(shift / packet.time_base) if shift else 0
        packet.pts = None if packet.pts is None else packet.pts + ticks
        packet.dts = None if packet.dts is None else packet.dts + ticks
        stamp = packet.dts if packet.dts is not None else packet.pts
        latest = latest if stamp is None else float(stamp * packet.time_base)
        yield latest, number, packet


def _kept_tags(tags: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in tags.items() if name.lower() not in _WRITTEN_ANEW_TAGS}


def _sound_rate(coded: BinaryIO) -> int:
    with open_demuxer(coded) as container:
        return int(container.streams.audio[0].rate)
