"""The layers of a mark, by name: the network's fast one and the slow deep one; and stages one after another."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import Stage
from ideaw.errors import IdeawError

Layer: TypeAlias = Literal["fast", "deep"]
"""The network's mark in every second; or the loudness of mel bands, which survives resynthesis."""

LayersLike: TypeAlias = Sequence[Layer] | str
"""Layers as callers give them: names, or one string with commas between them."""

ALL_LAYERS: tuple[Layer, ...] = get_args(Layer)
"""What is written where the level is set by hearing, and looked for where nothing else is asked."""

FAST_ALONE: tuple[Layer, ...] = ("fast",)
"""What is written where an SNR is promised of all that is added, and in live streams."""

MIN_DEEP_SECONDS = 3.0
"""Least audio that gets the deep layer unasked: less would be changed as much, and hardly ever be found."""


def default_layers(snr: float | None, seconds: float | None = None, companding: str | None = None) -> tuple[Layer, ...]:
    """The layers of whole audio where none are asked for.

    Args:
        snr: what was asked for, which changes of loudness would not keep.
        seconds: length of the audio, if it is known.
        companding: the law whose values the samples have, which changes of loudness would leave.
    """
    short = seconds is not None and seconds < MIN_DEEP_SECONDS
    return FAST_ALONE if short or snr is not None or companding is not None else ALL_LAYERS


def check_layers(layers: Sequence[str] | str) -> tuple[Layer, ...]:
    """Names of layers, checked, each once, "fast" first; a string separates them by commas.

    Raises:
        IdeawError: there is no such layer, or none is given.
    """
    names = [name.strip() for name in layers.split(",")] if isinstance(layers, str) else list(layers)
    for name in names:
        if name not in ALL_LAYERS:
            raise IdeawError(f"layer {name!r} is not known; give {', '.join(ALL_LAYERS)}, or both")
    if not names:
        raise IdeawError(f"no layer is given; give {', '.join(ALL_LAYERS)}, or both")
    return tuple(known for known in ALL_LAYERS if known in names)


class Stages:
    """Stages that mark the same audio one after another; together they are a stage."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages

    @property
    def length(self) -> int:
        """Samples per channel that were pushed."""
        return self._stages[0].length

    @property
    def latency(self) -> float:
        """Seconds from a sample's going in to its coming out, at most."""
        return sum(stage.latency for stage in self._stages)

    @property
    def marked_seconds(self) -> float:
        """How much of the audio holds a mark, of the last layer."""
        return self._stages[-1].marked_seconds

    def push(self, block: NDArray[Any]) -> NDArray[Any]:
        """Feed the next samples; returns the marked samples that are final, of the same type."""
        for stage in self._stages:
            block = stage.push(block)
        return block

    def finish(self) -> NDArray[Any]:
        """End the audio; returns the rest, so that as many samples came out as went in."""
        first, *others = self._stages
        rest = first.finish()
        for stage in others:
            rest = np.concatenate([stage.push(rest), stage.finish()]) if len(rest) else stage.finish()
        return rest

    def check(self) -> None:
        """Raise what any stage can tell only at the end."""
        for stage in self._stages:
            stage.check()
