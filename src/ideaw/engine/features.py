"""Network outputs for one chunk of audio: the locating code's stream everywhere, the message's on request.

Streams are summed over the bins of a tile, (hops, freq_tiles), less their local mean, and those of several channels add
up. Stage 1 is several times as expensive as stage 2, so it runs only where a locating code was found.
"""

from functools import cached_property, partial, reduce

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, NUM_BINS
from ideaw.audio.spectrum import SPECTRUM_CONTEXT_HOPS, level_spectrum
from ideaw.engine.correlate import remove_local_mean
from ideaw.engine.network import Network, StageState, split_hops
from ideaw.modem.carriers import TILE_BINS

MAX_INFERENCE_HOPS = 5 * FRAMES_PER_SECOND
"""Hops that go through the network at once, at most: longer parts fall out of the caches. Where parts begin does not
depend on the number of threads, so neither does any result."""

READ_CONTEXT_HOPS = 4
"""Hops of context on each side of those that are read. The receptive field of the shipped graph is 24 hops, but more
context than this changes its output by less than its eight-bit rounding does (E59 in docs/history.md)."""


class ChunkFeatures:
    """Streams of locating code and message that the network extracts from `(n, channels)` of 16 kHz audio.

    Args:
        network: the model.
        audio: `(n, channels)` float32.
        hop_samples: samples between its frames, which differ from HOP_SAMPLES in audio of another tempo.
    """

    def __init__(self, network: Network, audio: NDArray[np.float32], hop_samples: int = HOP_SAMPLES) -> None:
        length, channels = audio.shape
        self._network, self._hop_samples = network, hop_samples
        self.hops = -(-length // hop_samples)
        codes = np.empty((channels, self.hops, network.card.bins // TILE_BINS), np.float32)
        self._audible = np.empty((channels, self.hops), bool)
        parts = split_hops(0, self.hops, MAX_INFERENCE_HOPS)
        jobs = [(channel, *part) for channel in range(channels) for part in parts]
        locate = partial(self._locate, audio, codes)
        states = network.map(locate, jobs)
        self._states = [states[channel * len(parts) : (channel + 1) * len(parts)] for channel in range(channels)]
        self.codes = remove_local_mean(codes)
        """(channels, hops, freq_tiles) of the locating code's stream, channel by channel."""
        self.code = self.codes.sum(0)
        """(hops, freq_tiles) of the locating code's stream, summed over the channels."""
        self._messages = np.zeros_like(codes)
        self._known = np.zeros(self.hops, bool)

    def message(self, *spans: tuple[int, int]) -> NDArray[np.float32]:
        """(hops, freq_tiles) of the message's stream in these `spans` (first hop, the one after the last); else 0."""
        wanted = np.zeros(self.hops, bool)
        for first, last in spans:
            wanted[max(first, 0) : max(last, 0)] = True
        edges = np.flatnonzero(np.diff(wanted & ~self._known, prepend=False, append=False)).reshape(-1, 2)
        parts = [part for first, last in edges.tolist() for part in split_hops(first, last, MAX_INFERENCE_HOPS)]
        self._network.map(self._read, parts)
        self._known |= wanted
        return np.asarray(remove_local_mean(self._messages).sum(0))

    def _locate(
        self, audio: NDArray[np.float32], codes: NDArray[np.float32], job: tuple[int, int, int]
    ) -> tuple[int, StageState]:
        """Fill in the locating code's stream for a `job` (channel, first hop, end); its first hop, and state."""
        (channel, begin, end), context = job, self._network.card.context["locate"]
        first, last = max(begin - context, 0), min(end + context, self.hops)
        inside = slice(begin - first, end - first)
        spectrum = _level_spectrum(audio[:, channel], first, last, self._hop_samples)
        if not spectrum.any():  # digital silence
            self._audible[channel, begin:end], codes[channel, begin:end] = False, 0
            return begin, tuple(kind[0].repeat(end - begin, 1) for kind in self._silence)
        code, state = self._network.locate(spectrum[None])
        self._audible[channel, begin:end] = spectrum[inside].any(-1)
        codes[channel, begin:end] = _sum_tile_bins(code[0, inside]) * self._audible[channel, begin:end, None]
        return begin, tuple(kind[0][:, inside] for kind in state)

    @cached_property
    def _silence(self) -> StageState:
        """What `locate` leaves of a hop that has nothing but digital silence in its receptive field."""
        context = self._network.card.context["locate"]
        _, state = self._network.locate(np.zeros((1, 2 * context + 1, NUM_BINS), np.complex64))
        return tuple(kind[:, :, context : context + 1] for kind in state)

    def _read(self, part: tuple[int, int]) -> None:
        """Fill in the message's stream for a `part` (first hop, the one after the last)."""
        begin, end = part
        first, last = max(begin - READ_CONTEXT_HOPS, 0), min(end + READ_CONTEXT_HOPS, self.hops)
        for states, audible, message in zip(self._states, self._audible, self._messages, strict=True):
            stream = self._network.read(_cut_states(states, first, last))[0, begin - first : end - first]
            message[begin:end] = _sum_tile_bins(stream) * audible[begin:end, None]


def _cut_states(states: list[tuple[int, StageState]], first: int, last: int) -> StageState:
    """The states that `locate` left of a channel, cut to the hops from `first` to before `last`."""
    parts = [
        tuple(kind[:, max(first - begin, 0) : max(last - begin, 0)] for kind in state)
        for begin, state in states
        if begin < last and begin + state[0].shape[1] > first
    ]
    return tuple(np.concatenate(kind, 1)[None] for kind in zip(*parts, strict=True))


def _level_spectrum(audio: NDArray[np.float32], first: int, last: int, hop_samples: int) -> NDArray[np.complex64]:
    """(n,) audio → (last − first, NUM_BINS): its spectrum at these hops, at level 1."""
    begin = max(first - SPECTRUM_CONTEXT_HOPS, 0)
    around = audio[begin * hop_samples : (last + SPECTRUM_CONTEXT_HOPS) * hop_samples]
    padded = np.pad(around, (0, -len(around) % hop_samples))
    return level_spectrum(padded, hop_samples)[first - begin : last - begin]


def _sum_tile_bins(stream: NDArray[np.float32]) -> NDArray[np.float32]:
    """(hops, bins) → (hops, freq_tiles): the first half of summing over tiles, wherever their seconds begin."""
    parts = (stream[..., place::TILE_BINS] for place in range(TILE_BINS))
    return reduce(np.add, parts)  # 50 times as fast as along rows of two
