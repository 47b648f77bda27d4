"""Attacks that need neither key nor original: the pattern of a mark is learned, and written again, or its negative is.

The network is public, and hears every tile's sign without the key; a short message repeats in every second, so a few
seconds average to the pattern. A found mark proves nothing by itself: what it leads to has to be compared with the
audio.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import run_stage
from ideaw.audio.grid import EDGE_SAMPLES, FRAMES_PER_SECOND, HOP_SAMPLES
from ideaw.audio.spectrum import istft, level, level_spectrum
from ideaw.engine.embedder import Embedder
from ideaw.engine.gain import MarkLevel, limit
from ideaw.engine.mixer import EmbedSettings
from ideaw.engine.network import Network
from ideaw.keys import PUBLIC
from ideaw.modem.carriers import Carriers, KeyedCarriers
from ideaw.modem.channel import BitChannel

TRANSPLANT_SNR_DB = 38.0
"""SNR of a transplanted mark: the level of the paper."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """What a mark repeats in every second, as anybody can learn it.

    Attributes:
        message: (tiles,) of ±1, the signs of the message's tiles.
        code: (tiles,) of ±1, those of the locating code.
    """

    message: NDArray[np.float32]
    code: NDArray[np.float32]

    def __neg__(self) -> "Pattern":
        return Pattern(-self.message, -self.code)


def learn(network: Network, marked: NDArray[np.floating]) -> Pattern:
    """The pattern of marked audio, the mean over its whole seconds.

    Args:
        network: the model, as anybody has it.
        marked: (n,) samples at 16 kHz, a second or more, whose mark says the same in every second, from the first
            sample on.
    """
    channels = network.channels(PUBLIC)  # any key: where tiles lie is the same for all
    code, state = network.locate(level_spectrum(_whole_hops(marked)))
    return Pattern(
        _mean_signs(network.read(state)[0], channels.message.carriers), _mean_signs(code[0], channels.code.carriers)
    )


def write(
    network: Network, pattern: Pattern, audio: NDArray[np.floating], rate: int, mark_level: MarkLevel
) -> NDArray[np.floating]:
    """Audio with a pattern in every second, by the embedder and as strong as any of its marks.

    Args:
        network: the model, as anybody has it.
        pattern: what `learn` gave, or what was made of that.
        audio: (n, channels) float samples.
        rate: of the audio in Hz.
        mark_level: SNR or noise to mask in dB.
    """
    public, (snr, audibility) = network.channels(PUBLIC), mark_level
    message, code = public.message, public.code
    channels = replace(
        public,
        message=_with_signs(message, pattern.message, np.ones(message.carriers.slots, np.float32)),
        code=_with_signs(code, pattern.code, public.code_symbols),
    )
    settings = EmbedSettings(rate, audio.shape[1], snr, 0.0, audibility=audibility or 0.0)
    symbols = np.ones((1, message.carriers.slots), np.float32)
    return np.concatenate(list(run_stage(Embedder(network, channels, symbols, settings), [audio])))


def transplant(
    network: Network, marked: NDArray[np.floating], other: NDArray[np.floating], snr: float = TRANSPLANT_SNR_DB
) -> NDArray[np.float64]:
    """Other audio with the mark of some marked audio, a few seconds of each.

    Args:
        network: the model, as anybody has it.
        marked: (n,) samples at 16 kHz whose mark says the same in every second, from the first sample on.
        other: (m,) samples at 16 kHz.
        snr: dB that it keeps over its whole length.

    Returns:
        (m,) samples, but for the last that fill no hop.
    """
    ours, pattern, channels = _whole_hops(other), learn(network, marked), network.channels(PUBLIC)
    hops = ours.shape[1] // HOP_SAMPLES
    streams = [
        _repeat(signs, carriers, hops)
        for signs, carriers in (
            (pattern.message, channels.message.carriers),
            (pattern.code, channels.code.carriers),
        )
    ]
    residual = istft(network.mark(level_spectrum(ours), *streams))[:, EDGE_SAMPLES:][:, : ours.shape[1]]
    residual = (residual * level(ours))[0]
    return np.asarray(ours[0] + residual * limit(residual, ours[0], snr), np.float64)


def _mean_signs(stream: NDArray[np.float32], carriers: Carriers) -> NDArray[np.float32]:
    """(heard hops, bins) → (tiles,): the sign of each tile over all seconds."""
    seconds = len(stream) // FRAMES_PER_SECOND
    heard = stream[: seconds * FRAMES_PER_SECOND].reshape(seconds, FRAMES_PER_SECOND, -1)
    return np.asarray(np.sign(carriers.sum_tiles(carriers.sum_bins(heard)).sum(0)))


def _repeat(signs: NDArray[np.float32], carriers: Carriers, hops: int) -> NDArray[np.float32]:
    """(tiles,) → (1, hops, bins): the signs in every second."""
    pattern = carriers.expand(signs).repeat(carriers.width, -1)
    return np.tile(pattern, (hops // FRAMES_PER_SECOND + 1, 1))[None, :hops]


def _with_signs(channel: BitChannel, signs: NDArray[np.float32], symbols: NDArray[np.float32]) -> BitChannel:
    """The channel with other signs of its tiles (tiles,), so that these symbols (slots,) are sent as those signs."""
    carriers = channel.carriers
    assert isinstance(carriers, KeyedCarriers)
    return replace(channel, carriers=replace(carriers, sign_of_tile=signs * symbols[carriers.slot_of_tile]))


def _whole_hops(audio: NDArray[np.floating]) -> NDArray[np.float32]:
    return audio[None, : len(audio) // HOP_SAMPLES * HOP_SAMPLES].astype(np.float32)
