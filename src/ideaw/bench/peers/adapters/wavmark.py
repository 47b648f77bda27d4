"""WavMark (Microsoft): sixteen bits after a pattern of sixteen, looked for window by window."""

import numpy as np
import torch
import wavmark
from wavmark.models import my_model

from . import Adapter, PeerResult, Samples, mono, with_mark

WAVMARK_RATE_HZ = 16_000

TIMED_WINDOWS = 10
"""Windows of its decoder that are timed: one batch; a second of audio has twice as many."""

TIMED_CHUNKS, CHUNK_SAMPLES = 2, round(1.1 * WAVMARK_RATE_HZ)
"""Chunks of its encoder that are timed, and the samples of one."""


class WavMark(Adapter):
    """Its own functions. With random weights any SNR is taken, as its encoder leaves out what is too loud."""

    bits = 16

    def __init__(self, threads: int, weights: str | None = None) -> None:
        torch.set_num_threads(threads)
        self.weights = weights is not None
        self._limits = {} if weights else {"min_snr": -1000, "max_snr": 1000}
        random = my_model.Model(WAVMARK_RATE_HZ, num_bit=32, n_fft=1000, hop_length=400, num_layers=8).eval
        self._model = wavmark.load_model(weights) if weights else random()

    def embed(self, samples: Samples, rate: int, message: str) -> Samples:
        payload = np.array([int(bit) for bit in message])

        def mark(host: Samples) -> Samples:
            marked: Samples = wavmark.encode_watermark(self._model, host, payload, **self._limits)[0]
            return marked

        return with_mark(samples, rate, WAVMARK_RATE_HZ, mark)

    def detect(self, samples: Samples, rate: int) -> PeerResult:
        bits, _ = wavmark.decode_watermark(self._model, mono(samples, rate, WAVMARK_RATE_HZ))
        if bits is None:
            return PeerResult(False, None, 0.0)
        return PeerResult(True, "".join(str(int(bit)) for bit in bits), 1.0)

    def part(self, task: str, samples: Samples, rate: int) -> tuple[Samples, float]:
        if task == "embed":
            length = round(TIMED_CHUNKS * CHUNK_SAMPLES / WAVMARK_RATE_HZ * rate)
            return samples[:length], len(samples) / length
        step = rate // 20
        return samples[: rate + TIMED_WINDOWS * step], (len(samples) - rate) // step / TIMED_WINDOWS


adapter = WavMark
