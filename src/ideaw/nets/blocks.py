"""The invertible block (affine coupling of two streams) and the subnets that it is made of.

    x' = x · exp(α(ψ(s))) + φ(s)        x: the host stream, s: the watermark stream
    s' = s · exp(α(ρ(x'))) + η(x')      α: a sigmoid clamped around 0

All streams are squeezed, (batch, channels, frames, bands). In the paper ψ, φ, ρ and η are dense blocks of their own;
here one small net gives scale and shift together, at a fraction of the cost.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ideaw.nets.config import NetConfig

LAST_LAYER_INIT_GAIN = 0.03
"""Factor on the initial weights of a subnet's last layer: a block starts near the identity, yet has a gradient."""


class ConvSubnet(nn.Module):
    """Three 3×3 convolutions with a learned offset per band.

    Args:
        inputs: Channels in.
        width: Hidden channels.
        outputs: Channels out.
        bands: Bands of the squeezed spectrum.
    """

    def __init__(self, inputs: int, width: int, outputs: int, bands: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(inputs, width, 3, padding=1)
        self.band = nn.Parameter(torch.zeros(width, 1, bands))
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.leave = nn.Conv2d(width, outputs, 3, padding=1)
        shrink_init(self.leave)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, frames, bands) → (batch, outputs, frames, bands)."""
        hidden = F.leaky_relu(self.enter(x), 0.1)
        hidden = hidden + self.band.to(hidden.dtype)
        hidden = hidden + F.leaky_relu(self.middle(hidden), 0.1)
        out: Tensor = self.leave(hidden)
        return out


class DenseSubnet(nn.Module):
    """The paper's dense block: five 3×3 convolutions, each of which sees everything before it.

    Args:
        inputs: Channels in.
        growth: Channels that each of the first four layers adds.
        outputs: Channels out.
        bands: Unused; it makes the two subnets interchangeable.
    """

    def __init__(self, inputs: int, growth: int, outputs: int, bands: int) -> None:
        super().__init__()
        widths = [growth] * 4 + [outputs]
        self.layers = nn.ModuleList(
            nn.Conv2d(inputs + i * growth, width, 3, padding=1) for i, width in enumerate(widths)
        )
        shrink_init(self.layers[-1])

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, frames, bands) → (batch, outputs, frames, bands)."""
        features = [x]
        for layer in list(self.layers)[:-1]:
            features.append(F.leaky_relu(layer(torch.cat(features, 1)), 0.2))
        out: Tensor = self.layers[-1](torch.cat(features, 1))
        return out


class Coupling(nn.Module):
    """Log-scale and shift that one stream imposes on the other.

    Args:
        config: Kind of subnet, clamp, channels and bands.
        inputs: Channels of the stream that acts (with its conditioning).
        width: Hidden channels of the subnet.
    """

    def __init__(self, config: NetConfig, inputs: int, width: int) -> None:
        super().__init__()
        self.clamp = config.clamp
        subnet = subnet_class(config)
        if config.subnet == "dense":
            self.nets = nn.ModuleList(subnet(inputs, width, config.channels, config.bands) for _ in range(2))
        else:
            self.nets = nn.ModuleList([subnet(inputs, width, 2 * config.channels, config.bands)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, inputs, frames, bands) → log-scale and shift, each (batch, channels, frames, bands)."""
        with mixed_precision(x):
            outputs = torch.cat([net(x) for net in self.nets], 1)
        scale, shift = outputs.float().chunk(2, 1)
        return self.clamp * (2 * torch.sigmoid(scale) - 1), shift


class InvertibleBlock(nn.Module):
    """One coupling of host and watermark stream, exact in both directions.

    Args:
        config: Sizes of the streams.
        width: Hidden channels of the subnets.
        first: Whether it is the first block of its stage, the one with the learned shortcut.
        condition_channels: Channels of the conditioning that the nets which see the host get; it stays the same
            through all blocks.
    """

    def __init__(self, config: NetConfig, width: int, first: bool, condition_channels: int) -> None:
        super().__init__()
        self.to_host = Coupling(config, config.channels, width)
        self.to_mark = Coupling(config, config.channels + condition_channels, width)
        self.skip = nn.Parameter(torch.full((2,), config.skip)) if first and config.skip else None

    def forward(self, x: Tensor, s: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """Host and watermark stream in, both out: (batch, channels, frames, bands) each."""
        scale, shift = self._host_terms(s)
        x = x * scale.exp() + shift
        scale, shift = self._mark_terms(x, condition)
        return x, s * scale.exp() + shift

    def invert_mark(self, x: Tensor, s: Tensor, condition: Tensor) -> Tensor:
        """The first half of the inverse: the watermark stream that came in."""
        scale, shift = self._mark_terms(x, condition)
        return (s - shift) * (-scale).exp()

    def invert_host(self, x: Tensor, s: Tensor) -> Tensor:
        """The second half: the host stream that came in, given the watermark stream that came in."""
        scale, shift = self._host_terms(s)
        return (x - shift) * (-scale).exp()

    def _host_terms(self, s: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift = self.to_host(s)
        return (scale, shift) if self.skip is None else (scale, shift + self.skip[0] * s)

    def _mark_terms(self, x: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift = self.to_mark(torch.cat([x, condition], 1))
        return (scale, shift) if self.skip is None else (scale, shift - self.skip[1] * x)


def subnet_class(config: NetConfig) -> type[ConvSubnet] | type[DenseSubnet]:
    """The subnet of a configuration."""
    return ConvSubnet if config.subnet == "conv" else DenseSubnet


def mixed_precision(x: Tensor) -> torch.autocast:
    """On a GPU the subnets compute in bfloat16; the couplings, and everything on a CPU, in float32."""
    return torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda)


def shrink_init(layer: nn.Module) -> None:
    """Scale a last layer's initial weights by LAST_LAYER_INIT_GAIN."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(LAST_LAYER_INIT_GAIN)
