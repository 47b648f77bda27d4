"""Rows of a batch on their way through real codecs, which run on the CPU while the device takes the next step."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ideaw.attacks.batch import CODEC_STRENGTHS
from ideaw.attacks.codecs import mp3_clips, opus_clips, vorbis_clips
from ideaw.attacks.draw import Draw

CODEC_ATTACKS = {"mp3": mp3_clips, "vorbis": vorbis_clips, "opus": opus_clips}
"""Attacks by real encoders on the CPU."""

CODEC_THREAD = ThreadPoolExecutor(1)
"""Waits for the codecs while the device works."""


@dataclass(frozen=True)
class Batch:
    """Segments with what is embedded in them and where they are read, row by row."""

    padded: Tensor
    """(rows, SEGMENT_SAMPLES + 2 · margin) audio around each segment."""
    message: Tensor
    """(rows, message_slots) of ±1."""
    code: Tensor
    """(rows, code_slots) of ±1."""
    phase: Tensor
    """(rows,) frame of the ring that a segment begins with."""
    snr_offset: Tensor
    """(rows,) within ±1, in units of the recipe's `snr_spread`."""
    read_offset: Tensor
    """(rows,) within ±1, in units of the jitter."""

    def __len__(self) -> int:
        return len(self.padded)

    def last(self, rows: int) -> "Batch":
        """The last so many rows."""
        return Batch(**{f.name: getattr(self, f.name)[len(self) - rows :] for f in fields(self)})

    def concatenate(self, following: "Batch") -> "Batch":
        """These rows and then the following ones."""
        return Batch(**{f.name: torch.cat([getattr(self, f.name), getattr(following, f.name)]) for f in fields(self)})


@dataclass(frozen=True)
class InFlightCodecs:
    """Rows of one step on their way through codecs: they come back in the next step.

    There they are marked anew, and the codec's error of the earlier marking is added, straight through. The weights
    have hardly moved between, and the device never waits for a codec.
    """

    batch: Batch
    marked: Tensor
    """(rows, SEGMENT_SAMPLES + 2 · margin), as it was sent."""
    decoded: Callable[[], Tensor]
    """Waits for the codecs and gives what they decode, on the CPU."""

    def __len__(self) -> int:
        return len(self.batch)

    def error(self) -> Tensor:
        """What the codecs did to the marked audio, (rows, SEGMENT_SAMPLES + 2 · margin)."""
        return self.decoded().to(self.marked.device, non_blocking=True) - self.marked

    def tensors(self) -> dict[str, Tensor]:
        """Everything, for a checkpoint."""
        rows = {f.name: getattr(self.batch, f.name) for f in fields(self.batch)}
        return rows | {"marked": self.marked, "decoded": self.decoded()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], device: torch.device) -> "InFlightCodecs":
        """The inverse of `tensors`."""
        rows = Batch(**{f.name: tensors[f.name].to(device) for f in fields(Batch)})
        return cls(rows, tensors["marked"].to(device), lambda: tensors["decoded"])


def send_to_codecs(
    padded: Tensor, batch: Batch, codecs: list[tuple[str, int]], max_rows: int, draw: Draw
) -> InFlightCodecs | None:
    """Send the last rows of a batch to the codecs.

    Args:
        padded: (rows, SEGMENT_SAMPLES + 2 · margin) marked audio with its surroundings.
        batch: The same rows.
        codecs: (codec, rows that it gets).
        max_rows: How many may leave in all.
        draw: Chooses the bit rates.

    Returns:
        None if no row leaves.
    """
    jobs: list[tuple[str, list[Any]]] = []
    total = 0
    for name, rows in codecs:
        rows = min(rows, max_rows - total)
        if rows:
            jobs.append((name, draw.choose_each(CODEC_STRENGTHS[name], rows)))
            total += rows
    if not total:
        return None
    # LAME ends the process at a sample that is not finite; the loss still sees it, and the step is skipped.
    marked = padded[len(padded) - total :].detach().nan_to_num().clamp(-1, 1)
    host_copy = torch.empty(marked.shape, pin_memory=marked.is_cuda).copy_(marked, non_blocking=True)
    copied = torch.cuda.current_stream().record_event() if marked.is_cuda else None

    def code() -> Tensor:
        if copied:
            copied.synchronize()
        clips, decoded, first = host_copy.numpy(), [], 0
        for name, strengths in jobs:
            decoded.append(CODEC_ATTACKS[name](clips[first : first + len(strengths)], strengths))
            first += len(strengths)
        return torch.from_numpy(np.concatenate(decoded))

    return InFlightCodecs(batch.last(total), marked, CODEC_THREAD.submit(code).result)
