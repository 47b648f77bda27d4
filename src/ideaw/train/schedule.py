"""The schedule of a run: what a recipe says about one step, and whether steps can be made of it at all."""

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ideaw.attacks.batch import TRAINING
from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.errors import IdeawError
from ideaw.modem.carriers import TILE_BINS
from ideaw.modem.fec import fec_exists
from ideaw.train.recipe import Recipe

OVERMARK = "overmark"
"""The attack that only the network itself can make: a second mark on top of the first."""


@dataclass(frozen=True)
class StepSchedule:
    """What the recipe says about one step: SNR in dB, whether attacks are on, jitter in samples."""

    learning_rate: float
    snr: float | None
    attacked: bool
    jitter: float


def schedule_at(recipe: Recipe, step: int) -> StepSchedule:
    """Learning rate, SNR, attacks and jitter at a step."""
    progress = step / recipe.steps
    snr = recipe.snr
    if snr is not None and recipe.snr_ramp > 0:
        snr = min(snr, recipe.snr_start + (snr - recipe.snr_start) * progress / recipe.snr_ramp)
    attacked = progress >= recipe.attacks_from
    if recipe.schedule == "cosine":
        decay = max(0.0, (progress - 0.3) / 0.7)
        rate = min(1.0, (step + 1) / max(1, recipe.warm_up)) * (0.5 + 0.5 * math.cos(math.pi * decay))
    else:
        begin, length = (recipe.attacks_from, 1 - recipe.attacks_from) if attacked else (0.0, recipe.attacks_from)
        rate = 0.5 ** int(10 * (progress - begin) / length) if length else 1.0
    jitter = recipe.jitter * min(1.0, progress / recipe.jitter_ramp if recipe.jitter_ramp else 1.0)
    return StepSchedule(recipe.learning_rate * rate, snr, attacked, jitter)


def attack_rows(recipe: Recipe, batch: int, dither: float) -> list[tuple[str, int]]:
    """Divide a batch among the attacks of a recipe.

    Args:
        recipe: Says the share of each attack.
        batch: Rows to divide.
        dither: Drawn from [0, 1), decides which shares are rounded up: however small the batch, every attack gets its
            share of a run.

    Returns:
        (attack, rows), adding up to `batch` at most.
    """
    totals = accumulate(recipe.attacks.values())
    edges = [0, *(min(batch, math.floor(total * batch + dither)) for total in totals)]
    return [(name, b - a) for name, (a, b) in zip(recipe.attacks, pairwise(edges), strict=True) if b > a]


def check_recipe(recipe: Recipe) -> None:
    """Refuse a recipe that no step can be made of.

    Raises:
        IdeawError: If attacks, sizes or the network's choices do not fit together.
    """
    known = {*TRAINING, OVERMARK}
    for name, share in recipe.attacks.items():
        if name not in known:
            raise IdeawError(f"{recipe.name}: unknown attack {name!r}; known are {', '.join(sorted(known))}")
        if share < 0:
            raise IdeawError(f"{recipe.name}: the share {share} of {name} is below 0")
    total = sum(recipe.attacks.values())
    if total > 1 + 1e-6:
        raise IdeawError(f"{recipe.name}: the attacks' shares add up to {total:.3g}, more than 1")
    if recipe.steps < 1 or recipe.batch < 1:
        raise IdeawError(f"{recipe.name}: steps and batch must be 1 or more")
    _check_net(recipe)


def _check_net(recipe: Recipe) -> None:
    """The part of `check_recipe` about the network."""
    net = recipe.net
    single_stage = net.code_bits == net.code_slots == net.code_blocks == 0
    watermarks = {"message": (net.message_bits, net.message_slots)}
    if not single_stage:
        watermarks["code"] = (net.code_bits, net.code_slots)
    for watermark, (bits, slots) in watermarks.items():
        if not 1 <= bits <= slots <= SEGMENT_SAMPLES:
            raise IdeawError(
                f"{recipe.name}: {bits} bits of {watermark} in {slots} slots; there must be as many at least"
            )
        if net.carriers == "learned" and not fec_exists(bits, slots):
            raise IdeawError(
                f"{recipe.name}: no FEC has {bits} bits of {watermark} in {slots} slots; take as many, or a multiple"
            )
    if not (net.message_blocks and (net.code_blocks or single_stage)):
        raise IdeawError(f"{recipe.name}: a stage needs 1 block or more; without a code its bits and slots are 0 too")
    if net.domain == "wavelet":
        if not single_stage or net.message_blocks < 2 or net.carriers != "learned" or recipe.losses.first_stage:
            raise IdeawError(f"{recipe.name}: on wavelets there is one stage of 2 blocks or more, and learned carriers")
    elif net.carriers == "tiles" and net.bins % TILE_BINS:
        raise IdeawError(
            f"{recipe.name}: a squeeze of {net.squeeze} leaves {net.bins} bins; tiles need a multiple of {TILE_BINS}"
        )
