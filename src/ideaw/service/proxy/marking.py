"""Audio bytes in, marked audio bytes out: one marker of bytes for each format that a speech server answers with."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.errors import AudioError


class MarkingStream(Protocol):
    """What an `EmbedStream` does of which byte markers make use."""

    rate: int

    def push(self, block: ArrayLike) -> NDArray[Any]:
        """The marked samples that became final by these next ones."""

    def flush(self) -> NDArray[Any]:
        """End the stream: the samples that were still held."""


OpenStream = Callable[[int], MarkingStream]
"""Opens a stream at a rate in Hz."""

MAX_WAV_HEAD_BYTES = 1 << 20
"""Bytes before the samples of a WAV stream, at most."""

PCM_FORMAT, FLOAT_FORMAT, EXTENSIBLE_FORMAT = 1, 3, 0xFFFE
"""Numbers of WAV formats."""


class ByteMarker(ABC):
    """Marks one answer. `push` what arrives and send what comes back; `finish` once."""

    keeps_length: bool
    """Whether as many bytes come out as go in."""

    @abstractmethod
    def push(self, data: bytes) -> bytes:
        """The bytes that are final with these; AudioError if they are not of the format."""

    @abstractmethod
    def finish(self) -> bytes:
        """The rest."""


class PcmMarker(ByteMarker):
    """Raw samples of one width."""

    keeps_length = True

    def __init__(self, open_stream: OpenStream, rate: int, channels: int = 1, width: str = "<i2") -> None:
        self._stream, self._channels = open_stream(rate), channels
        self._width = np.dtype("u1") if width == "<i3" else np.dtype(width)
        self._packed = width == "<i3"
        self._frame = channels * (3 if self._packed else self._width.itemsize)
        self._rest = b""

    def push(self, data: bytes) -> bytes:
        data = self._rest + data
        whole = len(data) - len(data) % self._frame
        self._rest = data[whole:]
        return self._bytes(self._stream.push(self._samples(data[:whole]))) if whole else b""

    def finish(self) -> bytes:
        return self._bytes(self._stream.flush()) + self._rest

    def _samples(self, data: bytes) -> NDArray[Any]:
        if self._packed:  # 24 bits as the upper ones of 32
            wide = np.zeros((len(data) // 3, 4), np.uint8)
            wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
            samples: NDArray[Any] = wide.view("<i4")[:, 0]
        else:
            samples = np.frombuffer(data, self._width)
        return samples.reshape(-1, self._channels)

    def _bytes(self, samples: NDArray[Any]) -> bytes:
        if self._packed and len(samples):
            rounded = np.minimum(samples.astype(np.int64) + 128, np.iinfo(np.int32).max).astype("<i4")
            return rounded.reshape(-1, 1).view(np.uint8)[:, 1:].tobytes()
        return samples.astype(self._width, copy=False).tobytes() if len(samples) else b""


class WavMarker(ByteMarker):
    """A WAV stream: its head as it is, its samples marked, what follows them as it is."""

    keeps_length = True

    def __init__(self, open_stream: OpenStream) -> None:
        self._open = open_stream
        self._head = b""
        self._left: float = 0
        self._samples: PcmMarker | None = None
        self._ended = False

    def push(self, data: bytes) -> bytes:
        out = b""
        if self._samples is None:
            self._head += data
            begin = self._parse()
            if begin is None:
                if len(self._head) > MAX_WAV_HEAD_BYTES:
                    raise AudioError("the WAV stream has no samples")
                return b""
            out, data = self._head[:begin], self._head[begin:]
        if self._ended or self._samples is None:
            return out + data
        inside = data if len(data) <= self._left else data[: int(self._left)]
        self._left -= len(inside)
        out += self._samples.push(inside)
        if self._left == 0:
            out += self._samples.finish() + data[len(inside) :]
            self._ended = True
        return out

    def finish(self) -> bytes:
        if self._samples is None:
            return self._head
        return b"" if self._ended else self._samples.finish()

    def _parse(self) -> int | None:
        """Where the samples begin, once that and their format are known."""
        head = self._head
        if len(head) >= 12 and (head[:4] not in (b"RIFF", b"RF64") or head[8:12] != b"WAVE"):
            raise AudioError("the audio is no WAV stream")
        place, form = 12, b""
        while len(head) >= place + 8:
            name, size = head[place : place + 4], int.from_bytes(head[place + 4 : place + 8], "little")
            if name == b"data":
                self._samples = self._of_format(form)
                # Streams whose length is not known yet give none, or the largest.
                self._left = float("inf") if size in (0, 0x7FFFFFFF) or size >= 0xFFFFFFFF - 4096 else size
                return place + 8
            if name == b"fmt ":
                form = head[place + 8 : place + 8 + size]
            place += 8 + size + size % 2
        return None

    def _of_format(self, form: bytes) -> PcmMarker:
        fields = [int.from_bytes(form[at : at + size], "little") for at, size in ((0, 2), (2, 2), (4, 4), (14, 2))]
        kind, channels, rate, bits = fields
        if kind == EXTENSIBLE_FORMAT:
            kind = int.from_bytes(form[24:26], "little")
        width = {
            (PCM_FORMAT, 8): "u1",
            (PCM_FORMAT, 16): "<i2",
            (PCM_FORMAT, 24): "<i3",
            (PCM_FORMAT, 32): "<i4",
            (FLOAT_FORMAT, 32): "<f4",
            (FLOAT_FORMAT, 64): "<f8",
        }.get((kind, bits))
        if width is None or not channels:
            raise AudioError(f"WAV of format {kind} with {bits} bits cannot be marked")
        return PcmMarker(self._open, rate, channels, width)


class CompressedMarker(ByteMarker):
    """MP3, AAC, Opus in Ogg, or FLAC: decoded, marked, and encoded again."""

    keeps_length = False

    def __init__(self, open_stream: OpenStream, name: str) -> None:
        from ideaw.service.proxy.transcode import Decoder

        self._open, self._name = open_stream, name
        self._decoder = Decoder(name)
        self._stream: MarkingStream | None = None
        self._encoder: Any = None

    def push(self, data: bytes) -> bytes:
        return b"".join(self._mark(samples) for samples in self._decoder.push(data))

    def finish(self) -> bytes:
        out = b"".join(self._mark(samples) for samples in self._decoder.finish())
        if self._stream is None:
            raise AudioError(f"there is no {self._name} in the audio")
        out += self._encode(self._stream.flush(), self._stream.rate)
        return out if self._encoder is None else bytes(out + self._encoder.finish())

    def _mark(self, samples: NDArray[Any]) -> bytes:
        self._stream = self._stream or self._open(self._decoder.rate)
        if self._decoder.rate != self._stream.rate:
            raise AudioError(f"the rate changed from {self._stream.rate} to {self._decoder.rate} Hz")
        return self._encode(self._stream.push(samples), self._stream.rate)

    def _encode(self, marked: NDArray[Any], rate: int) -> bytes:
        """The encoder begins with the first marked samples: by then many frames have told the bitrate."""
        if not len(marked):
            return b""
        if self._encoder is None:
            from ideaw.service.proxy.transcode import Encoder

            self._encoder = Encoder(self._name, rate, marked.shape[1], marked.dtype, self._decoder.kbps)
        return bytes(self._encoder.push(marked))
