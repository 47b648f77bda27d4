"""Measuring what a locating code does to log-magnitudes, for the search of speeds (`engine/response.py`).

The packaged samples are marked with streams of random signs, each and its opposite, and the difference is regressed on
the signs: what a message or the host itself does is the same in both, or noise.
"""

from collections.abc import Iterator
from importlib import resources

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ideaw.audio.blocks import to_network_mono
from ideaw.audio.grid import FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.audio.read import read_audio
from ideaw.engine.response import RESPONSE_FRAMES, log_magnitudes, neighbours
from ideaw.modem.carriers import CODE_TILE_FRAMES, TILE_BINS, tile_bands
from ideaw.nets.config import NetConfig
from ideaw.nets.level import level, scale_to_snr
from ideaw.nets.model import Ideaw
from ideaw.nets.stft import istft, stft

SAMPLES = ("speech.flac", "music.ogg")
"""The packaged samples, six seconds each."""

MEASURED_DRAWS = 4
"""Streams that every second of the samples is marked with."""

MEASURED_SNR_DB = 38.0
"""Level of the marks: about that of shipped models, where changes of magnitudes are still small."""

RIDGE = 1e-2
"""Added to the diagonal of the regression, relative to it: signs are alike within a tile."""


def has_response(config: NetConfig) -> bool:
    """Whether a network's locating code changes magnitudes in a way that a response describes."""
    return config.domain == "magnitude" and config.carriers == "tiles" and config.code_bits > 0


@torch.no_grad()
def measure_response(model: Ideaw) -> NDArray[np.float16]:
    """The response of a network: (2 · RESPONSE_FRAMES + 1, tiles of a band, bins of a band)."""
    bins = model.config.squeeze
    tiles = bins // TILE_BINS
    width = (2 * RESPONSE_FRAMES + 1) * tiles
    gram, moments = np.zeros((width, width)), np.zeros((width, bins))
    for stream, change in _changes(model):
        inputs = neighbours(stream[:, ::TILE_BINS].reshape(FRAMES_PER_SECOND, -1, tiles)).reshape(-1, width)
        gram += inputs.T @ inputs
        moments += inputs.T @ change.reshape(-1, bins)
    gram += RIDGE * np.diag(np.diag(gram))
    return np.linalg.solve(gram, moments).reshape(-1, tiles, bins).astype(np.float16)


def _changes(model: Ideaw) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Streams of random signs, and what they change in the log-magnitudes of a second: (frames, bins) each."""
    audio = torch.from_numpy(np.concatenate([_seconds(name) for name in SAMPLES]))
    rms = level(audio)
    spectrum = torch.view_as_real(stft(audio / rms))
    rng = np.random.default_rng(0)
    for _ in range(MEASURED_DRAWS):
        message, code = (_random_streams(len(audio), model.stream_width, rng) for _ in range(2))
        heard = []
        for stream in (code, -code):
            residual = istft(torch.view_as_complex(model.mark(spectrum, message, stream).contiguous())) * rms
            marked = (audio + scale_to_snr(residual, audio, MEASURED_SNR_DB)).numpy()
            heard.append(np.stack([log_magnitudes(second)[:, : model.stream_width] for second in marked]))
        yield from zip(code.numpy(), (heard[0] - heard[1]) / 2, strict=True)


def _seconds(name: str) -> NDArray[np.float32]:
    """(seconds, SEGMENT_SAMPLES) of a packaged sample at the network's rate."""
    with resources.as_file(resources.files("ideaw").joinpath("samples", name)) as path:
        recording = read_audio(path)
    mono = to_network_mono(recording.samples, recording.rate)
    return mono[: len(mono) // SEGMENT_SAMPLES * SEGMENT_SAMPLES].reshape(-1, SEGMENT_SAMPLES)


def _random_streams(count: int, bins: int, rng: np.random.Generator) -> Tensor:
    """(count, FRAMES_PER_SECOND, bins) with a random sign in every tile of a locating code."""
    parts = []
    for band in tile_bands(bins, CODE_TILE_FRAMES):
        signs = 2 * rng.integers(0, 2, (count, band.time_tiles, band.freq_tiles)) - 1
        parts.append(signs.repeat(band.frames, 1).repeat(TILE_BINS, 2))
    return torch.from_numpy(np.concatenate(parts, 2).astype(np.float32))
