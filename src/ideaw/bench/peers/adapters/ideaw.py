"""ideaw itself, timed beside the others, and as a peer that is always installed."""

import ideaw
from ideaw.payload.message import layout

from . import Adapter, PeerResult, Samples


class Ideaw(Adapter):
    """The default model, with as many bits as fit into every second."""

    def __init__(self, threads: int) -> None:
        self._marker = ideaw.load(threads=threads)
        self.bits = layout(self._marker.message_bits).content_bits

    def embed(self, samples: Samples, rate: int, message: str) -> Samples:
        return self._marker.embed(samples, rate, tuple(map(int, message)), layers="fast")

    def detect(self, samples: Samples, rate: int) -> PeerResult:
        return _found(self._marker.detect(samples, rate, layers="fast"))

    def detect_at_its_speed(self, samples: Samples, rate: int) -> PeerResult:
        """Detect at the audio's own speed alone."""
        return _found(self._marker.detect(samples, rate, speeds="none", layers="fast"))


def _found(answer: ideaw.Detection) -> PeerResult:
    bits = "".join(map(str, answer.message)) if isinstance(answer.message, tuple) else None
    return PeerResult(answer.found, bits, 1 - answer.p_value)


adapter = Ideaw
