"""The shipped model for the engine's tests; IDEAW_TEST_MODEL names another model folder, say a fresh export."""

import os
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import RATE, SEGMENT
from ideaw.engine.network import Network


@pytest.fixture(scope="session")
def folder() -> Path:
    given = os.environ.get("IDEAW_TEST_MODEL")
    return Path(given) if given else Path(str(resources.files("ideaw").joinpath("models", "46+10")))


@pytest.fixture(scope="session")
def network(folder: Path) -> Network:
    return Network(folder)


@pytest.fixture(scope="session")
def strings(music: NDArray[np.float32]) -> NDArray[np.float32]:
    """The music as the network gets it: one channel, `(96000,)` at 16 kHz."""
    return soxr.resample(music[:, 0], 44_100, RATE)[: 6 * SEGMENT]
