"""WavMark (Microsoft): sixteen bits after a pattern of sixteen, looked for window by window."""

import numpy as np
import torch
import wavmark
from wavmark.models import my_model

from . import Adapter, Found, Samples, mono, with_mark

RATE = 16_000

WINDOWS = 10
"""Of its decoder that are timed, its batch; it looks at twice as many in every second."""

CHUNKS, CHUNK = 2, round(1.1 * RATE)
"""Of its encoder that are timed, and samples of one."""


class WavMark(Adapter):
    """Its own functions. With random weights any SNR is taken, as its encoder leaves out what is too loud."""

    bits = 16

    def __init__(self, threads: int, weights: str | None = None) -> None:
        torch.set_num_threads(threads)
        self.weights = weights is not None
        self._limits = {} if weights else {"min_snr": -1000, "max_snr": 1000}
        random = my_model.Model(RATE, num_bit=32, n_fft=1000, hop_length=400, num_layers=8).eval
        self._model = wavmark.load_model(weights) if weights else random()

    def embed(self, samples: Samples, rate: int, message: str) -> Samples:
        payload = np.array([int(bit) for bit in message])

        def mark(host: Samples) -> Samples:
            return wavmark.encode_watermark(self._model, host, payload, **self._limits)[0]

        return with_mark(samples, rate, RATE, mark)

    def detect(self, samples: Samples, rate: int) -> Found:
        heard, _ = wavmark.decode_watermark(self._model, mono(samples, rate, RATE))
        if heard is None:
            return Found(False, None, 0.0)
        return Found(True, "".join(str(int(bit)) for bit in heard), 1.0)

    def part(self, task: str, samples: Samples, rate: int) -> tuple[Samples, float]:
        if task == "embed":
            length = round(CHUNKS * CHUNK / RATE * rate)
            return samples[:length], len(samples) / length
        step = rate // 20
        return samples[: rate + WINDOWS * step], (len(samples) - rate) // step / WINDOWS


adapter = WavMark
