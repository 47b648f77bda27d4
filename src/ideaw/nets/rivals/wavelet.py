"""A rival of the paper's, in the manner of DeAR and built here from its idea: an encoder adds a residual to the
approximation of a wavelet transform, its lower half of the band, and a decoder reads bits from that of what arrives.

Both are stacks of convolutions over coefficients. As in the shipped network, carriers are the linear maps from bits to
a stream and back, and the SNR is fixed by construction; unlike there nothing is invertible, and there is one stage.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ideaw.audio.grid import FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.nets.blocks import mixed_precision, shrink_init
from ideaw.nets.carriers import Carriers
from ideaw.nets.config import NetConfig
from ideaw.nets.level import level, scale_to_snr

DB4_LOWPASS = (
    *(0.23037781330885523, 0.7148465705525415, 0.6308807679295904, -0.02798376941698385),
    *(-0.18703481171888114, 0.030841381835986965, 0.032883011666982945, -0.010597401784997278),
)
"""Scaling filter of Daubechies' wavelet with four vanishing moments."""

NUM_COEFFICIENTS = SEGMENT_SAMPLES // 2
"""Coefficients in the approximation of a segment."""

KERNEL_TAPS = 15
"""Width of a convolution, in coefficients."""

INIT_WAVELET_LLR_SCALE = 0.02
"""LLR per unit of the extracted stream, before training."""


class ConvStack(nn.Module):
    """Residual 1-D convolutions, nearly silent at the start.

    Args:
        inputs: Channels in.
        width: Hidden channels.
        layers: Number of convolutions, 2 or more.
    """

    def __init__(self, inputs: int, width: int, layers: int) -> None:
        super().__init__()
        self.enter = nn.Conv1d(inputs, width, KERNEL_TAPS, padding=KERNEL_TAPS // 2)
        self.middle = nn.ModuleList(
            nn.Conv1d(width, width, KERNEL_TAPS, padding=KERNEL_TAPS // 2) for _ in range(layers - 2)
        )
        self.leave = nn.Conv1d(width, 1, KERNEL_TAPS, padding=KERNEL_TAPS // 2)
        shrink_init(self.leave)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, coefficients) → (batch, coefficients)."""
        with mixed_precision(x):
            hidden = F.leaky_relu(self.enter(x), 0.1)
            for layer in self.middle:
                hidden = hidden + F.leaky_relu(layer(hidden), 0.1)
            out: Tensor = self.leave(hidden)
            return out[:, 0].float()


class WaveletNet(nn.Module):
    """The rival of one configuration, with the segment functions of `Ideaw`. It has no locating code.

    Args:
        config: Bits, slots, blocks (as layers) and width of the message.
    """

    stream_width = NUM_COEFFICIENTS // FRAMES_PER_SECOND
    """Numbers in a stream for every frame."""

    lowpass: Tensor

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = ConvStack(2, config.message_width, config.message_blocks)
        self.decoder = ConvStack(1, config.message_width, config.message_blocks)
        self.llr_scale = nn.Parameter(torch.tensor(INIT_WAVELET_LLR_SCALE))
        generator = torch.Generator().manual_seed(1)
        shape = config.message_slots, FRAMES_PER_SECOND, self.stream_width
        noise = torch.randn(shape, generator=generator) / config.message_slots**0.5
        self.write = nn.Parameter(noise)
        self.read = nn.Parameter(noise.clone())
        self.register_buffer("lowpass", torch.tensor(DB4_LOWPASS)[None, None], persistent=False)

    def carriers(self, key_label: str = "training") -> tuple[Carriers, Carriers]:
        """Carriers of the message, the same for every key, and none of a locating code."""
        return Carriers(self.write, self.read), Carriers(self.write[:0], self.read[:0])

    # On segments of level 1 and streams (batch, FRAMES_PER_SECOND, stream_width): what is exported.

    def mark(self, host: Tensor, message: Tensor) -> Tensor:
        """The residual (batch, SEGMENT_SAMPLES) that marks a host.

        Args:
            host: (batch, SEGMENT_SAMPLES) of level 1.
            message: (batch, FRAMES_PER_SECOND, stream_width) watermark stream.
        """
        stream = message.flatten(1)
        residual = stream + self.encoder(torch.stack([self._approximation(host), stream], 1))
        return F.conv_transpose1d(residual[:, None], self.lowpass, stride=2, padding=self._padding)[:, 0]

    def listen(self, received: Tensor) -> Tensor:
        """(batch, SEGMENT_SAMPLES) of level 1 → the message's stream (batch, FRAMES_PER_SECOND, stream_width)."""
        approximation = self._approximation(received)
        stream: Tensor = approximation + self.decoder(approximation[:, None])
        return self.llr_scale * torch.unflatten(stream, 1, (FRAMES_PER_SECOND, self.stream_width))

    # The functions of `Ideaw` that training needs, with the same arguments.

    def embed(
        self,
        audio: Tensor,
        message: Tensor,
        code: Tensor | None,
        snr: Tensor | float | None,
        carriers: tuple[Carriers, Carriers],
        phase: Tensor | None = None,
    ) -> Tensor:
        """Marked segments (batch, SEGMENT_SAMPLES), the mark `snr` dB below (None: as the network leaves it)."""
        rms = level(audio)
        residual = self.mark(audio / rms, carriers[0].stream(message, phase)) * rms
        return audio + (residual if snr is None else scale_to_snr(residual, audio, snr))

    def extract(
        self,
        audio: Tensor,
        carriers: tuple[Carriers, Carriers],
        phase: Tensor | None = None,
        balanced: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """LLRs (batch, slots) of the message, positive for +1, and none of a locating code."""
        stream = self.listen(audio / level(audio))
        return carriers[0].slot_llrs(stream, phase), carriers[1].slot_llrs(stream, phase)

    @property
    def _padding(self) -> int:
        return len(DB4_LOWPASS) // 2 - 1

    def _approximation(self, audio: Tensor) -> Tensor:
        """(batch, SEGMENT_SAMPLES) → (batch, NUM_COEFFICIENTS)."""
        return F.conv1d(audio[:, None], self.lowpass, stride=2, padding=self._padding)[:, 0]
