"""One training step: audio, bits and attacks drawn from (seed, step), and the losses that come of them."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ideaw.attacks.batch import CODEC_STRENGTHS, TRAINING, Draw
from ideaw.attacks.codecs import mp3_clips, opus_clips, vorbis_clips
from ideaw.audio.grid import FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.errors import IdeawError
from ideaw.modem.carriers import RANGE
from ideaw.modem.fec import exists
from ideaw.nets.discriminator import Discriminator
from ideaw.nets.kinds import AnyNet
from ideaw.nets.model import Ideaw
from ideaw.train import losses
from ideaw.train.data import Pool
from ideaw.train.loudness import disturbance
from ideaw.train.recipe import Recipe

CODECS = {"mp3": mp3_clips, "vorbis": vorbis_clips, "opus": opus_clips}
"""Attacks by real encoders on the CPU."""

OVERMARK = "overmark"
"""The attack that only the network itself can make: a second mark on top of the first."""

WAITING = ThreadPoolExecutor(1)
"""Waits for the codecs while the device works."""


@dataclass(frozen=True)
class Moment:
    """What the recipe says about one step."""

    learning_rate: float
    snr: float | None
    attacked: bool
    jitter: float


@dataclass(frozen=True)
class Batch:
    """Segments with what is put into them and where they are read, row by row."""

    placed: Tensor
    """(rows, SEGMENT_SAMPLES + 2 · margin) audio around each segment."""
    message: Tensor
    code: Tensor
    phase: Tensor
    spread: Tensor
    """(rows,) dB that each level lies off that of the step."""
    off: Tensor
    """(rows,) where between −1 and 1 of the jitter a segment is read."""

    def __len__(self) -> int:
        return len(self.placed)

    def last(self, rows: int) -> "Batch":
        """The last so many rows."""
        return Batch(**{f.name: getattr(self, f.name)[len(self) - rows :] for f in fields(self)})

    def before(self, other: "Batch") -> "Batch":
        """These rows and then the others."""
        return Batch(**{f.name: torch.cat([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)})


@dataclass(frozen=True)
class Trip:
    """Rows of one step on their way through real codecs on the CPU: they come back in the next step.

    There they are marked anew, and the codec's error is that of the marking before. The weights have hardly moved
    between, and the device never waits for a codec.
    """

    batch: Batch
    marked: Tensor
    """(rows, SEGMENT_SAMPLES + 2 · margin), as it was sent."""
    heard: Callable[[], Tensor]
    """Waits for the codecs and gives what comes out of them, on the CPU."""

    def __len__(self) -> int:
        return len(self.batch)

    def error(self) -> Tensor:
        """What the codecs did to the marked audio."""
        return self.heard().to(self.marked.device, non_blocking=True) - self.marked

    def tensors(self) -> dict[str, Tensor]:
        """Everything, for a checkpoint."""
        kept = {f.name: getattr(self.batch, f.name) for f in fields(self.batch)}
        return kept | {"marked": self.marked, "heard": self.heard()}

    @classmethod
    def of(cls, tensors: dict[str, Tensor], device: torch.device) -> "Trip":
        """The way back from `tensors`."""
        rows = Batch(**{f.name: tensors[f.name].to(device) for f in fields(Batch)})
        return cls(rows, tensors["marked"].to(device), lambda: tensors["heard"])


@dataclass(frozen=True)
class Outcome:
    """What a step gives: the loss to go down, and what to log, as tensors so that nothing waits for the device."""

    loss: Tensor
    host: Tensor
    marked: Tensor
    report: dict[str, Tensor]
    trip: Trip | None
    """What is to be given to the next step."""


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
    model: AnyNet,
    critic: Discriminator | None,
    pool: Pool,
    recipe: Recipe,
    number: int,
    now: Moment,
    draw: Draw,
    back: Trip | None = None,
    second: AnyNet | None = None,
) -> Outcome:
    """Mark `number` segments, attack them, read them, and compare.

    `back` are rows of the step before that have been through codecs since, `second` is the network that puts
    second marks on top (None: the same).
    """
    weights, margin = recipe.losses, pool.margin
    batch = _fresh(pool, recipe, number - (len(back) if back else 0), draw)
    if back:
        batch = back.batch.before(batch)
    host = batch.placed[:, margin : margin + SEGMENT_SAMPLES]
    snr = None if now.snr is None else now.snr + batch.spread * recipe.snr_spread

    carriers = model.carriers()
    marked = model.embed(host, batch.message, batch.code, snr, carriers, batch.phase)
    around = torch.cat([batch.placed[:, :margin], marked, batch.placed[:, margin + SEGMENT_SAMPLES :]], 1)
    attacked, trip = _attack(second or model, around, batch, back, recipe, now, draw)
    begin = (batch.off * now.jitter).round().long() + margin
    read_message, read_code = model.extract(_cut(attacked, begin), carriers, batch.phase, now.attacked)

    loss = weights.message * losses.integrity(read_message, batch.message, weights.kind, weights.focus)
    if recipe.net.code_slots:
        loss = loss + weights.code * losses.integrity(read_code, batch.code, weights.kind, weights.focus)
    if weights.first_stage:
        alone = model.embed(host, batch.message, None, snr, carriers, batch.phase)
        assert isinstance(model, Ideaw)
        logits = model.extract_first_stage(alone, carriers, batch.phase)
        loss = loss + weights.first_stage * losses.integrity(logits, batch.message, weights.kind)
    if weights.perceptual:
        loss = loss + weights.perceptual * losses.perceptual(marked, host)
    heard = disturbance(marked, host)
    if weights.audible:
        loss = loss + weights.audible * F.relu(heard - weights.bearable).mean()
    if weights.identify and critic is not None:
        loss = loss + weights.identify * losses.identify(critic(marked))
    report = {
        "loss": loss.detach(),
        "message": _right(read_message, batch.message),
        "heard": heard.detach().mean(),
        "snr": 10 * torch.log10(host.square().sum(1) / (marked - host).detach().square().sum(1)).mean(),
    }
    if recipe.net.code_slots:
        report["code"] = _right(read_code, batch.code)
    return Outcome(loss, host, marked, report, trip)


def _fresh(pool: Pool, recipe: Recipe, number: int, draw: Draw) -> Batch:
    """New segments with random bits, levels and places."""
    placed = pool.draw(number, draw)
    message, code = (_bits(number, slots, draw) for slots in (recipe.net.message_slots, recipe.net.code_slots))
    phase = torch.randint(FRAMES_PER_SECOND, (number,), generator=draw.device, device=placed.device)
    spread, off = draw.uniform(2, number) * 2 - 1
    return Batch(placed, message, code, phase, spread, off)


def _attack(
    second: AnyNet, around: Tensor, batch: Batch, back: Trip | None, recipe: Recipe, now: Moment, draw: Draw
) -> tuple[Tensor, Trip | None]:
    """The marked audio, each attack on its own rows; and the rows that leave for the codecs.

    What is back from them comes first, then the other attacks, then what stays as it is. (What lies where in the
    batch is drawn anew at every step.)
    """
    if not now.attacked:
        return around, None
    at = came_back = len(back) if back else 0
    pieces = [around[:at] + back.error()] if back else []
    leaving = []
    for name, rows in shares(recipe, len(around), float(draw.host.random())):
        if name in CODECS:
            leaving.append((name, rows))
            continue
        if at == len(around):  # more rows came back than this step's rounding leaves room for
            continue
        some = around[at : at + rows]
        if name == OVERMARK:
            pieces.append(_overmark(second, some, now, draw))
        elif name == "splice":
            pieces.append(TRAINING[name](some, draw, other=batch.placed.roll(1, 0)[at : at + rows]))
        else:
            pieces.append(TRAINING[name](some, draw))
        at += len(some)
    attacked = torch.cat([*pieces, around[at:]])
    return attacked, _leave(around, batch, leaving, len(around) - came_back, draw)


def _leave(around: Tensor, batch: Batch, leaving: list[tuple[str, int]], most: int, draw: Draw) -> Trip | None:
    """Send the last rows, at most so many, to the codecs: `leaving` says how many to which."""
    jobs: list[tuple[str, list[Any]]] = []
    number = 0
    for name, rows in leaving:
        rows = min(rows, most - number)
        if rows:
            jobs.append((name, draw.choose_each(CODEC_STRENGTHS[name], rows)))
            number += rows
    if not number:
        return None
    # LAME ends the process at a sample that is not finite; the loss still sees it, and the step is skipped.
    marked = around[len(around) - number :].detach().nan_to_num().clamp(-1, 1)
    copy = torch.empty(marked.shape, pin_memory=marked.is_cuda).copy_(marked, non_blocking=True)
    copied = torch.cuda.current_stream().record_event() if marked.is_cuda else None

    def through() -> Tensor:
        if copied:
            copied.synchronize()
        clips, heard, first = copy.numpy(), [], 0
        for name, strengths in jobs:
            heard.append(CODECS[name](clips[first : first + len(strengths)], strengths))
            first += len(strengths)
        return torch.from_numpy(np.concatenate(heard))

    return Trip(batch.last(number), marked, WAITING.submit(through).result)


def shares(recipe: Recipe, number: int, chance: float) -> list[tuple[str, int]]:
    """(attack, rows of a batch) that add up to `number` at most.

    `chance`, drawn from [0, 1), decides which are rounded up: however small the batch, every attack gets
    its share of a run.
    """
    totals = accumulate(recipe.attacks.values())
    edges = [0, *(min(number, math.floor(total * number + chance)) for total in totals)]
    return [(name, b - a) for name, (a, b) in zip(recipe.attacks, pairwise(edges), strict=True) if b > a]


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
    net = recipe.net
    single_stage = net.code_bits == net.code_slots == net.code_blocks == 0
    spread = {"message": (net.message_bits, net.message_slots)}
    if not single_stage:
        spread["code"] = (net.code_bits, net.code_slots)
    for kind, (bits, slots) in spread.items():
        if not 1 <= bits <= slots <= SEGMENT_SAMPLES:
            raise IdeawError(f"{recipe.name}: {bits} bits of {kind} in {slots} slots; there must be as many at least")
        if net.carriers == "learned" and not exists(bits, slots):
            raise IdeawError(
                f"{recipe.name}: no code has {bits} bits of {kind} in {slots} slots; take as many, or a multiple"
            )
    if not (net.message_blocks and (net.code_blocks or single_stage)):
        raise IdeawError(f"{recipe.name}: a stage needs 1 block or more; without a code its bits and slots are 0 too")
    if net.domain == "wavelet":
        if not single_stage or net.message_blocks < 2 or net.carriers != "learned" or recipe.losses.first_stage:
            raise IdeawError(f"{recipe.name}: on wavelets there is one stage of 2 blocks or more, and learned carriers")
    elif net.carriers == "tiles" and net.bins % RANGE:
        raise IdeawError(
            f"{recipe.name}: a squeeze of {net.squeeze} leaves {net.bins} bins, and tiles need a multiple of {RANGE}"
        )


@torch.no_grad()
def _second_mark(second: AnyNet, inner: Tensor, now: Moment, draw: Draw) -> Tensor:
    """What another message and code at another phase, as a second owner would put them there, add to the segments."""
    number, config = len(inner), second.config
    message, code = (_bits(number, slots, draw) for slots in (config.message_slots, config.code_slots))
    phase = torch.randint(FRAMES_PER_SECOND, (number,), generator=draw.device, device=inner.device)
    return second.embed(inner, message, code, now.snr, second.carriers("second owner"), phase) - inner


def _overmark(second: AnyNet, around: Tensor, now: Moment, draw: Draw) -> Tensor:
    """A second mark on the segments, straight through."""
    margin = (around.shape[1] - SEGMENT_SAMPLES) // 2
    inner = around[:, margin : margin + SEGMENT_SAMPLES].detach()
    return around + F.pad(_second_mark(second, inner, now, draw), (margin, margin))


def _cut(around: Tensor, begin: Tensor) -> Tensor:
    """(batch, SEGMENT_SAMPLES) beginning at each sample's own place."""
    return around.gather(1, begin[:, None] + torch.arange(SEGMENT_SAMPLES, device=around.device))


def _bits(number: int, bits: int, draw: Draw) -> Tensor:
    return torch.randint(2, (number, bits), generator=draw.device, device=draw.device.device).float() * 2 - 1


def _right(logits: Tensor, bits: Tensor) -> Tensor:
    return ((logits > 0) == (bits > 0)).float().mean()
