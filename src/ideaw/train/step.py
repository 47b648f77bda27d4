"""One training step: audio, bits and attacks drawn from (seed, step), and the losses that come of them."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ideaw.attacks.batch import TRAINING
from ideaw.attacks.draw import Draw
from ideaw.audio.grid import FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.nets.build import AnyNet
from ideaw.nets.discriminator import Discriminator
from ideaw.nets.model import Ideaw
from ideaw.train import losses
from ideaw.train.data import SegmentPool
from ideaw.train.in_flight import CODEC_ATTACKS, Batch, InFlightCodecs, send_to_codecs
from ideaw.train.loudness import disturbance
from ideaw.train.recipe import Recipe
from ideaw.train.schedule import OVERMARK, StepSchedule, attack_rows

OVERMARK_KEY_LABEL = "second owner"
"""What the carriers of second marks are drawn from; another label would give other numbers in every run."""


@dataclass(frozen=True)
class StepResult:
    """The loss of a step and what to log, as tensors so that nothing waits for the device."""

    loss: Tensor
    host: Tensor
    """(batch, SEGMENT_SAMPLES)."""
    marked: Tensor
    """(batch, SEGMENT_SAMPLES)."""
    metrics: dict[str, Tensor]
    in_flight: InFlightCodecs | None
    """What is to be given to the next step."""


def training_step(
    model: AnyNet,
    discriminator: Discriminator | None,
    pool: SegmentPool,
    recipe: Recipe,
    rows: int,
    schedule: StepSchedule,
    draw: Draw,
    returning: InFlightCodecs | None = None,
    overmarker: AnyNet | None = None,
) -> StepResult:
    """Mark segments, attack them, read them, and compare.

    Args:
        model: The network that learns.
        discriminator: Judges marked audio, if the recipe asks for it.
        pool: Where segments are drawn from.
        recipe: Attacks and losses.
        rows: Segments in this step.
        schedule: What the recipe says about this step.
        draw: All its random numbers.
        returning: Rows of the step before that have been through codecs since.
        overmarker: The network that puts second marks on top; None: the model itself.
    """
    weights, margin = recipe.losses, pool.margin
    batch = _draw_batch(pool, recipe, rows - (len(returning) if returning else 0), draw)
    if returning:
        batch = returning.batch.concatenate(batch)
    host = batch.padded[:, margin : margin + SEGMENT_SAMPLES]
    snr = None if schedule.snr is None else schedule.snr + batch.snr_offset * recipe.snr_spread

    carriers = model.carriers()
    marked = model.embed(host, batch.message, batch.code, snr, carriers, batch.phase)
    padded = torch.cat([batch.padded[:, :margin], marked, batch.padded[:, margin + SEGMENT_SAMPLES :]], 1)
    attacked, in_flight = _attack(overmarker or model, padded, batch, returning, recipe, schedule, draw)
    start = (batch.read_offset * schedule.jitter).round().long() + margin
    message_llrs, code_llrs = model.extract(_cut_segments(attacked, start), carriers, batch.phase, schedule.attacked)

    loss = weights.message * losses.integrity(message_llrs, batch.message, weights.kind, weights.focus)
    if recipe.net.code_slots:
        loss = loss + weights.code * losses.integrity(code_llrs, batch.code, weights.kind, weights.focus)
    if weights.first_stage:
        without_code = model.embed(host, batch.message, None, snr, carriers, batch.phase)
        assert isinstance(model, Ideaw)
        llrs = model.extract_first_stage(without_code, carriers, batch.phase)
        loss = loss + weights.first_stage * losses.integrity(llrs, batch.message, weights.kind)
    if weights.perceptual:
        loss = loss + weights.perceptual * losses.perceptual(marked, host)
    audible = disturbance(marked, host)
    if weights.audible:
        loss = loss + weights.audible * F.relu(audible - weights.bearable).mean()
    if weights.identify and discriminator is not None:
        loss = loss + weights.identify * losses.identify(discriminator(marked))
    metrics = {
        "loss": loss.detach(),
        "message": _share_right(message_llrs, batch.message),
        "disturbance": audible.detach().mean(),
        "snr": 10 * torch.log10(host.square().sum(1) / (marked - host).detach().square().sum(1)).mean(),
    }
    if recipe.net.code_slots:
        metrics["code"] = _share_right(code_llrs, batch.code)
    return StepResult(loss, host, marked, metrics, in_flight)


def _draw_batch(pool: SegmentPool, recipe: Recipe, rows: int, draw: Draw) -> Batch:
    """New segments with random bits, phases, SNRs and places."""
    padded = pool.draw(rows, draw)
    message, code = (_draw_bits(rows, slots, draw) for slots in (recipe.net.message_slots, recipe.net.code_slots))
    phase = torch.randint(FRAMES_PER_SECOND, (rows,), generator=draw.device, device=padded.device)
    snr_offset, read_offset = draw.uniform(2, rows) * 2 - 1
    return Batch(padded, message, code, phase, snr_offset, read_offset)


def _attack(
    overmarker: AnyNet,
    padded: Tensor,
    batch: Batch,
    returning: InFlightCodecs | None,
    recipe: Recipe,
    schedule: StepSchedule,
    draw: Draw,
) -> tuple[Tensor, InFlightCodecs | None]:
    """The marked audio, each attack on its own rows; and the rows that leave for the codecs.

    What returns from them comes first, then the other attacks, then what stays clean. (Which audio lies where in the
    batch is drawn anew at every step.)
    """
    if not schedule.attacked:
        return padded, None
    first = returned = len(returning) if returning else 0
    pieces = [padded[:first] + returning.error()] if returning else []
    codecs = []
    for name, rows in attack_rows(recipe, len(padded), float(draw.host.random())):
        if name in CODEC_ATTACKS:
            codecs.append((name, rows))
            continue
        if first == len(padded):  # more rows returned than this step's rounding leaves room for
            continue
        piece = padded[first : first + rows]
        if name == OVERMARK:
            pieces.append(_overmark(overmarker, piece, schedule, draw))
        elif name == "splice":
            pieces.append(TRAINING[name](piece, draw, other=batch.padded.roll(1, 0)[first : first + rows]))
        else:
            pieces.append(TRAINING[name](piece, draw))
        first += len(piece)
    attacked = torch.cat([*pieces, padded[first:]])
    return attacked, send_to_codecs(padded, batch, codecs, len(padded) - returned, draw)


def _overmark(overmarker: AnyNet, padded: Tensor, schedule: StepSchedule, draw: Draw) -> Tensor:
    """A second mark on the segments, straight through."""
    margin = (padded.shape[1] - SEGMENT_SAMPLES) // 2
    segments = padded[:, margin : margin + SEGMENT_SAMPLES].detach()
    return padded + F.pad(_second_residual(overmarker, segments, schedule, draw), (margin, margin))


@torch.no_grad()
def _second_residual(overmarker: AnyNet, segments: Tensor, schedule: StepSchedule, draw: Draw) -> Tensor:
    """What a message and locating code of another key at another phase add to the segments, (rows, SEGMENT_SAMPLES)."""
    rows, config = len(segments), overmarker.config
    message, code = (_draw_bits(rows, slots, draw) for slots in (config.message_slots, config.code_slots))
    phase = torch.randint(FRAMES_PER_SECOND, (rows,), generator=draw.device, device=segments.device)
    carriers = overmarker.carriers(OVERMARK_KEY_LABEL)
    return overmarker.embed(segments, message, code, schedule.snr, carriers, phase) - segments


def _cut_segments(padded: Tensor, start: Tensor) -> Tensor:
    """(rows, SEGMENT_SAMPLES), each beginning at its own sample `start` (rows,)."""
    return padded.gather(1, start[:, None] + torch.arange(SEGMENT_SAMPLES, device=padded.device))


def _draw_bits(rows: int, bits: int, draw: Draw) -> Tensor:
    """(rows, bits) of ±1."""
    return torch.randint(2, (rows, bits), generator=draw.device, device=draw.device.device).float() * 2 - 1


def _share_right(llrs: Tensor, bits: Tensor) -> Tensor:
    """Share of bits whose LLR has the right sign."""
    return ((llrs > 0) == (bits > 0)).float().mean()
