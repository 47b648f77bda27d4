"""Bare PCM, as pipes carry it: a WAV header in front makes a file of it, and taking that away makes PCM again."""

import re
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ideaw.errors import IdeawError

_FORM = re.compile(r"(\d{4,6})x(\d{1,2})(?::(s16|s24|s32|f32))?")
_BITS = {"s16": 16, "s24": 24, "s32": 32, "f32": 32}
_WAVE_PCM, _WAVE_FLOAT = 1, 3
_WAV_HEADER_BYTES = 44
_UNKNOWN_SIZE = 0xFFFF_FFFF
"""What a header says of a file that is longer than it can say."""


@dataclass(frozen=True)
class PcmForm:
    """What bare samples are: little-endian, channel by channel, of one type.

    Attributes:
        rate: in Hz.
        channels: how many.
        type: "s16", "s24", "s32" or "f32".
    """

    rate: int
    channels: int
    type: str = "s16"

    @classmethod
    def of(cls, text: str) -> "PcmForm":
        """Read `RATExCHANNELS` or `RATExCHANNELS:TYPE`, such as 48000x2:f32.

        Raises:
            IdeawError: it is written otherwise.
        """
        match = _FORM.fullmatch(text)
        if match is None or not int(match[2]):
            raise IdeawError(f'"{text}" is no form of PCM; write it as 48000x2 or 48000x2:TYPE, s16, s24, s32 or f32')
        return cls(int(match[1]), int(match[2]), match[3] or "s16")

    def add_header(self, samples: BinaryIO, path: Path) -> None:
        """Write bare samples as a WAV file."""
        with path.open("wb") as file:
            file.write(bytes(_WAV_HEADER_BYTES))
            shutil.copyfileobj(samples, file)
            num_bytes = file.tell() - _WAV_HEADER_BYTES
            file.seek(0)
            file.write(self._header(num_bytes))

    def copy_samples(self, wav: Path, output: BinaryIO) -> None:
        """Write the bare samples of what has become of such a file."""
        with wav.open("rb") as file:
            file.seek(_WAV_HEADER_BYTES)
            shutil.copyfileobj(file, output)

    def _header(self, num_bytes: int) -> bytes:
        frame = self.channels * _BITS[self.type] // 8
        kind = _WAVE_FLOAT if self.type == "f32" else _WAVE_PCM
        form = struct.pack("<HHIIHH", kind, self.channels, self.rate, self.rate * frame, frame, _BITS[self.type])
        whole, samples = (min(size, _UNKNOWN_SIZE) for size in (num_bytes + _WAV_HEADER_BYTES - 8, num_bytes))
        opening = b"RIFF" + struct.pack("<I", whole) + b"WAVEfmt " + struct.pack("<I", len(form))
        return opening + form + b"data" + struct.pack("<I", samples)
