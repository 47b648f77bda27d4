"""Marking in layers: what one call asks for, and the stages that carry it out, the deep one first.

The network's mark comes second, so that its level is what was asked for against the audio that it is added to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import Stage
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.samples import check_length
from ideaw.deep.embedder import (
    BLOCK_TILES,
    STREAM_BLOCK_TILES,
    TILE_SAMPLES,
    DeepEmbedder,
    DeepSettings,
    choose_start,
)
from ideaw.deep.gains import TARGET_DB
from ideaw.deep.signs import PERIOD_TILES, KeyPattern
from ideaw.deep.words import MIN_SECONDS_OF_BYTES, Word
from ideaw.engine.embedder import MIN_WHOLE_LATENCY_SECONDS, WAIT_BEYOND_BLOCK_SECONDS, Embedder
from ideaw.engine.gain import SHORT_BOOSTS_DB, SHORT_SECONDS, MarkLevel, check_level
from ideaw.engine.live import LiveEmbedder
from ideaw.engine.mixer import EmbedSettings
from ideaw.engine.network import Network
from ideaw.engine.plan import Plan, plan_message
from ideaw.errors import AudioError, MessageError
from ideaw.keys import Key
from ideaw.layers import Layer, Stages
from ideaw.modem.channel import KeyChannels
from ideaw.payload.message import Message
from ideaw.streams import MIN_READABLE_SECONDS, MIN_SOUND_SHARE


@dataclass(frozen=True)
class EmbedRequest:
    """A message for audio, in layers.

    Attributes:
        network, channels, key: the model, and where marks of the key lie.
        message: what to write.
        layers: where to write it.
        level: SNR or audibility of the network's mark, as they were asked for; where it is to be quieter than usual,
            the deep one is so too.
    """

    network: Network
    channels: KeyChannels
    key: Key
    message: Message
    layers: Sequence[Layer]
    level: MarkLevel

    @cached_property
    def plan(self) -> Plan:
        """What the network's mark says in each second."""
        return plan_message(self.message, self.channels, self.network.card.message_bits)

    @cached_property
    def checked_level(self) -> MarkLevel:
        """SNR or noise to mask in dB of the network's mark, the other None.

        Raises:
            IdeawError: both are asked for, or more than is allowed.
        """
        return check_level(*self.level, self.network.card.audibility)

    @property
    def min_seconds(self) -> float:
        """How long a clean stream must be for the message to be read."""
        if "fast" in self.layers:
            return MIN_READABLE_SECONDS
        return max(PERIOD_TILES * TILE_SAMPLES / SAMPLE_RATE, MIN_SECONDS_OF_BYTES[len(self._word(None).data)])

    @property
    def needed_seconds(self) -> float:
        """How much of it must hold the network's mark, if the message fills more than a second; else 0."""
        return self.plan.needed if "fast" in self.layers and self.plan.needed > 1 else 0

    def attempts(self, seconds: float | None) -> list["EmbedRequest"]:
        """The same at the levels to try one after another, until the mark is read: more than one for short audio."""
        short = seconds is not None and seconds < SHORT_SECONDS
        if not short or self.level != (None, None) or "fast" not in self.layers:
            return [self]
        usual = self.network.card.audibility
        return [replace(self, level=(None, usual + boost)) for boost in SHORT_BOOSTS_DB]

    def check_seconds(self, seconds: float | None) -> None:
        """Whether the message fits into so many seconds (None: it is not known yet).

        Raises:
            MessageError: it is empty, or does not fit; the deep layer has a tag for every message.
            AudioError: that is too short for the network's mark.
        """
        if not len(self.message.content):
            raise MessageError("the message is empty")
        if "fast" in self.layers:
            self.plan.check_seconds(inf if seconds is None else seconds)
            if seconds is not None:
                check_length(seconds, 1, least=self.network.card.min_seconds)

    def check_marked(self, stages: Stage) -> None:
        """What only the end of whole audio can tell.

        Raises:
            AudioError: what a stage finds, or too little of the audio holds the network's mark.
        """
        stages.check()
        least = self.network.card.min_seconds
        if "fast" in self.layers and stages.marked_seconds < MIN_SOUND_SHARE * least:
            held = f"only {stages.marked_seconds:.2f} s of the audio hold sound that can be marked"
            raise AudioError(f"{held}; at least {least:g} s is needed")

    def choose_start(self, blocks: Iterable[NDArray[np.floating]], rate: int, seconds: float | None) -> int:
        """The tile at which the periods of the deep mark should begin, after all of the audio was heard."""
        return choose_start(self._pattern, self._word(seconds), blocks, rate) if "deep" in self.layers else 0

    def start(
        self,
        rate: int,
        channels: int,
        step: float,
        companding: str | None = None,
        *,
        seconds: float | None = None,
        first_tile: int = 0,
        latency: float | None = None,
    ) -> Stage:
        """What marks audio: a stage for each layer, one after another.

        Args:
            rate: sampling rate in Hz.
            channels: number of channels.
            step: quantisation step of the samples.
            companding: the law, A or µ, whose values the samples have and will have, if any.
            seconds: length of the audio, if it is known.
            first_tile: what `choose_start` gave, or any.
            latency: seconds that the network's mark of a stream may take (None: this is whole audio).

        Raises:
            AudioError: the deep layer cannot keep to the values of a law.
        """
        stages: list[Stage] = []
        if "deep" in self.layers:
            if companding is not None:
                raise AudioError("A-law and µ-law files hold no deep layer; ask for the fast one, or write linear PCM")
            tiles = BLOCK_TILES if latency is None else STREAM_BLOCK_TILES
            settings = DeepSettings(rate, channels, step, tiles, self._deep_target)
            stages.append(DeepEmbedder(self._pattern, self._word(seconds), settings, first_tile))
        if "fast" in self.layers:
            stages.append(self._start_fast(rate, channels, step, companding, latency))
        return stages[0] if len(stages) == 1 else Stages(stages)

    def _start_fast(
        self,
        rate: int,
        channels: int,
        step: float,
        companding: str | None,
        latency: float | None,
    ) -> Stage:
        snr, audibility = self.checked_level
        whole = latency is None or latency >= MIN_WHOLE_LATENCY_SECONDS
        block_seconds = int(latency) - WAIT_BEYOND_BLOCK_SECONDS if whole and latency is not None else None
        settings = EmbedSettings(rate, channels, snr, step, block_seconds, audibility or 0.0, companding)
        mark = self.network, self.channels, self.plan.symbols, settings
        return Embedder(*mark) if latency is None or whole else LiveEmbedder(*mark, latency)

    @property
    def _deep_target(self) -> float:
        """dB of modulation over what is just heard: less where the network's mark is to be quieter too, never more."""
        audibility = self.checked_level[1]
        return TARGET_DB + (0.0 if audibility is None else min(0.0, audibility - self.network.card.audibility))

    @property
    def _pattern(self) -> KeyPattern:
        return KeyPattern(self.key)

    def _word(self, seconds: float | None) -> Word:
        return Word.of(self.message, self.key, inf if seconds is None else seconds)
