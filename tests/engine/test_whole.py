"""Whole signals: blocks leave no trace, second after second is marked without seams, and any length works."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES, HOP, SEGMENT
from ideaw.audio.level import level
from ideaw.audio.spectrum import stft
from ideaw.engine import whole
from ideaw.engine.network import Network
from ideaw.engine.segments import extract_segments

Bits = tuple[NDArray[np.integer], NDArray[np.integer]]
"""Zeros and ones: (seconds, message_bits) and (code_bits,)."""


def _bits(network: Network, seconds: int) -> Bits:
    rng = np.random.default_rng(3)
    return rng.integers(0, 2, (seconds, network.card.message_bits)), rng.integers(0, 2, network.card.code_bits)


def _snrs(audio: NDArray[np.floating], residual: NDArray[np.floating]) -> NDArray[np.float64]:
    """SNR in dB of every second, the last of which may be shorter; ∞ where nothing was added."""
    starts = np.arange(0, len(audio), SEGMENT)
    energy, added = (np.add.reduceat(np.square(x, dtype=np.float64), starts) for x in (audio, residual))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(added > 0, 10 * np.log10(energy / added), np.inf)


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
    bits = _bits(network, 6)
    at_once = whole.residual(network, audio[None], *bits, 20.0)
    in_blocks = whole.residual(network, audio[None], *bits, 20.0, block=block)
    assert np.abs(at_once - in_blocks).max() < 1e-4 * np.abs(at_once).max()
    for function in (whole.code_stream, whole.message_stream):
        stream = function(network, audio)
        assert stream.shape == (-(-length // HOP), network.card.bins // network.code.carriers.tile[1])
        assert stream.dtype == np.float32
        assert np.abs(stream - function(network, audio, block=block)).max() < 1e-4 * np.abs(stream).max()


# Marks


def test_every_second_keeps_its_snr(network: Network, speech: NDArray[np.float32]) -> None:
    audio = speech[: 5 * SEGMENT + 4321]
    for snr in (15.0, 38.0):
        residual = whole.residual(network, audio[None], *_bits(network, 6), snr)[0]
        snrs = _snrs(audio, residual)
        assert snrs.min() >= snr - 1e-4
        assert snrs.max() < snr + 10


def test_nothing_jumps_at_the_borders_of_seconds(network: Network, strings: NDArray[np.float32]) -> None:
    # The third second is far quieter than those around it, and more so for the mark, which may not exceed it.
    gain = np.interp(np.arange(len(strings)) / SEGMENT, [1.9, 2.1, 2.9, 3.1], [1, 0.05, 0.05, 1])
    audio = (strings * gain).astype(np.float32)
    residual = whole.residual(network, audio[None], *_bits(network, 6), 20.0)[0]
    steps = np.abs(np.diff(residual))
    for border in range(1, 6):
        near = steps[border * SEGMENT - 200 : border * SEGMENT + 200]
        assert near[199] <= 1.05 * np.delete(near, 199).max()


def test_messages_differ_from_second_to_second(network: Network, strings: NDArray[np.float32]) -> None:
    messages, code = _bits(network, 6)
    marked = strings + whole.residual(network, strings[None], messages, code, network.card.snr)[0]
    # Windows and level reach over the borders of seconds, and so does what the network sees.
    for carriers, logits in (
        (network.message, whole.message_stream(network, marked)),
        (network.code, whole.code_stream(network, marked)),
    ):
        seconds = carriers.carriers.logits(logits.reshape(6, FRAMES, -1))
        written = messages if carriers is network.message else np.tile(code, (6, 1))
        assert ((carriers.code.decode(seconds) > 0) == (written > 0)).mean() > 0.98


def test_seconds_can_be_read_as_segments(network: Network, speech: NDArray[np.float32]) -> None:
    messages, code = _bits(network, 6)
    marked = speech + whole.residual(network, speech[None], messages, code, network.card.snr)[0]
    read, read_code = extract_segments(network, marked.reshape(6, SEGMENT))
    assert ((read > 0) == (messages > 0)).mean() > 0.95
    assert ((read_code > 0) == (code > 0)).mean() > 0.95


def test_channels_are_marked_each_on_its_own(
    network: Network, speech: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    one, other = speech[-2 * SEGMENT :], strings[: 2 * SEGMENT]
    audio = np.stack([one, np.zeros(2 * SEGMENT, np.float32), one, other])
    bits = _bits(network, 2)
    residual = whole.residual(network, audio, *bits, 20.0)
    assert residual.shape == audio.shape
    for channel in (0, 3):
        assert np.array_equal(residual[channel], whole.residual(network, audio[[channel]], *bits, 20.0)[0])
    assert np.array_equal(residual[2], residual[0])
    assert not residual[1].any()


# Lengths, silence, progress


@pytest.mark.parametrize("length", [1, HOP, HOP + 1, SEGMENT // 2, SEGMENT, SEGMENT + 1, 2 * SEGMENT - 1])
def test_any_length_works(network: Network, strings: NDArray[np.float32], length: int) -> None:
    audio = strings[:length]
    residual = whole.residual(network, audio[None], *_bits(network, -(-length // SEGMENT)), 20.0)
    assert residual.shape == (1, length)
    assert np.isfinite(residual).all()
    assert _snrs(audio, residual[0]).min() >= 20 - 1e-4
    for stream in (whole.code_stream(network, audio), whole.message_stream(network, audio)):
        assert len(stream) == -(-length // HOP)
        assert np.isfinite(stream).all()


def test_silent_seconds_carry_nothing_and_spoil_nothing(network: Network, strings: NDArray[np.float32]) -> None:
    audio = strings.copy()
    audio[2 * SEGMENT : 4 * SEGMENT] = 0
    messages, code = _bits(network, 6)
    residual = whole.residual(network, audio[None], messages, code, network.card.snr)[0]
    assert not residual[2 * SEGMENT : 4 * SEGMENT].any()
    assert _snrs(audio, residual).min() >= network.card.snr - 1e-4
    logits = network.message.carriers.logits(whole.message_stream(network, audio + residual).reshape(6, FRAMES, -1))
    loud = [0, 1, 4, 5]
    assert ((network.message.code.decode(logits[loud]) > 0) == (messages[loud] > 0)).mean() > 0.95


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
        lambda told: whole.residual(network, audio, *_bits(network, 3), 20.0, told, block=FRAMES),
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
