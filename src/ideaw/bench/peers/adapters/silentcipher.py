"""SilentCipher (Sony), its model for 44.1 kHz: forty bits."""

from argparse import Namespace
from pathlib import Path

import torch
from silentcipher import server

from . import Adapter, PeerResult, Samples, mono, with_mark

SILENTCIPHER_RATE_HZ = 44_100

PUBLISHED_CONFIG = {
    "model_type": "44.1k",
    "SR": SILENTCIPHER_RATE_HZ,
    "N_FFT": 4096,
    "HOP_LENGTH": 2048,
    "message_band_size": 1024,
    "message_dim": 5,
    "message_len": 21,
    "message_sdr": 47,
    "n_messages": 1,
    "enc_n_layers": 3,
    "dec_c_n_layers": 4,
    "ensure_negative_message": True,
    "ensure_constrained_message": False,
    "frame_level_normalization": False,
    "utterance_level_normalization": True,
    "no_normalization": False,
    "load_ckpt": "",
}
"""What the published model's hparams.yaml says, for one with random weights."""


class RandomModel(server.Model):  # type: ignore[misc]  # its package is not installed here
    """A model whose weights stay random."""

    def load_models(self, ckpt_dir: str) -> None:
        pass


class SilentCipher(Adapter):
    """Its own functions on mono audio."""

    bits = 40

    def __init__(self, threads: int, weights: str | None = None) -> None:
        torch.set_num_threads(threads)
        self.weights = weights is not None
        if weights is None:
            self._model = RandomModel(Namespace(**PUBLISHED_CONFIG))
        else:
            self._model = server.get_model("44.1k", weights, str(Path(weights) / "hparams.yaml"))
        for part in (self._model.enc_c, self._model.dec_c, *self._model.dec_m):
            part.eval()

    def embed(self, samples: Samples, rate: int, message: str) -> Samples:
        letters = [int(message[k : k + 8], 2) for k in range(0, len(message), 8)]
        return with_mark(
            samples,
            rate,
            SILENTCIPHER_RATE_HZ,
            lambda host: self._model.encode_wav(host, SILENTCIPHER_RATE_HZ, letters, calc_sdr=False)[0],
        )

    def detect(self, samples: Samples, rate: int) -> PeerResult:
        decoded = self._model.decode_wav(
            mono(samples, rate, SILENTCIPHER_RATE_HZ), SILENTCIPHER_RATE_HZ, phase_shift_decoding=False
        )
        if not decoded["status"]:
            return PeerResult(False, None, 0.0)
        bits = "".join(f"{letter:08b}" for letter in decoded["messages"][0])
        return PeerResult(True, bits, float(decoded["confidences"][0]))


adapter = SilentCipher
