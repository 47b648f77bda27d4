"""What a key determines: where the bits of a second lie, and the locating code that every second of its marks carries.

At the level of segments, bits travel through error correction (`fec.py`) onto slots; in files, messages do
(`short_frames.py`, `long_frames.py`). From there keyed spread spectrum (`carriers.py`) takes slots onto tiles of time
and frequency. Everything is derived once per key and shared by embedder and detector.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ideaw.keys import Key
from ideaw.modem.carriers import (
    CODE_TILE_FRAMES,
    MESSAGE_TILE_FRAMES,
    Carriers,
    TileFrames,
    keyed_carriers,
)
from ideaw.modem.fec import FecCode, fec_code
from ideaw.modem.locating_code import locating_code, scrambler
from ideaw.modem.long_frames import LongFrames
from ideaw.modem.short_frames import ShortFrames, short_frames

WIRE_FORMAT = 1
"""Number of the format of marks: carriers, codes and messages, as docs/wire-format.md describes them. Every later
version finds marks of it; what they carry is never changed under this number."""

MAX_CACHED_CHANNELS = 64
"""Most channels that stay in memory once they were drawn, of all keys and models together."""


@dataclass(frozen=True, eq=False)
class BitChannel:
    """How some bits of a second travel: FEC maps them onto slots, carriers spread the slots over tiles."""

    fec: FecCode
    carriers: Carriers


@dataclass(frozen=True, eq=False)
class KeyChannels:
    """The channels of message and locating code under one key, and that key's locating code."""

    key: bytes
    message: BitChannel
    code: BitChannel
    locating_code: NDArray[np.uint8]
    """(code_bits,) zeros and ones."""
    scrambled_by_code: bool
    """Whether the locating code scrambles the message's slots at the level of segments."""
    short_word_bits: int = 0
    """Bits of a message that every second of a file repeats, kind and content; 0: there are only segments."""
    has_long: bool = False
    """Whether longer messages are spread over the seconds of a file."""

    @cached_property
    def short(self) -> ShortFrames:
        """What seconds of files carry for a message that every second repeats."""
        return short_frames(self.key, self.short_word_bits, self.message.carriers.slots)

    @cached_property
    def long(self) -> LongFrames | None:
        """What seconds of files carry for a longer message."""
        return LongFrames(self.key, self.message.carriers.slots) if self.has_long else None

    def scrambler(self, code: NDArray[np.integer]) -> NDArray[np.float32]:
        """Locating codes (…, code_bits) → (…, message_slots) of −1 and +1, factors of the message's symbols."""
        if self.scrambled_by_code:
            return scrambler(code, self.message.fec.generator)
        return np.ones((*code.shape[:-1], self.message.carriers.slots), np.float32)

    @cached_property
    def fingerprint(self) -> str:
        """What names the key in results (`Key.fingerprint`)."""
        return Key(self.key).fingerprint

    @cached_property
    def code_symbols(self) -> NDArray[np.float32]:
        """(code_slots,) of −1 and +1: the locating code of every second."""
        return self.code.fec.symbols(self.locating_code)

    @cached_property
    def code_stream(self) -> NDArray[np.float32]:
        """(FRAMES_PER_SECOND, bins): the locating code as the watermark stream of one second."""
        return self.code.carriers.stream(self.code_symbols)

    @cached_property
    def code_template(self) -> NDArray[np.float32]:
        """(tiles,): what a matched filter for the key's locating code correlates with."""
        return self.code.carriers.template(self.code_symbols)

    @cached_property
    def code_template_bands(self) -> list[NDArray[np.float32]]:
        """`code_template` as (time_tiles, freq_tiles) of each band of tiles."""
        return self.code.carriers.split_bands(self.code_template)


@lru_cache(maxsize=MAX_CACHED_CHANNELS)
def key_channels(
    key: bytes,
    message: tuple[int, int],
    code: tuple[int, int],
    bins: int,
    scrambled_by_code: bool,
    short_word_bits: int = 0,
    has_long: bool = False,
) -> KeyChannels:
    """The channels of a key.

    Args:
        key: its bytes.
        message: (bits, slots) of the message.
        code: (bits, slots) of the locating code.
        bins: width of a watermark stream.
        scrambled_by_code: whether the locating code scrambles the message's slots at the level of segments.
        short_word_bits: bits of a message that every second of a file repeats; 0: there are only segments.
        has_long: whether longer messages are spread over seconds.
    """
    name = f"{message[0]}+{code[0]}"

    def channel(kind: str, bits: int, slots: int, tile_frames: TileFrames) -> BitChannel:
        carriers = keyed_carriers(slots, bins, key, f"carriers of the {kind} of {name}".encode(), tile_frames)
        return BitChannel(fec_code(bits, slots), carriers)

    return KeyChannels(
        key,
        channel("message", *message, MESSAGE_TILE_FRAMES),
        channel("code", *code, CODE_TILE_FRAMES),
        locating_code(code[0], key),
        scrambled_by_code,
        short_word_bits,
        has_long,
    )
