"""Compressed audio that is decoded, marked and encoded again while it arrives: MP3, AAC, FLAC, and Opus in Ogg."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import av
import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import SampleBuffer
from ideaw.errors import AudioError
from ideaw.service.proxy.frames import FlacFrames, OggPackets

MIN_KBPS_PER_CHANNEL = 64
"""Least bitrate of AAC and Opus that are encoded again, whose first frames do not tell that of the whole."""

STREAM_LAYOUTS = {1: "mono", 2: "stereo"}
"""Channels that can be encoded, and what FFmpeg calls them."""

MAX_FLAC_FRAME_SECONDS = 0.02
"""Length of the FLAC frames that are written: a frame waits for its last sample."""


@dataclass(frozen=True)
class Format:
    """How one format is decoded and encoded by FFmpeg."""

    decoder: str
    encoder: str
    container: str
    container_options: dict[str, str] = field(default_factory=dict)
    encoder_options: dict[str, str] = field(default_factory=dict)
    rate: int | None = None
    """The only rate, where there is only one."""
    constant_bitrate: bool = False

    FLUSHED: ClassVar[dict[str, str]] = {"flush_packets": "1"}


STREAM_FORMATS = {
    "mp3": Format(
        "mp3float",
        "libmp3lame",
        "mp3",
        {"write_xing": "0", "id3v2_version": "0"},
        {"reservoir": "0"},
        constant_bitrate=True,
    ),
    "aac": Format("aac", "aac", "adts"),
    "opus": Format(
        "opus",
        "libopus",
        "ogg",
        {"page_duration": "20000"},
        {"frame_duration": "20", "vbr": "constrained"},  # else tonal speech gets twice what is asked for
        rate=48_000,
    ),
    "flac": Format("flac", "flac", "flac"),
}
"""By the names of `/v1/audio/speech`."""


class Decoder:
    """Bytes of one format, in pieces, to samples `(n, channels)`: int16 or int32 of FLAC, float32 of the others."""

    def __init__(self, name: str) -> None:
        self._name, self._format = name, STREAM_FORMATS[name]
        self._context: Any = None if name in ("opus", "flac") else av.CodecContext.create(self._format.decoder, "r")
        self._frames = FlacFrames() if name == "flac" else OggPackets()
        self._packets = 0
        self._bits = self._samples = 0
        self._skipped = 0
        self.rate = 0

    @property
    def kbps(self) -> float:
        """Kilobits per second of what was decoded so far."""
        return self._bits * self.rate / max(self._samples, 1) / 1000

    def push(self, data: bytes) -> Iterator[NDArray[Any]]:
        """The samples that are complete with these bytes.

        Raises:
            AudioError: they are not of this format.
        """
        try:
            for packet in self._split(data):
                yield from self._decode(packet)
        except (ValueError, av.FFmpegError) as problem:
            raise AudioError(f"the audio cannot be decoded as {self._name}: {problem}") from None

    def finish(self) -> Iterator[NDArray[Any]]:
        """The samples that the decoder still held."""
        if self._context is None:
            return
        if self._name in ("mp3", "aac"):
            for packet in self._context.parse(b""):
                yield from self._decode(packet)
        yield from self._decode(None)

    def _split(self, data: bytes) -> Iterator[Any]:
        if self._name in ("mp3", "aac"):
            yield from self._context.parse(data)
            return
        for packet in self._frames.push(data):
            self._packets += 1
            if self._name == "opus" and self._packets <= 2:  # head and tags
                if self._packets == 1:
                    if not packet.startswith(b"OpusHead"):
                        raise ValueError("the Ogg stream holds no Opus")
                    self._open(packet)
                    self._skipped = int.from_bytes(packet[10:12], "little")
                continue
            if self._context is None:
                self._open(self._frames.stream_info if isinstance(self._frames, FlacFrames) else b"")
            yield av.Packet(packet)

    def _open(self, extradata: bytes) -> None:
        self._context = av.CodecContext.create(self._format.decoder, "r")
        self._context.extradata = extradata

    def _decode(self, packet: Any) -> Iterator[NDArray[Any]]:
        try:
            frames = self._context.decode(packet)
        except av.error.InvalidDataError:  # tags, or a frame whose beginning is missing
            return
        for frame in frames:
            samples = frame.to_ndarray()
            columns = samples.T if frame.format.is_planar else samples.reshape(-1, len(frame.layout.channels))
            self.rate = frame.sample_rate
            self._samples += len(columns)
            self._bits += 8 * (0 if packet is None else packet.size)
            dropped = min(self._skipped, len(columns))
            self._skipped -= dropped
            if len(columns) > dropped:
                yield np.ascontiguousarray(columns[dropped:])


class Encoder:
    """Samples `(n, channels)` to the bytes of one format, each frame as soon as it is full.

    Args:
        name: of the format.
        rate: in Hz; Opus is encoded at its own.
        channels: one or two.
        dtype: int16 or int32 for FLAC, float32 for the others.
        kbps: wanted bitrate (0: a usual one).

    Raises:
        AudioError: the format does not take this rate or so many channels.
    """

    def __init__(self, name: str, rate: int, channels: int, dtype: np.dtype[Any], kbps: float = 0.0) -> None:
        given = STREAM_FORMATS[name]
        if channels not in STREAM_LAYOUTS:
            raise AudioError(f"{name} of {channels} channels cannot be encoded here")
        self._layout, self._given_rate, self._rate = STREAM_LAYOUTS[channels], rate, given.rate or rate
        self._sink = _Sink()
        self._container = av.open(
            self._sink, "w", format=given.container, options={**Format.FLUSHED, **given.container_options}
        )
        options = dict(given.encoder_options)
        if name == "flac":
            options["frame_size"] = str(round(rate * MAX_FLAC_FRAME_SECONDS))
        stream: Any = self._container.add_stream(given.encoder, rate=self._rate)
        context = stream.codec_context
        context.layout, context.options = self._layout, options
        self._format = {"flac": "s16" if dtype == np.int16 else "s32", "opus": "flt"}.get(name, "fltp")
        context.format = self._format
        if name != "flac":
            least = 0 if given.constant_bitrate and kbps else MIN_KBPS_PER_CHANNEL * channels
            context.bit_rate = round(1000 * max(kbps, least))
        try:
            context.open()
        except av.FFmpegError:
            raise AudioError(f"{name} at {rate} Hz cannot be encoded") from None
        self._stream = stream
        self._resampler = None if rate == self._rate else av.AudioResampler(self._format, self._layout, self._rate)
        self._frame = context.frame_size or round(rate * MAX_FLAC_FRAME_SECONDS)
        self._waiting, self._position, self._taken = SampleBuffer(channels), 0, 0

    def push(self, samples: NDArray[Any]) -> bytes:
        """The bytes that are complete with these samples."""
        self._waiting.append(samples if self._resampler is None else self._resample(samples))
        for block in self._waiting.pop_blocks(self._frame):
            self._encode(block)
        return self._sink.pop()

    def finish(self) -> bytes:
        """The rest, to the end of the stream."""
        if self._resampler is not None:
            self._waiting.append(self._columns(self._resampler.resample(None)))
        for size in (self._frame, len(self._waiting) % self._frame):
            for block in self._waiting.pop_blocks(size) if size else ():
                self._encode(block)
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._sink.pop()

    def _resample(self, samples: NDArray[Any]) -> NDArray[Any]:
        if not len(samples):
            return self._columns([])
        frame = self._as_frame(samples, self._given_rate, self._taken)
        self._taken += len(samples)
        assert self._resampler is not None
        return self._columns(self._resampler.resample(frame))

    def _columns(self, frames: list[Any]) -> NDArray[Any]:
        """(n, channels) of interleaved frames."""
        channels = next(channels for channels, layout in STREAM_LAYOUTS.items() if layout == self._layout)
        parts = [frame.to_ndarray().reshape(-1, channels) for frame in frames]
        return np.concatenate([np.empty((0, channels), np.float32), *parts])

    def _encode(self, block: NDArray[Any]) -> None:
        frame = self._as_frame(block, self._rate, self._position)
        self._position += len(block)
        self._container.mux(self._stream.encode(frame))

    def _as_frame(self, block: NDArray[Any], rate: int, position: int) -> Any:
        kind = {"s16": np.int16, "s32": np.int32}.get(self._format, np.float32)
        samples = block.astype(kind, copy=False)
        array = np.ascontiguousarray(samples.T) if self._format.endswith("p") else samples.reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(array, format=self._format, layout=self._layout)
        frame.sample_rate, frame.pts = rate, position
        frame.time_base = Fraction(1, rate)
        return frame


class _Sink:
    """What FFmpeg writes into; it cannot seek."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def pop(self) -> bytes:
        written = bytes(self._written)
        self._written.clear()
        return written
