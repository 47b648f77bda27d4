"""How much of what was embedded is read."""

import numpy as np


def accuracy(logits: np.ndarray, bits: np.ndarray) -> float:
    """The paper's ACC: share of bits whose logit has the right sign; both (…, bits), bits 0 and 1."""
    return float(((logits > 0) == (bits > 0)).mean())


def capacity(bits: int, share_right: float) -> float:
    """Bits that really get through of `bits` when each is right with this probability: bits · (1 − H)."""
    wrong = min(max(1 - share_right, 1e-12), 1 - 1e-12)
    return bits * (1 + wrong * np.log2(wrong) + (1 - wrong) * np.log2(1 - wrong))
