"""Real audio for every room's tests, the packaged samples; and how tests are shared between processes."""

import io
from importlib import resources

import numpy as np
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES


def _packaged(name: str) -> NDArray[np.float32]:
    data = resources.files("ideaw").joinpath("samples", name).read_bytes()
    return sf.read(io.BytesIO(data), dtype="float32")[0]


@pytest.fixture(scope="session")
def speech() -> NDArray[np.float32]:
    """Six seconds of read speech, `(96000,)` at 16 kHz."""
    return _packaged("speech.flac")


@pytest.fixture(scope="session")
def music() -> NDArray[np.float32]:
    """Six seconds of a string orchestra, `(264600, 2)` at 44.1 kHz."""
    return _packaged("music.ogg")


@pytest.fixture(scope="session")
def strings(music: NDArray[np.float32]) -> NDArray[np.float32]:
    """The music as the network gets it: one channel, `(96000,)` at 16 kHz."""
    return soxr.resample(music[:, 0], 44_100, SAMPLE_RATE)[: 6 * SEGMENT_SAMPLES]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests together in one process that share an expensive fixture of their module, and start with those."""
    for item in items:
        if item.path.parent.name in ("bench", "train"):
            callspec = getattr(item, "callspec", None)
            variant = callspec.params.get("variant", "") if callspec else ""
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem} {variant}"))
    items.sort(key=lambda item: item.path.parent.name not in ("bench", "train"))
