"""At what speed audio was played: a few loud seconds are listened to at many speeds, each a cheap pass of stage 2."""

from collections.abc import Sequence

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import RATE
from ideaw.audio.rates import QUALITY
from ideaw.engine import scan
from ideaw.engine.network import Network
from ideaw.engine.search import Heard

SECONDS = 3
"""That are listened to."""

STEP = 1.02
"""From one speed to the next: the code is found up to 1 % beside the true one."""

NEAR = tuple(STEP**k for k in (-3, -2, -1, 1, 2, 3))
"""What is tried when nothing was found: 6 % to both sides."""

ALL = tuple(STEP**k for k in range(-11, 12) if k)
"""0.8 to 1.25."""

CLOSER = (0.99, 0.995, 1.005, 1.01)
"""What is tried around the best of them."""


class Loudest:
    """The loudest seconds of 16 kHz audio that arrives in blocks."""

    def __init__(self) -> None:
        self.samples = np.empty(0, np.float32)
        self._waiting = np.empty(0, np.float32)
        self._energy = -1.0

    def push(self, audio: NDArray[np.float32]) -> None:
        """Go on with `(n,)` samples."""
        self._waiting = np.concatenate([self._waiting, audio])
        length = SECONDS * RATE
        if len(self._waiting) < length:
            if self._energy < 0:
                self.samples = self._waiting
            return
        power = np.concatenate([[0.0], np.cumsum(np.square(self._waiting, dtype=np.float64))])
        starts = np.arange(0, len(self._waiting) - length + 1, RATE // 4)
        energies = power[starts + length] - power[starts]
        best = int(energies.argmax())
        if energies[best] > self._energy:
            self._energy = float(energies[best])
            self.samples = self._waiting[starts[best] : starts[best] + length].copy()
        self._waiting = self._waiting[int(starts[-1]) :].copy()


def best_speed(
    owners: Sequence[Network], codes: Sequence[NDArray[np.integer]], audio: NDArray[np.float32], speeds: Sequence[float]
) -> tuple[float, float]:
    """The speed at which some `(n,)` of 16 kHz audio was played, as far as a code tells it, and that one's `log_p`."""
    patterns = [owner.code.values(code) for owner, code in zip(owners, codes, strict=True)]

    def log_p(speed: float) -> float:
        heard = Heard(owners[0], soxr.resample(audio, RATE / speed, RATE, quality=QUALITY))
        tracks = [
            track
            for owner, slots in zip(owners, patterns, strict=True)
            for track in scan.tracks(heard.code, owner.code.carriers, slots)
        ]
        return min((track.log_p for track in tracks), default=0.0)

    found = {speed: log_p(speed) for speed in speeds}
    about = min(found, key=found.__getitem__)
    if found[about] < 0:
        found |= {about * factor: log_p(about * factor) for factor in CLOSER}
    best = min(found, key=found.__getitem__)
    return best, found[best]
