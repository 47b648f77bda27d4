"""Random choices of the batched attacks: reproducible from a seed and a step, with no state kept in between."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

Strength = float | tuple[float, float]
"""A number as it is, or a pair (low, high) to draw from."""

T = TypeVar("T")


@dataclass
class Draw:
    """The random choices of one call: `host` for what shapes the work, `device` for tensors."""

    host: np.random.Generator
    device: torch.Generator

    @classmethod
    def at(cls, seed: int, step: int, device: torch.device | str) -> Draw:
        """The draws of one training step: the same seed and step give the same draws, with no state kept."""
        host, tensors = np.random.SeedSequence((seed, step)).spawn(2)
        generator = torch.Generator(device)
        generator.manual_seed(int(tensors.generate_state(1, np.uint64)[0]) >> 1)
        return cls(np.random.default_rng(host), generator)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform in [0, 1), float32, on the device."""
        return torch.rand(shape, generator=self.device, device=self.device.device)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal, float32, on the device."""
        return torch.randn(shape, generator=self.device, device=self.device.device)

    def strength(self, value: Strength, batch: int, geometric: bool = False) -> Tensor:
        """A number as it is, (1, 1); a pair drawn per row, (batch, 1), evenly or evenly in the logarithm."""
        if not isinstance(value, tuple):
            return torch.full((1, 1), float(value), device=self.device.device)
        low, high = value
        if geometric:
            return low * (self.uniform(batch, 1) * math.log(high / low)).exp()
        return low + (high - low) * self.uniform(batch, 1)

    def once(self, value: Strength) -> float:
        """A number as it is; a pair drawn once for the call."""
        return float(self.host.uniform(*value)) if isinstance(value, tuple) else float(value)

    def choose(self, value: T | tuple[T, ...]) -> T:
        """A value as it is; one of a tuple for the call."""
        return value[int(self.host.integers(len(value)))] if isinstance(value, tuple) else value

    def choose_each(self, value: T | tuple[T, ...], batch: int) -> list[T]:
        """One value per row."""
        return [self.choose(value) for _ in range(batch)]
