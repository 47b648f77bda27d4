"""How well a network reads on audio it was not trained on: clean, and under the paper's attacks as batches."""

import torch

from ideaw.attacks import batch, catalogue
from ideaw.attacks.draw import Draw
from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.nets.build import AnyNet
from ideaw.train.data import SegmentPool

VALIDATION_SEED = 7


@torch.no_grad()
def validate(model: AnyNet, pool: SegmentPool, snr: float | None, segments: int = 256) -> dict[str, float]:
    """Share of slots of message and locating code together that are read right, with the location known.

    Args:
        model: The network.
        pool: Held-out audio.
        snr: dB of the marks; None: as the network leaves them.
        segments: How many are read.

    Returns:
        Attack ("clean": none) → share.
    """
    draw = Draw.at(VALIDATION_SEED, 0, pool.samples.device)
    host = pool.draw(segments, draw)[:, pool.margin : pool.margin + SEGMENT_SAMPLES]
    sizes = (model.config.message_slots, model.config.code_slots)
    bits = torch.randint(2, (segments, sum(sizes)), generator=draw.device, device=host.device).float() * 2 - 1
    message, code = bits[:, : sizes[0]], bits[:, sizes[0] :]
    carriers = model.carriers()
    marked = model.embed(host, message, code, snr, carriers).nan_to_num().clamp(-1, 1)  # what a file can hold
    accuracies = {}
    for name in ("clean", *catalogue.PAPER):
        attacked = marked if name == "clean" else getattr(batch, name)(marked, draw)
        llrs = torch.cat(model.extract(attacked, carriers), 1)
        accuracies[name] = ((llrs > 0) == (bits > 0)).float().mean().item()
    return accuracies
