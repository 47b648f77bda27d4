"""AudioSeal (Meta): sixteen bits, given always, and the share of the audio in which a mark is heard."""

from pathlib import Path
from typing import Any

import torch
from audioseal.builder import AudioSealDetectorConfig, AudioSealWMConfig, create_detector, create_generator
from audioseal.loader import AudioSeal, load_local_model_config
from omegaconf import OmegaConf

from . import Adapter, PeerResult, Samples, mono, with_mark

AUDIOSEAL_RATE_HZ = 16_000

AUDIOSEAL_THRESHOLD = 0.5
"""Score above which it is said that there is a mark, as in its examples."""


class Seal(Adapter):
    """Generator and detector, of sixteen bits."""

    bits = 16

    def __init__(self, threads: int, weights: str | None = None) -> None:
        torch.set_num_threads(threads)
        self.weights = weights is not None
        if weights is not None:
            generator, detector = (str(Path(weights) / f"{part}_base.pth") for part in ("generator", "detector"))
            self._generator = AudioSeal.load_generator(generator, nbits=self.bits).eval()
            self._detector = AudioSeal.load_detector(detector, nbits=self.bits).eval()
        else:
            self._generator = create_generator(_config("audioseal_wm_16bits", AudioSealWMConfig)).eval()
            self._detector = create_detector(_config("audioseal_detector_16bits", AudioSealDetectorConfig)).eval()

    @torch.no_grad()
    def embed(self, samples: Samples, rate: int, message: str) -> Samples:
        bits = torch.tensor([[int(bit) for bit in message]])

        def mark(host: Samples) -> Samples:
            audio = torch.from_numpy(host)[None, None]
            marked: Samples = (audio + self._generator.get_watermark(audio, message=bits))[0, 0].numpy()
            return marked

        return with_mark(samples, rate, AUDIOSEAL_RATE_HZ, mark)

    @torch.no_grad()
    def detect(self, samples: Samples, rate: int) -> PeerResult:
        score, bits = self._detector.detect_watermark(
            torch.from_numpy(mono(samples, rate, AUDIOSEAL_RATE_HZ))[None, None]
        )
        return PeerResult(float(score) > AUDIOSEAL_THRESHOLD, "".join(str(int(bit)) for bit in bits[0]), float(score))


def _config(card: str, kind: type) -> Any:
    return AudioSeal.parse_config(OmegaConf.to_container(load_local_model_config(card)), kind)


adapter = Seal
