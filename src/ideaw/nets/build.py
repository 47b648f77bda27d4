"""Builds the network that a configuration describes: the shipped one, or a rival."""

from ideaw.nets.config import NetConfig
from ideaw.nets.model import Ideaw
from ideaw.nets.rivals.learned_carriers import LearnedCarrierNet
from ideaw.nets.rivals.wavelet import WaveletNet

AnyNet = Ideaw | WaveletNet


def build_network(config: NetConfig) -> AnyNet:
    """The network of a configuration, untrained."""
    return WaveletNet(config) if config.domain == "wavelet" else build_dual_stage(config)


def build_dual_stage(config: NetConfig) -> Ideaw:
    """The dual-stage network of a configuration, untrained."""
    return LearnedCarrierNet(config) if config.carriers == "learned" else Ideaw(config)
