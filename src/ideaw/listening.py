"""How much of the audio a search listens to: all of it, until it is sure, or some excerpts first.

A catalogue is mostly unmarked or marked from beginning to end, so most of its hours need not be heard. Each look at
what was heard so far is a trial of its own, which `TrialCounter` counts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import SampleBuffer
from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.errors import IdeawError

FIRST_LOOK_SECONDS = 10
"""Seconds after which a search that stops once sure looks for the first time; then after 1, 2, 4, 8 … chunks."""

MIN_LOOK_RATIO = 4
"""Audio must be so many times as long as what a look hears, since a look that finds nothing costs its time."""

PROBE_SECONDS = 10
"""Length of an excerpt."""


@dataclass(frozen=True)
class Listening:
    """What a search listens to.

    Attributes:
        until_sure: stop once a message is found beyond doubt; what follows in the audio is then not known.
        probes: number of excerpts of PROBE_SECONDS that are heard first, of audio MIN_LOOK_RATIO times as long as they
            are together. Only where one of them hints at a mark, the rest is heard too (0: all is heard).

    Raises:
        IdeawError: `probes` is negative.
    """

    until_sure: bool = False
    probes: int = 0

    def __post_init__(self) -> None:
        if self.probes < 0:
            raise IdeawError(f"{self.probes} probes cannot be heard; give 1 or more, or 0 to listen to everything")

    def suited_to(self, seconds: float | None) -> "Listening":
        """The same for audio of this length, None if it is not known: what is short is heard as a whole."""
        long = seconds is None or seconds >= MIN_LOOK_RATIO * FIRST_LOOK_SECONDS
        probed = seconds is not None and seconds >= MIN_LOOK_RATIO * self.probes * PROBE_SECONDS
        return Listening(self.until_sure and long, self.probes if probed else 0)

    def probe_starts(self, seconds: float) -> list[int]:
        """The seconds at which excerpts begin, evenly spread over audio of this length."""
        share = seconds / max(self.probes, 1)
        return [int(number * share + (share - PROBE_SECONDS) / 2) for number in range(self.probes)]


EVERYTHING = Listening()
"""Listen to all of the audio."""

FIRST_LOOK_HOPS = FIRST_LOOK_SECONDS * FRAMES_PER_SECOND
"""FIRST_LOOK_SECONDS in hops of the search."""


def is_look_due(chunks: int) -> bool:
    """Whether to look once so many chunks, one or more, were searched: after 1, 2, 4, 8 …"""
    return not chunks & (chunks - 1)


def cut_excerpts(
    blocks: Iterable[NDArray[np.floating]], rate: int, starts: Iterable[int]
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Excerpts of PROBE_SECONDS of audio that arrives in `(n, channels)` blocks; what follows the last is not read.

    Args:
        blocks: the audio from its beginning.
        rate: its sampling rate in Hz.
        starts: the seconds at which excerpts begin, in order and apart.

    Yields:
        The second at which an excerpt begins, and its samples; fewer where the audio ends.
    """
    arriving, buffer = iter(blocks), SampleBuffer()
    for start in starts:
        first, last = start * rate, (start + PROBE_SECONDS) * rate
        while buffer.end < last and (block := next(arriving, None)) is not None:
            buffer.drop_before(first)
            buffer.append(block)
        if len(excerpt := buffer.get(first, last)):
            yield start, excerpt
