"""How well a network reads on audio it was not trained on: clean, and under the paper's attacks as batches."""

import torch

from ideaw.attacks import batch, catalogue
from ideaw.attacks.batch import Draw
from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.nets.kinds import AnyNet
from ideaw.train.data import Pool

SEED = 7


@torch.no_grad()
def validate(model: AnyNet, pool: Pool, snr: float | None, segments: int = 256) -> dict[str, float]:
    """Attack → share of bits of message and code together that are read right, with the location known."""
    draw = Draw.at(SEED, 0, pool.samples.device)
    host = pool.draw(segments, draw)[:, pool.margin : pool.margin + SEGMENT_SAMPLES]
    sizes = (model.config.message_slots, model.config.code_slots)
    bits = torch.randint(2, (segments, sum(sizes)), generator=draw.device, device=host.device).float() * 2 - 1
    message, code = bits.split(sizes, 1)
    carriers = model.carriers()
    marked = model.embed(host, message, code, snr, carriers).nan_to_num().clamp(-1, 1)  # what a file can hold
    found = {}
    for name in ("clean", *catalogue.PAPER):
        attacked = marked if name == "clean" else getattr(batch, name)(marked, draw)
        read = torch.cat(model.extract(attacked, carriers), 1)
        found[name] = ((read > 0) == (bits > 0)).float().mean().item()
    return found
