"""Adds marks to samples, and keeps account of what is left of them: arrays, files and live streams are judged alike."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.companding import companded_values, on_companded_values
from ideaw.audio.grid import FRAMES_PER_SECOND, SAMPLE_RATE
from ideaw.audio.samples import MIN_LEVEL_DBFS, as_float, check_not_silent, restore
from ideaw.engine.gain import on_grid
from ideaw.errors import AudioError

COMPANDED_BLOCKS_PER_SECOND = 10
"""Blocks of a second in each of which a mark among the values of A-law or µ-law is no louder than it was meant."""

MIN_UNROUNDED_SHARE = 0.25
"""Share of a mark that must be left after rounding to the samples' width: at 0.17 it was lost, at 0.26 found."""

MIN_UNCLIPPED_SHARE = 0.7
"""Share of a mark that must be left where samples are clipped to full scale: at 0.67 it was lost, at 0.74 found."""


@dataclass(frozen=True)
class EmbedSettings:
    """Properties of the audio and of its mark."""

    rate: int
    """Sampling rate of the audio in Hz."""
    channels: int
    snr: float | None
    """SNR in dB that every second of every channel keeps at least; None: the level is set by hearing."""
    step: float
    """Quantisation step of the samples, full scale 1 (0: floats); the added mark is a multiple of it."""
    block_seconds: int | None = None
    """Whole seconds that are marked at once (None: as many as memory allows); changes latency, time and memory only."""
    audibility: float = 0.0
    """Noise-to-mask ratio in dB that every second of every channel is brought to, where its level is set by hearing."""
    companding: str | None = None
    """libsndfile's name of the law, A or µ, whose values the samples have and will have; None for all others."""


class Mixer:
    """The sum of audio and mark, `(n, channels)` after `(n, channels)`."""

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        self._samples = self._samples_16k = self._marked = 0
        self._energy = self._energy_16k = self._intended = self._rounded = self._added = self._unclipped = 0.0

    @property
    def marked_seconds(self) -> float:
        """How much of the audio holds a mark in any channel, to a hop: digital silence does not."""
        return self._marked / self._settings.rate

    def count_16k(self, audio: NDArray[np.floating]) -> None:
        """Take note of `(n, …)` samples at 16 kHz: what the network hears of the audio."""
        self._energy_16k += float(np.vdot(audio, audio))
        self._samples_16k += audio.size

    def add(
        self,
        audio: NDArray[np.float64],
        intended: NDArray[np.floating],
        possible: NDArray[np.floating],
        dtype: np.dtype[Any],
    ) -> NDArray[Any]:
        """Marked samples of the caller's type.

        Args:
            audio: (n, channels), full scale 1.
            intended: (n, channels), the mark as strong as it should be.
            possible: (n, channels), the mark as strong as it may be, which is added.
            dtype: of the samples.
        """
        added = on_grid(possible, self._settings.step)
        if self._settings.companding is not None:
            values = companded_values(self._settings.companding)
            added = on_companded_values(audio, possible, values, self._settings.rate // COMPANDED_BLOCKS_PER_SECOND)
        if self._settings.snr is None:
            added[audio == 0] = 0  # digital silence stays digital silence
        marked = restore(audio + added, audio, dtype)
        self._samples += audio.size
        self._energy += float(np.vdot(audio, audio))
        self._intended += float(np.vdot(intended, intended))
        self._rounded += float(np.vdot(added, intended))
        self._added += float(np.vdot(added, added))
        self._unclipped += float(np.vdot(as_float(marked) - audio, added))
        changed: NDArray[np.bool_] = np.asarray(added.any(1))
        hop = self._settings.rate // FRAMES_PER_SECOND
        for start in range(0, len(changed), hop):
            self._marked += len(changed[start : start + hop]) * bool(changed[start : start + hop].any())
        return marked

    def check(self) -> None:
        """Whether there was anything to hide a mark under, and whether it survived.

        Raises:
            AudioError: the audio is silent, or too little of the mark is left after rounding or clipping.
        """
        snr = self._settings.snr
        mark = "a mark that is masked by" if snr is None else f"a mark {snr:g} dB below"
        check_not_silent(self._energy / max(self._samples, 1))
        if self._energy_16k / max(self._samples_16k, 1) < 10 ** (MIN_LEVEL_DBFS / 10):
            raise AudioError(f"the audio is silent below {SAMPLE_RATE // 2} Hz; a mark needs sound to hide under there")
        if self._rounded < MIN_UNROUNDED_SHARE * self._intended:
            raise AudioError(f"too quiet: {mark} this audio rounds away; use wider samples or a stronger mark")
        if self._unclipped < MIN_UNCLIPPED_SHARE * self._added:
            raise AudioError(f"too loud: {mark} this audio is clipped away; make the audio quieter")
