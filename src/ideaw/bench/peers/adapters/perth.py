"""Perth (Resemble AI): tells that a mark is there, and carries no message. Its weights come with its package."""

import torch
from perth.perth_net.perth_net_implicit.perth_watermarker import PerthImplicitWatermarker

from . import Adapter, PeerResult, Samples, mono, with_mark

PERTH_THRESHOLD = 0.5
"""Score above which it is said that there is a mark: it rounds."""


class Perth(Adapter):
    """It brings audio of any rate to its own and back."""

    bits = 0

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self._system = PerthImplicitWatermarker()

    @torch.no_grad()
    def embed(self, samples: Samples, rate: int, message: str) -> Samples:
        return with_mark(samples, rate, rate, lambda host: self._system.apply_watermark(host, sample_rate=rate))

    @torch.no_grad()
    def detect(self, samples: Samples, rate: int) -> PeerResult:
        score = float(self._system.get_watermark(mono(samples, rate, rate), sample_rate=rate, round=False).mean())
        return PeerResult(score > PERTH_THRESHOLD, None, score)


adapter = Perth
