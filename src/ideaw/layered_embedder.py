"""Marking in layers: what one call asks for, and the stages that carry it out, the deep one first.

The network's mark comes second, so that its level is what was asked for against the audio that it is added to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import Stage
from ideaw.deep.embedder import BLOCK_TILES, STREAM_BLOCK_TILES, DeepEmbedder, DeepSettings, choose_start
from ideaw.deep.signs import KeyPattern
from ideaw.deep.words import Word
from ideaw.engine.embedder import Embedder, EmbedSettings
from ideaw.engine.gain import MarkLevel, check_level
from ideaw.engine.network import Network
from ideaw.errors import MessageError
from ideaw.keys import Key
from ideaw.layers import Layer, Stages
from ideaw.modem.channel import KeyChannels
from ideaw.payload.framing import plan_blocks
from ideaw.payload.message import Message, Plan


@dataclass(frozen=True)
class EmbedRequest:
    """A message for audio, in layers.

    Attributes:
        network, channels, key: the model, and where marks of the key lie.
        message: what to write.
        layers: where to write it.
        level: SNR or audibility of the network's mark, as they were asked for.
    """

    network: Network
    channels: KeyChannels
    key: Key
    message: Message
    layers: Sequence[Layer]
    level: MarkLevel

    def check_seconds(self, seconds: float | None) -> None:
        """Whether the message fits into so many seconds (None: it is not known yet).

        Raises:
            MessageError: it is empty, or does not fit; the deep layer has a tag for every message.
        """
        if not len(self.message.content):
            raise MessageError("the message is empty")
        if "fast" in self.layers:
            self._plan.check_seconds(inf if seconds is None else seconds)

    def choose_start(self, blocks: Iterable[NDArray[np.floating]], rate: int, seconds: float | None) -> int:
        """The tile at which the periods of the deep mark should begin, after all of the audio was heard."""
        return choose_start(self._pattern, self._word(seconds), blocks, rate) if "deep" in self.layers else 0

    def start(
        self,
        rate: int,
        block_seconds: int | None,
        seconds: float | None,
        first_tile: int,
        channels: int,
        step: float,
    ) -> Stages:
        """The stages that mark audio.

        Args:
            rate: sampling rate in Hz.
            block_seconds: seconds of a stream that the network marks at once; None for whole audio.
            seconds: length of the audio, if it is known.
            first_tile: what `choose_start` gave, or any.
            channels: number of channels.
            step: quantisation step of the samples.
        """
        stages: list[Stage] = []
        if "deep" in self.layers:
            tiles = BLOCK_TILES if block_seconds is None else STREAM_BLOCK_TILES
            settings = DeepSettings(rate, channels, step, tiles)
            stages.append(DeepEmbedder(self._pattern, self._word(seconds), settings, first_tile))
        snr, audibility = check_level(*self.level, self.network.card.audibility)
        if "fast" in self.layers:
            fast = EmbedSettings(rate, channels, snr, step, block_seconds, audibility or 0.0)
            stages.append(Embedder(self.network, self.channels, self._plan.period_payloads, fast))
        return Stages(stages)

    @property
    def _pattern(self) -> KeyPattern:
        return KeyPattern(self.key)

    @property
    def _plan(self) -> Plan:
        content, bits = self.message, self.network.card.message_bits
        return content.plan(bits, self.key) if content.fits(bits) else plan_blocks(content, bits, self.key)

    def _word(self, seconds: float | None) -> Word:
        return Word.of(self.message, self.key, inf if seconds is None else seconds)
