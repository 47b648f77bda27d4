"""The discriminator: tells marked audio from host audio, so that the embedder learns to fool it."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from ideaw.nets.level import level
from ideaw.nets.stft import stft


class Discriminator(nn.Module):
    """A convolutional classifier of spectra.

    Args:
        width: Channels of the first layer; the last has four times as many.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        widths = [2, width, 2 * width, 4 * width, 4 * width]
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1), nn.LeakyReLU(0.2)) for a, b in pairwise(widths))
        )
        self.decide = nn.Linear(4 * width, 1)

    def forward(self, audio: Tensor) -> Tensor:
        """(batch, SEGMENT_SAMPLES) audio → logit (batch,), positive for marked (the paper's label 1)."""
        spectrum = stft(audio / level(audio))
        components = torch.stack([spectrum.real, spectrum.imag], 1)
        logits: Tensor = self.decide(self.layers(components).mean((2, 3)))
        return logits[:, 0]
