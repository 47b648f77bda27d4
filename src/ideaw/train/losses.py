"""The losses of the paper. Bits are −1 and +1; logits are positive for 1."""

import torch
import torch.nn.functional as F
from torch import Tensor


def integrity(logits: Tensor, bits: Tensor, kind: str) -> Tensor:
    """How far the bits that were read are from those embedded: (batch, bits) each → a scalar."""
    if kind == "squared":
        return F.mse_loss(logits, bits)
    return F.softplus(-logits * bits).mean()


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
