"""Real audio as the network takes it."""

from collections.abc import Iterator

import numpy as np
import pytest
import soxr
import torch
from numpy.typing import NDArray
from torch import Tensor

from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES


@pytest.fixture(scope="session")
def seconds(speech: NDArray[np.float32], music: NDArray[np.float32]) -> Tensor:
    """Six segments of a second, (6, SEGMENT_SAMPLES): three of speech, three of music."""
    strings = soxr.resample(music.mean(1), 44_100, SAMPLE_RATE)
    return torch.from_numpy(
        np.concatenate([speech, strings[: 6 * SEGMENT_SAMPLES]]).reshape(-1, SEGMENT_SAMPLES)[::2].copy()
    )


@pytest.fixture(autouse=True)
def _steady() -> Iterator[None]:
    """The same weights in every run, on one thread: small convolutions on more mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    yield
    torch.set_num_threads(threads)
