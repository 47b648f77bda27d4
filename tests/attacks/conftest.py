"""One-second segments at 16 kHz, what the batched attacks work on, cut from the packaged samples."""

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES


@pytest.fixture(scope="session")
def segments(speech: NDArray[np.float32], music: NDArray[np.float32]) -> NDArray[np.float32]:
    """Four seconds of speech and four of music, `(8, 16000)`."""
    mixed = soxr.resample(music.mean(axis=1), 44_100, SAMPLE_RATE)
    return np.stack([audio[k * SEGMENT_SAMPLES :][:SEGMENT_SAMPLES] for audio in (speech, mixed) for k in range(1, 5)])
