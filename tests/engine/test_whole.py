"""Whole signals: blocks leave no trace, second after second is marked without seams, and any length works."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES, HOP, SEGMENT
from ideaw.engine import whole
from ideaw.engine.network import Network
from ideaw.engine.segments import extract_segments
from ideaw.train.export import load_weights


def _bits(network: Network, seconds: int, alike: bool = False) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng(3)
    messages = rng.choice([-1.0, 1.0], (seconds, network.card.message_bits)).astype(np.float32)
    if alike:
        messages[:] = messages[0]
    return messages, rng.choice([-1.0, 1.0], network.card.code_bits).astype(np.float32)


def _snrs(audio: NDArray[np.floating], residual: NDArray[np.floating]) -> NDArray[np.float64]:
    pieces = range(0, len(audio), SEGMENT)
    energy = [np.square(x, dtype=np.float64) for x in (audio, residual)]
    return np.array(
        [10 * np.log10(energy[0][p : p + SEGMENT].sum() / energy[1][p : p + SEGMENT].sum()) for p in pieces]
    )


def test_the_card_says_how_far_the_network_sees(folder: Path, network: Network) -> None:
    config = load_weights(folder).config
    seen = sum(kernel.shape[2] // 2 for kernel in _convolutions(load_weights(folder)))
    assert network.card.context == config.context
    assert seen == config.context


def _convolutions(model: torch.nn.Module) -> list[torch.Tensor]:
    """The kernels that follow one another from the received spectrum to the message."""
    return [layer.weight for layer in model.modules() if isinstance(layer, torch.nn.Conv2d)]


@pytest.mark.parametrize("length", [6 * SEGMENT, 5 * SEGMENT + 7777])
def test_blocks_leave_no_trace(network: Network, speech: NDArray[np.float32], length: int) -> None:
    audio = speech[:length]
    messages, code = _bits(network, 6)
    block = FRAMES + 11
    at_once = whole.residual(network, audio[None], messages, code, 20.0)
    in_blocks = whole.residual(network, audio[None], messages, code, 20.0, block=block)
    assert np.abs(at_once - in_blocks).max() < 1e-5
    for function in (whole.code_signal, whole.message_signal):
        signal = function(network, audio)
        # Signals are of order 1 to 100, so this is relative to them.
        assert np.abs(signal - function(network, audio, block=block)).max() < 1e-5 * max(1, np.abs(signal).max())


def test_every_second_keeps_its_snr(network: Network, speech: NDArray[np.float32]) -> None:
    audio = speech[: 5 * SEGMENT + 4321]
    messages, code = _bits(network, 6)
    for snr in (15.0, 36.0):
        residual = whole.residual(network, audio[None], messages, code, snr)[0]
        snrs = _snrs(audio, residual)
        assert snrs.min() >= snr - 1e-4
        assert snrs.max() < snr + 10


def test_nothing_jumps_at_the_borders_of_seconds(network: Network, music: NDArray[np.float32]) -> None:
    audio = music[: 6 * SEGMENT, 0].copy()
    audio[2 * SEGMENT : 3 * SEGMENT] *= 0.05
    messages, code = _bits(network, 6)
    residual = whole.residual(network, audio[None], messages, code, 20.0)[0]
    steps = np.abs(np.diff(residual))
    for border in range(SEGMENT, len(audio), SEGMENT):
        near = steps[border - 200 : border + 200]
        assert steps[border - 1] <= 1.05 * np.delete(near, 199).max()


def test_messages_differ_from_second_to_second(network: Network, speech: NDArray[np.float32]) -> None:
    messages, code = _bits(network, 6)
    marked = speech + whole.residual(network, speech[None], messages, code, network.card.snr)[0]
    read, read_code = extract_segments(network, marked.reshape(6, SEGMENT))
    assert ((read > 0) == (messages > 0)).mean() > 0.95
    assert ((read_code > 0) == (code > 0)).mean() > 0.97


def test_signals_are_those_that_were_written(network: Network, music: NDArray[np.float32]) -> None:
    audio = music[: 6 * SEGMENT, 0]
    messages, code = _bits(network, 6)
    marked = audio + whole.residual(network, audio[None], messages, code, network.card.snr)[0]
    read = network.message.to_bits(whole.message_signal(network, marked).reshape(6, SEGMENT))
    assert ((read > 0) == (messages > 0)).mean() > 0.95


def test_channels_are_marked_each_on_its_own(network: Network, speech: NDArray[np.float32]) -> None:
    audio = np.stack([speech[: 2 * SEGMENT], np.zeros(2 * SEGMENT, np.float32), speech[: 2 * SEGMENT]])
    messages, code = _bits(network, 2)
    calls: list[float] = []
    residual = whole.residual(network, audio, messages, code, 20.0, calls.append)
    alone = whole.residual(network, audio[:1], messages, code, 20.0)
    assert np.array_equal(residual[0], alone[0])
    assert np.array_equal(residual[2], residual[0])
    assert not residual[1].any()
    assert calls == sorted(calls)
    assert calls[-1] == 1.0


@pytest.mark.parametrize("length", [SEGMENT, SEGMENT + 1, SEGMENT + HOP - 1, 2 * SEGMENT - 1])
def test_any_length_works(network: Network, speech: NDArray[np.float32], length: int) -> None:
    audio = speech[:length]
    messages, code = _bits(network, -(-length // SEGMENT))
    residual = whole.residual(network, audio[None], messages, code, 20.0)
    assert residual.shape == (1, length)
    assert np.isfinite(residual).all()
    assert whole.code_signal(network, audio).shape == (length,)


def test_silent_seconds_carry_nothing_and_spoil_nothing(network: Network, speech: NDArray[np.float32]) -> None:
    audio = speech.copy()
    audio[2 * SEGMENT : 4 * SEGMENT] = 0
    messages, code = _bits(network, 6, alike=True)
    residual = whole.residual(network, audio[None], messages, code, network.card.snr)[0]
    assert not residual[2 * SEGMENT : 4 * SEGMENT].any()
    loud = [0, 1, 4, 5]
    assert (_snrs(audio[: 2 * SEGMENT], residual[: 2 * SEGMENT]) >= network.card.snr - 1e-4).all()
    read, _ = extract_segments(network, (audio + residual).reshape(6, SEGMENT)[loud])
    assert ((read > 0) == (messages[loud] > 0)).mean() > 0.9
