"""What the benchmarks are tried on: a folder of real audio, a network of one stage, and a browser for their pages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from tests.chromium import chromium


@pytest.fixture
def data(tmp_path: Path, speech: NDArray[np.float32], music: NDArray[np.float32]) -> Path:
    """Speech in a folder of its own, music by its name, and once more so quiet that segments leave it out."""
    folder = tmp_path / "audio"
    (folder / "talk").mkdir(parents=True)
    sf.write(folder / "talk" / "reading.flac", speech, 16_000)
    sf.write(folder / "music-strings.wav", music, 44_100)
    sf.write(folder / "music-quiet.wav", music * 1e-3, 44_100, subtype="FLOAT")
    return folder


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A single-stage network of 56 bits, untrained, with a strong mark."""
    import torch

    from ideaw.nets.config import NetConfig
    from ideaw.nets.model import Ideaw
    from ideaw.train.export import export_model

    torch.manual_seed(1)
    sizes = {"message_blocks": 1, "code_blocks": 0, "message_width": 8, "balance_blocks": 0}
    folder = tmp_path_factory.mktemp("single")
    export_model(Ideaw(NetConfig(56, 0, 120, 0, **sizes)), folder, 6.0, {})
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium, driven by Playwright; closed after each module, since a process can drive only once."""
    with chromium() as opened:
        yield opened
