"""One training step: audio, bits and attacks drawn from (seed, step), and the losses that come of them."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from ideaw.attacks.batch import TRAINING, Draw
from ideaw.attacks.codecs import mp3_clips, opus_clips, vorbis_clips
from ideaw.audio.grid import FRAMES, SEGMENT
from ideaw.errors import IdeawError
from ideaw.nets.discriminator import Discriminator
from ideaw.nets.model import Ideaw
from ideaw.train import losses
from ideaw.train.data import Pool
from ideaw.train.recipe import Recipe

CODECS = {"mp3": mp3_clips, "vorbis": vorbis_clips, "opus": opus_clips}
"""Attacks by real encoders on the CPU."""

OVERMARK = "overmark"
"""The attack that only the network itself can make: a second mark on top of the first."""

WAITING = ThreadPoolExecutor(1)
"""Waits for the codecs while the device works on the rest of the batch."""


@dataclass(frozen=True)
class Moment:
    """What the recipe says about one step."""

    learning_rate: float
    snr: float | None
    attacked: bool
    jitter: float


@dataclass(frozen=True)
class Outcome:
    """What a step gives: the loss to go down, and what to log, as tensors so that nothing waits for the device."""

    loss: Tensor
    host: Tensor
    marked: Tensor
    report: dict[str, Tensor]


def moment(recipe: Recipe, step: int) -> Moment:
    """Learning rate, level and attacks at a step."""
    done = step / recipe.steps
    snr = recipe.snr
    if snr is not None and recipe.snr_ramp > 0:
        snr = min(snr, recipe.snr_start + (snr - recipe.snr_start) * done / recipe.snr_ramp)
    attacked = done >= recipe.attacks_from
    if recipe.schedule == "cosine":
        falling = max(0.0, (done - 0.3) / 0.7)
        rate = min(1.0, (step + 1) / max(1, recipe.warm_up)) * (0.5 + 0.5 * math.cos(math.pi * falling))
    else:
        begin, length = (recipe.attacks_from, 1 - recipe.attacks_from) if attacked else (0.0, recipe.attacks_from)
        rate = 0.5 ** int(10 * (done - begin) / length) if length else 1.0
    jitter = recipe.jitter * min(1.0, done / recipe.jitter_ramp if recipe.jitter_ramp else 1.0)
    return Moment(recipe.learning_rate * rate, snr, attacked, jitter)


def take(
    model: Ideaw, critic: Discriminator | None, pool: Pool, recipe: Recipe, number: int, now: Moment, draw: Draw
) -> Outcome:
    """Mark `number` segments, attack them, read them, and compare."""
    config, weights = recipe.net, recipe.losses
    placed = pool.draw(number, draw)
    device, margin = placed.device, pool.margin
    host = placed[:, margin : margin + SEGMENT]
    message, code = (_bits(number, bits, draw, device) for bits in (config.message_bits, config.code_bits))
    phase = torch.randint(FRAMES, (number,), generator=draw.device, device=device)
    spread = (torch.rand(number, generator=draw.device, device=device) * 2 - 1) * recipe.snr_spread
    snr = None if now.snr is None else now.snr + spread

    marked = model.embed(host, message, code, snr, phase)
    around = torch.cat([placed[:, :margin], marked, placed[:, margin + SEGMENT :]], 1)
    off = ((torch.rand(number, generator=draw.device, device=device) * 2 - 1) * now.jitter).round().long()
    read_message, read_code = _read(model, around, placed, off + margin, phase, recipe, now, draw)

    loss = weights.message * losses.integrity(read_message, message, weights.kind)
    loss = loss + weights.code * losses.integrity(read_code, code, weights.kind)
    if weights.first_stage:
        alone = model.embed(host, message, None, snr, phase)
        logits = model.extract_first_stage(alone, phase)
        loss = loss + weights.first_stage * losses.integrity(logits, message, weights.kind)
    if weights.perceptual:
        loss = loss + weights.perceptual * losses.perceptual(marked, host)
    if weights.identify and critic is not None:
        loss = loss + weights.identify * losses.identify(critic(marked))
    report = {
        "loss": loss.detach(),
        "message": _right(read_message, message),
        "code": _right(read_code, code),
        "snr": 10 * torch.log10(host.square().sum(1) / (marked - host).detach().square().sum(1)).mean(),
    }
    return Outcome(loss, host, marked, report)


def _read(
    model: Ideaw, around: Tensor, hosts: Tensor, begin: Tensor, phase: Tensor, recipe: Recipe, now: Moment, draw: Draw
) -> tuple[Tensor, Tensor]:
    """Attack the marked audio sample by sample and extract: logits of message and code in the batch's order.

    Each attack has its slice of the batch (what lies where in the batch is drawn anew at every step). Real
    codecs run on the CPU while the device extracts everything else.
    """
    plan = slices(recipe, len(around), float(draw.host.random())) if now.attacked else []
    coded = max((stop for name, _, stop in plan if name in CODECS), default=0)
    pending = []
    for name, start, stop in plan:
        if name in CODECS:
            # LAME ends the process at a sample that is not finite; the loss still sees it, and the step is skipped.
            clips = around[start:stop].detach().nan_to_num().clamp(-1, 1).cpu().numpy()
            attack = TRAINING[name]
            assert isinstance(attack, partial)
            (strengths,) = attack.keywords.values()
            pending.append(WAITING.submit(CODECS[name], clips, draw.choose_each(strengths, len(clips))))
    pieces, at = [], coded
    for name, start, stop in plan:
        if name in CODECS:
            continue
        if name == OVERMARK:
            pieces.append(_overmark(model, around[start:stop], now, draw))
        elif name == "splice":
            pieces.append(TRAINING[name](around[start:stop], draw, other=hosts.roll(1, 0)[start:stop]))
        else:
            pieces.append(TRAINING[name](around[start:stop], draw))
        at = stop
    rest = torch.cat([*pieces, around[at:]]) if pieces else around[at:]
    logits = [model.extract(_cut(rest, begin[coded:]), phase[coded:], now.attacked)] if len(rest) else []
    if coded:
        heard = torch.cat([torch.from_numpy(clips.result()).to(around.device) for clips in pending])
        through = around[:coded] + (heard - around[:coded]).detach()
        logits.insert(0, model.extract(_cut(through, begin[:coded]), phase[:coded], now.attacked))
    message, code = (torch.cat(kind) for kind in zip(*logits, strict=True))
    return message, code


def slices(recipe: Recipe, number: int, chance: float) -> list[tuple[str, int, int]]:
    """(attack, first, last + 1) for a batch, codecs first.

    `chance`, drawn from [0, 1), decides which shares are rounded up: however small the batch, every attack gets
    its share of a run.
    """
    order = sorted(recipe.attacks, key=lambda name: name not in CODECS)
    totals = accumulate(recipe.attacks[name] for name in order)
    edges = [0, *(min(number, math.floor(total * number + chance)) for total in totals)]
    return [(name, a, b) for name, (a, b) in zip(order, pairwise(edges), strict=True) if b > a]


def check(recipe: Recipe) -> None:
    """Refuse a recipe that no step can be made of."""
    known = {*TRAINING, OVERMARK}
    for name, share in recipe.attacks.items():
        if name not in known:
            raise IdeawError(f"{recipe.name}: unknown attack {name!r}; known are {', '.join(sorted(known))}")
        if share < 0:
            raise IdeawError(f"{recipe.name}: the share {share} of {name} is below 0")
    if sum(recipe.attacks.values()) > 1 + 1e-6:
        raise IdeawError(
            f"{recipe.name}: the attacks' shares add up to {sum(recipe.attacks.values()):.3g}, more than 1"
        )
    if recipe.steps < 1 or recipe.batch < 1:
        raise IdeawError(f"{recipe.name}: steps and batch must be 1 or more")


def _overmark(model: Ideaw, around: Tensor, now: Moment, draw: Draw) -> Tensor:
    """Another message and code on the segment, at another phase, as a second owner would put it there."""
    margin = (around.shape[1] - SEGMENT) // 2
    inner = around[:, margin : margin + SEGMENT]
    number, device = len(around), around.device
    message, code = (_bits(number, bits, draw, device) for bits in (model.config.message_bits, model.config.code_bits))
    phase = torch.randint(FRAMES, (number,), generator=draw.device, device=device)
    again = model.embed(inner, message, code, now.snr, phase)
    return torch.cat([around[:, :margin], again, around[:, margin + SEGMENT :]], 1)


def _cut(around: Tensor, begin: Tensor) -> Tensor:
    """(batch, SEGMENT) beginning at each sample's own place."""
    return around.gather(1, begin[:, None] + torch.arange(SEGMENT, device=around.device))


def _bits(number: int, bits: int, draw: Draw, device: torch.device) -> Tensor:
    return torch.randint(2, (number, bits), generator=draw.device, device=device).float() * 2 - 1


def _right(logits: Tensor, bits: Tensor) -> Tensor:
    return ((logits > 0) == (bits > 0)).float().mean()
