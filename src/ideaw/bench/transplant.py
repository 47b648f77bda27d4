"""A copy attack that needs neither key nor original: the pattern of a mark is learned, and marked on other audio.

The network is public, and hears every tile's sign without the key; a short message repeats in every second, so a few
seconds average to the pattern. A found mark proves nothing by itself: what it leads to has to be compared with the
audio.
"""

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import EDGE_SAMPLES, FRAMES_PER_SECOND, HOP_SAMPLES
from ideaw.audio.spectrum import istft, level, level_spectrum
from ideaw.engine.gain import limit
from ideaw.engine.network import Network
from ideaw.keys import PUBLIC
from ideaw.modem.carriers import Carriers

TRANSPLANT_SNR_DB = 38.0
"""SNR of a transplanted mark: the level of the paper."""


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
    theirs, ours = (_whole_hops(audio) for audio in (marked, other))
    hops = ours.shape[1] // HOP_SAMPLES
    channels = network.channels(PUBLIC)  # any key: where tiles lie is the same for all
    code, state = network.locate(level_spectrum(theirs))
    streams = [
        _repeat_pattern(stream[0], carriers, hops)
        for stream, carriers in ((network.read(state), channels.message.carriers), (code, channels.code.carriers))
    ]
    residual = istft(network.mark(level_spectrum(ours), *streams))[:, EDGE_SAMPLES:][:, : ours.shape[1]]
    residual = (residual * level(ours))[0]
    return np.asarray(ours[0] + residual * limit(residual, ours[0], snr), np.float64)


def _repeat_pattern(stream: NDArray[np.float32], carriers: Carriers, hops: int) -> NDArray[np.float32]:
    """(heard hops, bins) → (1, hops, bins): the sign of each tile over all seconds, in every second."""
    seconds = len(stream) // FRAMES_PER_SECOND
    heard = stream[: seconds * FRAMES_PER_SECOND].reshape(seconds, FRAMES_PER_SECOND, -1)
    signs = np.sign(carriers.sum_tiles(carriers.sum_bins(heard)).sum(0))
    pattern = carriers.expand(signs).repeat(carriers.width, -1)
    return np.tile(pattern, (hops // FRAMES_PER_SECOND + 1, 1))[None, :hops]


def _whole_hops(audio: NDArray[np.floating]) -> NDArray[np.float32]:
    return audio[None, : len(audio) // HOP_SAMPLES * HOP_SAMPLES].astype(np.float32)
