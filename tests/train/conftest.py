"""A folder of real audio to train on, and recipes of our kind and of the paper's that take seconds."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
import soxr
import torch
from msgspec.structs import replace
from numpy.typing import NDArray

from ideaw.nets.config import PAPER_NET, NetConfig
from ideaw.train.recipe import Losses, Recipe

OURS = Recipe(
    name="ours",
    net=NetConfig(6, 3, 8, 4, message_blocks=2, code_blocks=1, message_width=8, code_width=8, balance_width=8),
    steps=4,
    batch=4,
    snr=30.0,
    attacks={"mp3": 0.25, "overmark": 0.25, "splice": 0.25, "stretch": 0.25},
    attacks_from=0.5,
    jitter_ramp=0.3,
    warm_up=2,
    average=0.9,
)

THE_PAPERS = Recipe(
    name="the paper's",
    net=replace(
        PAPER_NET,
        message_bits=6,
        code_bits=3,
        message_slots=6,
        code_slots=3,
        message_blocks=2,
        code_blocks=1,
        message_width=4,
        code_width=4,
        balance_width=4,
        squeeze=20,
    ),
    steps=4,
    batch=2,
    snr=None,
    attacks=dict.fromkeys(
        ("noise", "lowpass", "mp3", "quantise", "dropout", "resample", "amplitude", "stretch"), 0.125
    ),
    attacks_from=0.5,
    losses=Losses("squared", message=1.0, code=1.0, first_stage=1.0, perceptual=0.1, identify=0.1),
    optimiser="adam",
    learning_rate=1e-3,
    betas=(0.9, 0.99),
    weight_decay=0.0,
    schedule="step",
    clip=0.0,
)


@pytest.fixture(params=[OURS, THE_PAPERS], ids=lambda recipe: recipe.name)
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return request.param


@pytest.fixture(scope="session")
def strings(music: NDArray[np.float32]) -> NDArray[np.float32]:
    """The music as training sees it, (96000,) at 16 kHz; no second of it is quiet."""
    return soxr.resample(music.mean(1), 44_100, 16_000)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32], music: NDArray[np.float32]) -> Path:
    """Two clips of speech as WAV at 16 kHz, two of music as stereo FLAC at 44.1 kHz."""
    root = tmp_path_factory.mktemp("audio")
    for name, samples, rate, kind in (("speech", speech, 16_000, "wav"), ("music", music, 44_100, "flac")):
        (root / name).mkdir()
        for i, half in enumerate(np.array_split(samples, 2)):
            sf.write(root / name / f"{i}.{kind}", half, rate)
    return root


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Small convolutions on more threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
