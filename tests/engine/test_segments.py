"""Segments of one second: the engine writes and reads what torch writes and reads, at exactly the level asked for."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ideaw.audio.grid import SEGMENT
from ideaw.engine.network import Network
from ideaw.engine.segments import BATCH, embed_segments, extract_segments, ring_istft, ring_stft
from ideaw.nets import spectrum
from ideaw.nets.model import Ideaw
from ideaw.train.export import load_weights


@pytest.fixture(scope="module")
def model(folder: Path) -> Ideaw:
    return load_weights(folder)


@pytest.fixture(scope="module")
def segments(speech: NDArray[np.float32], music: NDArray[np.float32]) -> NDArray[np.float32]:
    """Three seconds of speech and three of music, one of them as quiet as −76 dBFS, `(6, 16000)`."""
    chosen = np.concatenate([speech[: 3 * SEGMENT], music[: 3 * SEGMENT, 0]]).reshape(6, SEGMENT).copy()
    chosen[1] *= 0.2
    return chosen


@pytest.fixture(scope="module")
def bits(network: Network) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng(7)
    sizes = network.card.message_bits, network.card.code_bits
    message, code = (rng.choice([-1.0, 1.0], (6, size)).astype(np.float32) for size in sizes)
    return message, code


@pytest.fixture(scope="module")
def marked(
    network: Network, segments: NDArray[np.float32], bits: tuple[NDArray[np.float32], NDArray[np.float32]]
) -> NDArray[np.float32]:
    return embed_segments(network, segments, *bits, snr=network.card.snr).astype(np.float32)


def test_the_ring_is_that_of_torch() -> None:
    signal = np.random.default_rng(0).standard_normal((2, SEGMENT)).astype(np.float32)
    ours, theirs = ring_stft(signal), spectrum.stft(torch.from_numpy(signal), ring=True)
    assert np.abs(ours - theirs.numpy()).max() < 1e-5
    assert np.abs(ring_istft(ours) - spectrum.istft(theirs, ring=True).numpy()).max() < 1e-5
    assert np.abs(ring_istft(ours) - signal).max() < 1e-5


@pytest.mark.parametrize("snr", [15.0, 36.0])
def test_every_segment_is_at_exactly_the_asked_level(
    network: Network,
    segments: NDArray[np.float32],
    bits: tuple[NDArray[np.float32], NDArray[np.float32]],
    snr: float,
) -> None:
    audio = segments.astype(np.float64)
    added = embed_segments(network, audio, *bits, snr=snr) - audio
    measured = 10 * np.log10((audio**2).sum(1) / (added**2).sum(1))
    assert measured == pytest.approx(np.full(6, snr), abs=2e-4)
    assert measured.min() >= snr


def test_embedding_is_that_of_torch(
    model: Ideaw,
    network: Network,
    segments: NDArray[np.float32],
    bits: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> None:
    ours = embed_segments(network, segments, *bits, snr=network.card.snr, refine=False)
    with torch.no_grad():
        theirs = model.embed(*map(torch.from_numpy, (segments, *bits)), snr=network.card.snr).numpy()
    strength = np.linalg.norm(ours - segments, axis=1)
    assert (np.linalg.norm(ours - theirs, axis=1) < 1e-3 * strength).all()


def test_logits_are_those_of_torch(model: Ideaw, network: Network, marked: NDArray[np.float32]) -> None:
    with torch.no_grad():
        message, code = (logits.numpy() for logits in model.extract(torch.from_numpy(marked)))
    ours = extract_segments(network, marked)
    assert np.abs(ours[0] - message).max() < 1e-3
    assert np.abs(ours[1] - code[:, : network.card.code_bits]).max() < 1e-3


@pytest.mark.parametrize("polarity", [1, -1])
def test_bits_are_read_in_either_polarity(
    network: Network,
    bits: tuple[NDArray[np.float32], NDArray[np.float32]],
    marked: NDArray[np.float32],
    polarity: int,
) -> None:
    for logits, written in zip(extract_segments(network, polarity * marked), bits, strict=True):
        assert logits.shape == written.shape
        assert ((logits > 0) == (written > 0)).mean() > 0.98


def test_a_batch_is_read_as_its_segments_are(network: Network, marked: NDArray[np.float32]) -> None:
    many = np.concatenate([marked] * 3)
    assert len(many) > BATCH
    message, code = extract_segments(network, many)
    for place in (0, BATCH, len(many) - 1):
        alone = extract_segments(network, many[place : place + 1])
        assert np.abs(alone[0][0] - message[place]).max() < 1e-3
        assert np.abs(alone[1][0] - code[place]).max() < 1e-3


def test_silence_stays_silent(network: Network, bits: tuple[NDArray[np.float32], NDArray[np.float32]]) -> None:
    silence = np.zeros((6, SEGMENT), np.float32)
    assert not embed_segments(network, silence, *bits, snr=20).any()
    assert all(np.isfinite(logits).all() for logits in extract_segments(network, silence))
