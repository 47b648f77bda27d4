"""Training audio: everything in memory on the device as 16-bit integers, segments cut out at random.

A few hours fit easily (an hour is 115 MB), and a step then never waits for a disk. The folder (or pack) directly above
a file is its category, and categories are drawn equally often.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ideaw.attacks.draw import Draw
from ideaw.audio.clips import clips_under
from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.errors import FileError

MIN_SEGMENT_RMS = 10 ** (-50 / 20)
"""Segments with a lower RMS, relative to full scale, are not trained on."""

START_STEP_SAMPLES = SEGMENT_SAMPLES // 4
"""Segments begin at multiples of this many samples."""

HELD_OUT_EVERY_CLIPS = 25
"""One clip of so many is held out for validation."""


class SegmentPool:
    """All clips, and where in them segments worth training on begin, by category.

    Args:
        clips: (category, 16-bit samples at 16 kHz) of each clip.
        margin: Samples that must lie on either side of a segment.
        device: Where all of it is held.

    Raises:
        FileError: If no segment is loud enough.
    """

    def __init__(self, clips: list[tuple[str, NDArray[np.int16]]], margin: int, device: torch.device) -> None:
        self.margin = margin
        starts: dict[str, list[NDArray[np.int64]]] = {}
        offset = 0
        for category, clip in clips:
            candidates = np.arange(margin, len(clip) - SEGMENT_SAMPLES - margin + 1, START_STEP_SAMPLES)
            energy = np.concatenate([[0], np.cumsum(np.square(clip, dtype=np.float64))]) / 32768**2
            rms = np.sqrt((energy[candidates + SEGMENT_SAMPLES] - energy[candidates]) / SEGMENT_SAMPLES)
            starts.setdefault(category, []).append(offset + candidates[rms > MIN_SEGMENT_RMS])
            offset += len(clip)
        by_category = {category: np.concatenate(parts) for category, parts in sorted(starts.items())}
        by_category = {category: positions for category, positions in by_category.items() if len(positions)}
        if not by_category:
            raise FileError("the training audio holds no segment of a second above −50 dBFS")
        self.sizes = {category: len(positions) for category, positions in by_category.items()}
        self.samples = torch.from_numpy(np.concatenate([clip for _, clip in clips])).to(device)
        self.starts = torch.from_numpy(np.concatenate(list(by_category.values()))).to(device)
        self.first = torch.tensor(np.cumsum([0, *self.sizes.values()])[:-1], device=device)
        self.count = torch.tensor(list(self.sizes.values()), device=device)

    def draw(self, rows: int, draw: Draw) -> Tensor:
        """(rows, SEGMENT_SAMPLES + 2 · margin) float32 at random places and gains, categories equally often."""
        device = self.samples.device
        first_category = torch.randint(len(self.count), (1,), generator=draw.device, device=device)
        category = (torch.arange(rows, device=device) + first_category) % len(self.count)
        choice = torch.rand(rows, generator=draw.device, device=device) * self.count[category]
        start = self.starts[self.first[category] + choice.long()] - self.margin
        index = start[:, None] + torch.arange(SEGMENT_SAMPLES + 2 * self.margin, device=device)
        audio = self.samples[index].float() / 32768
        gain = 10 ** ((torch.rand(rows, 1, generator=draw.device, device=device) * 20 - 14) / 20)
        return audio * torch.minimum(gain, 0.99 / audio.abs().amax(1, keepdim=True))

    @property
    def seconds(self) -> float:
        """Length of all clips."""
        return len(self.samples) / SAMPLE_RATE


def load_pools(folder: Path, margin: int, device: torch.device) -> tuple[SegmentPool, SegmentPool]:
    """The pools for training and for validation from all audio under a folder.

    Args:
        folder: Audio files, tar packs of them, or both.
        margin: Samples that must lie on either side of a segment.
        device: Where all of it is held.

    Raises:
        FileError: If the folder holds no usable audio.
    """
    clips = [(category, clip) for category, clip in clips_under(folder) if len(clip) >= SEGMENT_SAMPLES + 2 * margin]
    if not clips:
        raise FileError(f"{folder} holds no audio files longer than a second, and no tar packs of them")
    held_out = clips[::HELD_OUT_EVERY_CLIPS]
    training = [clip for i, clip in enumerate(clips) if i % HELD_OUT_EVERY_CLIPS] or held_out
    return SegmentPool(training, margin, device), SegmentPool(held_out, margin, device)
