"""The losses of the paper, and ours. Bits are −1 and +1; logits are positive for 1."""

import torch
import torch.nn.functional as F
from torch import Tensor

BORDER, AROUND = 0.55, 0.15
"""Loss of a segment whose 98 slots can just be decoded, and how far around it a segment is about to be lost or won:
codes of 46 and of 22 bits fail from about 0.5 and 0.6 on."""


def integrity(logits: Tensor, bits: Tensor, kind: str, focus: float = 0.0) -> Tensor:
    """How far the bits that were read are from those embedded: (batch, bits) each → a scalar.

    With `focus`, segments at the border count up to 1 + focus times as much as those read with ease, or never.
    """
    each = ((logits - bits).square() if kind == "squared" else F.softplus(-logits * bits)).mean(1)
    if not focus:
        return each.mean()
    weight = 1 + focus * torch.exp(-(((each.detach() - BORDER) / AROUND) ** 2))
    return (weight * each).mean() / weight.mean()


def perceptual(marked: Tensor, host: Tensor) -> Tensor:
    """The paper's distance of marked and host audio, (batch, samples)."""
    return F.mse_loss(marked, host)


def discriminate(on_host: Tensor, on_marked: Tensor) -> Tensor:
    """What the discriminator minimises: host audio is labelled 0, marked audio 1; logits (batch,)."""
    return F.binary_cross_entropy_with_logits(
        torch.cat([on_host, on_marked]), torch.cat([torch.zeros_like(on_host), torch.ones_like(on_marked)])
    )


def identify(on_marked: Tensor) -> Tensor:
    """What the embedder minimises: marked audio taken for host audio; logits (batch,)."""
    return F.binary_cross_entropy_with_logits(on_marked, torch.zeros_like(on_marked))
