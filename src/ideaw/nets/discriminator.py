"""The discriminator: tells marked audio from host audio, so that the embedder learns to fool it."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from ideaw.nets.spectrum import level, stft


class Discriminator(nn.Module):
    """(batch, SEGMENT) audio → logit (batch,), positive for marked (the paper's label 1)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        widths = [2, width, 2 * width, 4 * width, 4 * width]
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1), nn.LeakyReLU(0.2)) for a, b in pairwise(widths))
        )
        self.decide = nn.Linear(4 * width, 1)

    def forward(self, audio: Tensor) -> Tensor:
        spectrum = stft(audio / level(audio))
        seen = torch.stack([spectrum.real, spectrum.imag], 1)
        return self.decide(self.layers(seen).mean((2, 3)))[:, 0]
