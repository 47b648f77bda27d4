"""A file of a catalogue searched: what `detect` does, for a path, with what it took."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.read import open_audio, read_blocks
from ideaw.audio.samples import check_source
from ideaw.catalogue.rows import Cost, Listened
from ideaw.catalogue.settings import ScanOptions
from ideaw.detector import Detector
from ideaw.engine.network import Network
from ideaw.engine.search import KeepEvidence
from ideaw.keys import Key
from ideaw.listening import Listening
from ideaw.results import Detection


@dataclass
class FileSearcher:
    """Searches files for the marks of some keys.

    Args:
        network: the model; on one thread, p-values repeat.
        keys: whose marks are looked for.
        options: how much is heard, which speeds are tried, what is too long.
    """

    network: Network
    keys: Sequence[Key]
    options: ScanOptions
    _detector: Detector = field(init=False)

    def __post_init__(self) -> None:
        self._detector = Detector(self.network, self.keys, self.options.speeds)

    def search(self, path: Path, keep_evidence: KeepEvidence | None = None) -> tuple[Detection, Cost]:
        """The answer for a local file, and what it took.

        Raises:
            IdeawError: the file cannot be read or searched; see `Marker.detect_file`.
        """
        began = time.process_time()
        with open_audio(path) as recording:
            rate, channels, length = recording.rate, recording.channels, recording.num_samples
        check_source(rate, channels, length, self.options.longest)
        counter = _SampleCounter(path, self.options.longest)
        listening = Listening(self.options.until_sure and keep_evidence is None, self.options.probes)
        detection = self._detector.detect(counter.open, rate, channels, length, None, listening, keep_evidence)
        seconds = (
            counter.length / rate if detection.heard_seconds is None else None if length is None else length / rate
        )
        listened: Listened = "whole"
        if detection.heard_seconds is not None:
            listened = "probe" if listening.suited_to(seconds).probes else "until sure"
        heard = seconds if detection.heard_seconds is None else detection.heard_seconds
        return detection, Cost(seconds, heard or 0.0, listened, time.process_time() - began)


@dataclass
class _SampleCounter:
    """Opens a file again and again, and tells how long it turned out to be."""

    path: Path
    longest: float | None
    length: int = 0

    def open(self) -> Iterator[NDArray[np.float64]]:
        length = 0
        for block in read_blocks(self.path, self.longest):
            length += len(block)
            self.length = max(self.length, length)
            yield block
