"""The invertible block and what it is made of.

    x' = x · exp(α(ψ(s))) + φ(s)        x: the host stream, s: the watermark stream
    s' = s · exp(α(ρ(x'))) + η(x')      α: a sigmoid clamped around 0

All streams are squeezed, (batch, channels, frames, bands). In the paper ψ, φ, ρ and η are dense
blocks of their own; ours lets one small net give scale and shift together, at a fraction of the cost.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ideaw.nets.config import NetConfig

START = 0.03
"""Scale of a subnet's last layer at the start: nearly nothing, but enough for a gradient."""


class ConvSubnet(nn.Module):
    """Three 3×3 convolutions with a learned offset per band: (batch, inputs, frames, bands) → (…, outputs, …)."""

    def __init__(self, inputs: int, width: int, outputs: int, bands: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(inputs, width, 3, padding=1)
        self.band = nn.Parameter(torch.zeros(width, 1, bands))
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.leave = nn.Conv2d(width, outputs, 3, padding=1)
        quiet(self.leave)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.leaky_relu(self.enter(x), 0.1)
        hidden = hidden + self.band.to(hidden.dtype)
        hidden = hidden + F.leaky_relu(self.middle(hidden), 0.1)
        return self.leave(hidden)


class DenseSubnet(nn.Module):
    """The paper's dense block: five 3×3 convolutions, each of which sees everything before it."""

    def __init__(self, inputs: int, growth: int, outputs: int, bands: int) -> None:
        super().__init__()
        widths = [growth] * 4 + [outputs]
        self.layers = nn.ModuleList(
            nn.Conv2d(inputs + i * growth, width, 3, padding=1) for i, width in enumerate(widths)
        )
        quiet(self.layers[-1])

    def forward(self, x: Tensor) -> Tensor:
        seen = [x]
        for layer in list(self.layers)[:-1]:
            seen.append(F.leaky_relu(layer(torch.cat(seen, 1)), 0.2))
        return self.layers[-1](torch.cat(seen, 1))


class Coupling(nn.Module):
    """What one stream does to the other: (batch, inputs, …) → log-scale and shift, each (batch, channels, …)."""

    def __init__(self, config: NetConfig, inputs: int, width: int) -> None:
        super().__init__()
        self.clamp = config.clamp
        make = subnet_kind(config)
        if config.subnet == "dense":
            self.nets = nn.ModuleList(make(inputs, width, config.channels, config.bands) for _ in range(2))
        else:
            self.nets = nn.ModuleList([make(inputs, width, 2 * config.channels, config.bands)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with mixed_precision(x):
            both = torch.cat([net(x) for net in self.nets], 1)
        scale, shift = both.float().chunk(2, 1)
        return self.clamp * (2 * torch.sigmoid(scale) - 1), shift


class InvertibleBlock(nn.Module):
    """One coupling of host and watermark stream, exact in both directions.

    `side` is what the nets that look at the host are told besides; it stays the same through all blocks.
    """

    def __init__(self, config: NetConfig, width: int, first: bool, side: int) -> None:
        super().__init__()
        self.to_host = Coupling(config, config.channels, width)
        self.to_mark = Coupling(config, config.channels + side, width)
        self.skip = nn.Parameter(torch.full((2,), config.skip)) if first and config.skip else None

    def forward(self, x: Tensor, s: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift = self._host_terms(s)
        x = x * scale.exp() + shift
        scale, shift = self._mark_terms(x, side)
        return x, s * scale.exp() + shift

    def find(self, x: Tensor, s: Tensor, side: Tensor) -> Tensor:
        """The first half of the inverse: the watermark stream that came in."""
        scale, shift = self._mark_terms(x, side)
        return (s - shift) * (-scale).exp()

    def clear(self, x: Tensor, s: Tensor) -> Tensor:
        """The second half: the host stream that came in, without what that watermark stream has added to it."""
        scale, shift = self._host_terms(s)
        return (x - shift) * (-scale).exp()

    def _host_terms(self, s: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift = self.to_host(s)
        return (scale, shift) if self.skip is None else (scale, shift + self.skip[0] * s)

    def _mark_terms(self, x: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift = self.to_mark(torch.cat([x, side], 1))
        return (scale, shift) if self.skip is None else (scale, shift - self.skip[1] * x)


def subnet_kind(config: NetConfig) -> type[ConvSubnet] | type[DenseSubnet]:
    return ConvSubnet if config.subnet == "conv" else DenseSubnet


def mixed_precision(x: Tensor) -> torch.autocast:
    """On a GPU the subnets compute in bfloat16; the couplings, and everything on a CPU, in float32."""
    return torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda)


def quiet(layer: nn.Module) -> None:
    """Start a last layer with next to nothing."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(START)
