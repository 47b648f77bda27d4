"""A rival of the paper's, in the manner of DeAR and built here from its idea: an encoder adds a residual to the
approximation of a wavelet transform, its lower half of the band, and a decoder reads bits from that of what arrives.

Both are stacks of convolutions over coefficients. As in our own network, carriers are the linear maps from bits to a
stream and back, and the level is fixed by construction; unlike there nothing is invertible, and there is one stage.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ideaw.audio.grid import FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.nets.blocks import mixed_precision, quiet
from ideaw.nets.carriers import Carriers
from ideaw.nets.config import NetConfig
from ideaw.nets.model import limit
from ideaw.nets.spectrum import level

LOWPASS = (
    *(0.23037781330885523, 0.7148465705525415, 0.6308807679295904, -0.02798376941698385),
    *(-0.18703481171888114, 0.030841381835986965, 0.032883011666982945, -0.010597401784997278),
)
"""Daubechies' wavelet with four vanishing moments: the filter of its approximations."""

COEFFICIENTS = SEGMENT_SAMPLES // 2
"""Of the approximation of a segment."""

TAPS = 15
"""Coefficients that a convolution sees."""


class ConvStack(nn.Module):
    """(batch, inputs, coefficients) → (batch, coefficients), by `layers` convolutions; little at the start."""

    def __init__(self, inputs: int, width: int, layers: int) -> None:
        super().__init__()
        self.enter = nn.Conv1d(inputs, width, TAPS, padding=TAPS // 2)
        self.middle = nn.ModuleList(nn.Conv1d(width, width, TAPS, padding=TAPS // 2) for _ in range(layers - 2))
        self.leave = nn.Conv1d(width, 1, TAPS, padding=TAPS // 2)
        quiet(self.leave)

    def forward(self, x: Tensor) -> Tensor:
        with mixed_precision(x):
            hidden = F.leaky_relu(self.enter(x), 0.1)
            for layer in self.middle:
                hidden = hidden + F.leaky_relu(layer(hidden), 0.1)
            return self.leave(hidden)[:, 0].float()


class Wavelet(nn.Module):
    """The rival of one configuration, with the functions on segments of `Ideaw`. It has no code."""

    width = COEFFICIENTS // FRAMES_PER_SECOND
    """Numbers in a stream for every frame."""

    lowpass: Tensor

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = ConvStack(2, config.message_width, config.message_blocks)
        self.decoder = ConvStack(1, config.message_width, config.message_blocks)
        self.sharpness = nn.Parameter(torch.tensor(0.02))
        start = torch.Generator().manual_seed(1)
        noise = (
            torch.randn(config.message_slots, FRAMES_PER_SECOND, self.width, generator=start)
            / config.message_slots**0.5
        )
        self.write = nn.Parameter(noise)
        self.read = nn.Parameter(noise.clone())
        self.register_buffer("lowpass", torch.tensor(LOWPASS)[None, None], persistent=False)

    def carriers(self, owner: str = "training") -> tuple[Carriers, Carriers]:
        """Those of the message, which no owner has for himself, and none for a code."""
        return Carriers(self.write, self.read), Carriers(self.write[:0], self.read[:0])

    # On segments (batch, SEGMENT_SAMPLES) of level 1 and streams (batch, FRAMES_PER_SECOND, width): what is exported.

    def mark(self, host: Tensor, message: Tensor) -> Tensor:
        """Host and the stream of the message → the residual that marks the host."""
        stream = message.flatten(1)
        residual = stream + self.encoder(torch.stack([self._approximation(host), stream], 1))
        return F.conv_transpose1d(residual[:, None], self.lowpass, stride=2, padding=self._edge)[:, 0]

    def listen(self, received: Tensor) -> Tensor:
        """What was received → the message's stream."""
        heard = self._approximation(received)
        stream = heard + self.decoder(heard[:, None])
        return self.sharpness * stream.unflatten(1, (FRAMES_PER_SECOND, self.width))

    # The functions of `Ideaw` that training needs.

    def embed(
        self,
        audio: Tensor,
        message: Tensor,
        code: Tensor | None,
        snr: Tensor | float | None,
        carriers: tuple[Carriers, Carriers],
        phase: Tensor | None = None,
    ) -> Tensor:
        """Audio with the mark in it, exactly `snr` dB below it (None: as the network leaves it)."""
        loudness = level(audio)
        residual = self.mark(audio / loudness, carriers[0].stream(message, phase)) * loudness
        return audio + (residual if snr is None else limit(residual, audio, snr))

    def extract(
        self,
        audio: Tensor,
        carriers: tuple[Carriers, Carriers],
        phase: Tensor | None = None,
        balanced: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Logits of the slots of the message, positive for 1, and none of a code."""
        stream = self.listen(audio / level(audio))
        return carriers[0].logits(stream, phase), carriers[1].logits(stream, phase)

    @property
    def _edge(self) -> int:
        return len(LOWPASS) // 2 - 1

    def _approximation(self, audio: Tensor) -> Tensor:
        """(batch, SEGMENT_SAMPLES) → (batch, COEFFICIENTS)."""
        return F.conv1d(audio[:, None], self.lowpass, stride=2, padding=self._edge)[:, 0]
