"""Which network a configuration describes: ours (and the paper's), or the rival on wavelets."""

from ideaw.nets.config import NetConfig
from ideaw.nets.model import Ideaw
from ideaw.nets.wavelet import Wavelet

AnyNet = Ideaw | Wavelet


def make(config: NetConfig) -> AnyNet:
    """The network of a configuration, untrained."""
    return Wavelet(config) if config.domain == "wavelet" else Ideaw(config)
