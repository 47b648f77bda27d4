"""Training audio: everything in memory on the device as 16-bit integers, segments cut out at random.

A few hours fit easily (an hour is 115 MB), and a step then never waits for a disk. The
folder (or pack) directly above a file is its category, and categories are drawn equally often.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ideaw.attacks.batch import Draw
from ideaw.audio.clips import clips_under
from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.errors import FileError

QUIETEST = 10 ** (-50 / 20)
"""Segments with a lower RMS are not trained on."""

GRID = SEGMENT_SAMPLES // 4
"""Segments begin near multiples of this many samples."""

HELD_OUT = 25
"""Every so-manieth clip is kept for validation."""


class Pool:
    """All clips, and where in them segments worth training on begin, by category."""

    def __init__(self, clips: list[tuple[str, np.ndarray]], margin: int, device: torch.device) -> None:
        self.margin = margin
        starts: dict[str, list[np.ndarray]] = {}
        offset = 0
        for category, clip in clips:
            places = np.arange(margin, len(clip) - SEGMENT_SAMPLES - margin + 1, GRID)
            energy = np.concatenate([[0], np.cumsum(np.square(clip, dtype=np.float64))]) / 32768**2
            loud = np.sqrt((energy[places + SEGMENT_SAMPLES] - energy[places]) / SEGMENT_SAMPLES) > QUIETEST
            starts.setdefault(category, []).append(offset + places[loud])
            offset += len(clip)
        found = {category: np.concatenate(places) for category, places in sorted(starts.items())}
        found = {category: places for category, places in found.items() if len(places)}
        if not found:
            raise FileError("the training audio holds no segment of a second above −50 dBFS")
        self.sizes = {category: len(places) for category, places in found.items()}
        self.samples = torch.from_numpy(np.concatenate([clip for _, clip in clips])).to(device)
        self.starts = torch.from_numpy(np.concatenate(list(found.values()))).to(device)
        self.first = torch.tensor(np.cumsum([0, *self.sizes.values()])[:-1], device=device)
        self.count = torch.tensor(list(self.sizes.values()), device=device)

    def draw(self, number: int, draw: Draw) -> Tensor:
        """(number, SEGMENT_SAMPLES + 2 · margin) float32 at random places and levels, categories equally often."""
        device = self.samples.device
        turn = torch.randint(len(self.count), (1,), generator=draw.device, device=device)
        category = (torch.arange(number, device=device) + turn) % len(self.count)
        where = torch.rand(number, generator=draw.device, device=device) * self.count[category]
        start = self.starts[self.first[category] + where.long()] - self.margin
        index = start[:, None] + torch.arange(SEGMENT_SAMPLES + 2 * self.margin, device=device)
        audio = self.samples[index].float() / 32768
        gain = 10 ** ((torch.rand(number, 1, generator=draw.device, device=device) * 20 - 14) / 20)
        return audio * torch.minimum(gain, 0.99 / audio.abs().amax(1, keepdim=True))

    @property
    def seconds(self) -> float:
        return len(self.samples) / SAMPLE_RATE


def load_pools(folder: Path, margin: int, device: torch.device) -> tuple[Pool, Pool]:
    """The pools for training and for validation from all audio under a folder."""
    clips = [(category, clip) for category, clip in clips_under(folder) if len(clip) >= SEGMENT_SAMPLES + 2 * margin]
    if not clips:
        raise FileError(f"{folder} holds no audio files longer than a second, and no tar packs of them")
    held_out = clips[::HELD_OUT]
    kept = [clip for i, clip in enumerate(clips) if i % HELD_OUT] or held_out
    return Pool(kept, margin, device), Pool(held_out, margin, device)
