"""Whole signals: blocks leave no trace, silence says nothing, and any length works."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES, HOP, SEGMENT
from ideaw.audio.level import level
from ideaw.audio.spectrum import stft
from ideaw.engine import whole
from ideaw.engine.network import Network

Bits = tuple[NDArray[np.integer], NDArray[np.integer]]
"""Zeros and ones: (seconds, message_bits) and (code_bits,)."""


def _bits(network: Network, seconds: int) -> Bits:
    rng = np.random.default_rng(3)
    return rng.integers(0, 2, (seconds, network.card.message_bits)), rng.integers(0, 2, network.card.code_bits)


# Blocks


def test_the_card_says_how_far_the_network_sees(network: Network, strings: NDArray[np.float32]) -> None:
    spectrum = stft(strings / level(strings))[None]
    changed, moment = spectrum.copy(), 3 * FRAMES
    changed[:, moment] *= 3
    message, code = (
        kind.carriers.stream(np.ones((6, len(kind.carriers.write)))) for kind in (network.message, network.code)
    )
    streams = [stream.reshape(1, 6 * FRAMES, -1) for stream in (message, code)]
    for function in (
        lambda host: network.mark(host, *streams),
        lambda received: network.read(network.locate(received)[1]),
    ):
        touched = np.flatnonzero(np.abs(function(changed) - function(spectrum)).max((0, 2)) > 1e-6)
        assert moment - network.card.context <= touched.min() < moment < touched.max() <= moment + network.card.context


@pytest.mark.parametrize("length", [6 * SEGMENT, 5 * SEGMENT + 7777])
@pytest.mark.parametrize("block", [FRAMES + 11, 2 * FRAMES])
def test_blocks_leave_no_trace(network: Network, speech: NDArray[np.float32], length: int, block: int) -> None:
    audio = speech[:length]
    for function in (whole.code_stream, whole.message_stream):
        stream = function(network, audio)
        assert stream.shape == (-(-length // HOP), network.card.bins // network.code.carriers.tile[1])
        assert stream.dtype == np.float32
        assert np.abs(stream - function(network, audio, block=block)).max() < 1e-4 * np.abs(stream).max()


# Lengths, silence, progress


@pytest.mark.parametrize("length", [1, HOP, HOP + 1, SEGMENT // 2, SEGMENT, SEGMENT + 1, 2 * SEGMENT - 1])
def test_any_length_works(network: Network, strings: NDArray[np.float32], length: int) -> None:
    audio = strings[:length]
    for stream in (whole.code_stream(network, audio), whole.message_stream(network, audio)):
        assert len(stream) == -(-length // HOP)
        assert np.isfinite(stream).all()


def test_silence_says_nothing(network: Network, speech: NDArray[np.float32]) -> None:
    audio = np.concatenate([speech[: 2 * SEGMENT], np.zeros(2 * SEGMENT, np.float32)])
    for function in (whole.code_stream, whole.message_stream):
        stream = function(network, audio)
        assert stream[: 2 * FRAMES].any(-1).all()
        assert not stream[2 * FRAMES + 2 :].any()  # windows reach over the border
        assert not function(network, np.zeros(SEGMENT, np.float32)).any()


def test_progress_grows_up_to_all(network: Network, strings: NDArray[np.float32]) -> None:
    audio = np.stack([strings[: 3 * SEGMENT], strings[3 * SEGMENT :], strings[: 3 * SEGMENT]])
    for work in (
        lambda told: whole.residual(network, audio, *_bits(network, 3), 20.0, told),
        lambda told: whole.code_stream(network, audio[0], told, block=FRAMES),
        lambda told: whole.message_stream(network, audio[0], told, block=FRAMES),
    ):
        shares: list[float] = []
        work(shares.append)
        assert len(shares) >= 3
        assert shares == sorted(shares)
        assert 0 < shares[0] < 0.5
        assert shares[-1] == 1.0
    halves: list[float] = []
    second_half = whole.part(halves.append, 0.5, 1.0)
    assert second_half is not None
    second_half(0.5)
    assert halves == [0.75]
    assert whole.part(None, 0.0, 1.0) is None
