"""How much of what was embedded is read."""

import numpy as np


def accuracy(logits: np.ndarray, bits: np.ndarray) -> float:
    """The paper's ACC: share of bits whose logit has the right sign; both (…, bits), bits 0 and 1."""
    return float(((logits > 0) == (bits > 0)).mean())
