"""A folder of real audio to measure."""

from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray


@pytest.fixture
def data(tmp_path: Path, speech: NDArray[np.float32], music: NDArray[np.float32]) -> Path:
    """Speech in a folder of its own, music by its name, and once more so quiet that segments leave it out."""
    folder = tmp_path / "audio"
    (folder / "talk").mkdir(parents=True)
    sf.write(folder / "talk" / "reading.flac", speech, 16_000)
    sf.write(folder / "music-strings.wav", music, 44_100)
    sf.write(folder / "music-quiet.wav", music * 1e-3, 44_100, subtype="FLOAT")
    return folder
