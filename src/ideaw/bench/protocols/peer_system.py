"""A peer as a system under test: the same clips, attacks and rows as for the models of ideaw.

Clips stay at the preset's rate and channels and go to the peer as float WAV files. Its adapter mixes and resamples them
as the system needs it, and adds only what the mark changes to the clip; attacks are made here. A peer has neither keys
nor p-values: its confidence is a score, whose threshold is set on unmarked audio under the same attacks.
"""

import dataclasses
import math
import tempfile
from pathlib import Path

import numpy as np
import soundfile

from ideaw.bench.corpus import Samples
from ideaw.bench.peers.peer import Peer, version
from ideaw.bench.peers.systems import SYSTEMS
from ideaw.bench.protocols.system import NO_MARK, Bits, SearchResult, Settings, WatermarkSystem
from ideaw.errors import AudioError, FileError, IdeawError, PeerError
from ideaw.keys import Key

FAILED_SEARCH = dataclasses.replace(NO_MARK, failed=True)
"""A search that broke down or took too long: nothing is found, and it is counted apart."""


class PeerSystem(WatermarkSystem):
    """One of `SYSTEMS` in a process of its own, on one thread."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        assert settings.peer is not None
        _check(settings.peer, settings.weights)
        self._peer = Peer(settings.peer, settings.weights)
        self.bits = self.carried = self._peer.bits
        self.title = f"{self._peer.title} {version(settings.peer)}"

    def configuration(self) -> dict[str, str | float | None]:
        weights = None if self.settings.weights is None else str(self.settings.weights.resolve())
        return {"system": self.title, "weights": weights}

    def mark(self, host: Samples, message: Bits, key: Key | None = None) -> Samples:
        assert key is None
        with tempfile.TemporaryDirectory() as folder:
            plain, target = Path(folder) / "host.wav", Path(folder) / "marked.wav"
            soundfile.write(plain, host, self.rate, "FLOAT")
            try:
                self._peer.embed(plain, target, message)
            except PeerError as problem:
                raise AudioError(str(problem)) from problem
            marked: Samples = soundfile.read(target, dtype="float32", always_2d=True)[0]
        if marked.shape != host.shape or not np.isfinite(marked).all():
            raise AudioError(f"{self._peer.title}: what it marked is not finite, or of another length")
        return marked

    def search(self, audio: Samples, key: Key | None = None) -> SearchResult:
        assert key is None
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "audio.wav"
            soundfile.write(file, audio, self.rate, "FLOAT")
            try:
                detection = self._peer.detect(file)
            except PeerError:
                return FAILED_SEARCH
        if not math.isfinite(detection.score):
            return FAILED_SEARCH
        message = detection.bits or () if detection.mark else None
        return SearchResult(detection.mark, message, detection.bits or (), 1 - detection.score)

    def close(self) -> None:
        super().close()
        self._peer.close()


def _check(name: str, weights: Path | None) -> None:
    """Whether there is such a peer, and its weights are where they have to be."""
    if name not in SYSTEMS:
        raise IdeawError(f'there is no peer "{name}"; there are: {", ".join(SYSTEMS)}')
    system = SYSTEMS[name]
    if weights is None and system.weights is not None:
        raise PeerError(f"{system.title}: its weights do not come with its package; give {system.weights}")
    if weights is not None and system.weights is None:
        raise PeerError(f"{system.title}: its weights come with it; give none")
    if weights is not None and not weights.exists():
        raise FileError(f"{weights} does not exist; the weights of {system.title} are {system.weights}")
