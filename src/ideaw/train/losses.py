"""The terms of the loss: the paper's, and a focus on segments at the decoding threshold. Bits are ±1, LLRs positive
for +1."""

import torch
import torch.nn.functional as F
from torch import Tensor

DECODING_LIMIT_LOSS = 0.55
"""Loss of a segment whose 98 slots can just be decoded: FEC of 46 and of 22 bits fails from about 0.5 and 0.6 on."""

FOCUS_WIDTH_LOSS = 0.15
"""How far from that limit, in units of the loss, a segment counts as about to be lost or won."""


def integrity(llrs: Tensor, bits: Tensor, kind: str, focus: float = 0.0) -> Tensor:
    """How far the bits that were read are from those embedded.

    Args:
        llrs: (batch, bits).
        bits: (batch, bits) of ±1.
        kind: "logistic" (cross-entropy) or "squared" (the paper's distance).
        focus: Segments at the decoding limit count up to 1 + focus times as much as those read with ease, or never.

    Returns:
        A scalar.
    """
    per_segment = ((llrs - bits).square() if kind == "squared" else F.softplus(-llrs * bits)).mean(1)
    if not focus:
        return per_segment.mean()
    weight = 1 + focus * torch.exp(-(((per_segment.detach() - DECODING_LIMIT_LOSS) / FOCUS_WIDTH_LOSS) ** 2))
    return (weight * per_segment).mean() / weight.mean()


def perceptual(marked: Tensor, host: Tensor) -> Tensor:
    """The paper's distance of marked and host audio, (batch, samples) each → a scalar."""
    return F.mse_loss(marked, host)


def discriminate(on_host: Tensor, on_marked: Tensor) -> Tensor:
    """The discriminator's loss: host audio is labelled 0, marked audio 1; its logits (batch,) each → a scalar."""
    return F.binary_cross_entropy_with_logits(
        torch.cat([on_host, on_marked]), torch.cat([torch.zeros_like(on_host), torch.ones_like(on_marked)])
    )


def identify(on_marked: Tensor) -> Tensor:
    """The embedder's adversarial loss: the discriminator's logits (batch,) of marked audio → a scalar."""
    return F.binary_cross_entropy_with_logits(on_marked, torch.zeros_like(on_marked))
