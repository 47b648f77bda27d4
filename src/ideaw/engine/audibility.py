"""The level of a mark by hearing: held down in every band and every few milliseconds, and set second by second.

The network adapts its residual to the host, but only at the resolution of its window of 62 ms. Here a band is lowered
where it would rise out of the mask (`limit_bands`), a moment where the host is soft just before or after it is loud
(`temporal_mask`), and every half second gets the gain with which the noise-to-mask ratio that is left reaches its
target (`GainByEar`).
"""

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import HOP_SAMPLES, NUM_BINS, WINDOW_SAMPLES
from ideaw.audio.hearing import (
    MASKING_HOP_SAMPLES,
    MASKING_WINDOW_SAMPLES,
    band_energies,
    quiet_energies,
    spl_scale,
)
from ideaw.audio.masking import BarkBands, masking_curve
from ideaw.audio.spectrum import HANN_WINDOW, SPECTRUM_SCALE
from ideaw.engine.gain import interpolate

MIN_SNR_BY_EAR_DB, MAX_SNR_BY_EAR_DB = 20.0, 54.0
"""Bounds of the SNR where the level is set by hearing: only in pauses would a mark be louder, and fainter it could
hardly be found."""

HIGH_BAND_HZ = 4_000.0
"""From here on codecs at low bitrates replace audio by noise, and a mark in it with it."""

LOW_BAND_HEADROOM_DB, HIGH_BAND_HEADROOM_DB = 50.0, 43.0
"""dB above the masking curve that a band of the network's residual may have, before the gain, below HIGH_BAND_HZ and
from there on: it has 44 on average. What is held down above lets the gain rise, for the mark below."""

SELF_MASKING_OFFSET_DB = 11.0
"""dB below the host's energy in a band up to which noise in it is masked at most, whatever other bands mask there."""

FORWARD_MASK_CELLS = 64
"""Cells after a sound in which it masks: 100 ms. Before it, it masks nothing here."""

CELL_SAMPLES = HOP_SAMPLES // 10
"""Samples whose power is taken together in time: 1.6 ms."""

FORWARD_MASK_DB_PER_CELL = 3.0
"""dB by which the mask falls in every cell after a sound: 19 dB in 10 ms."""

MIN_HEARD_POWER = 10**-9.0
"""Mean square, −90 dBFS, from which on a frame counts in the noise-to-mask ratio that a gain is found from."""

UNHEARD_WEIGHT = 1e-6
"""Weight of a fainter frame, which counts only where there are no others."""

_BANDS = BarkBands.for_window(WINDOW_SAMPLES, NUM_BINS)
_BAND_OF_BIN = _BANDS.inside.argmax(0)
_HEADROOM = np.where(
    _BANDS.hertz < HIGH_BAND_HZ, 10 ** (LOW_BAND_HEADROOM_DB / 10), 10 ** (HIGH_BAND_HEADROOM_DB / 10)
).astype(np.float32)
"""(bands,) over the masking curve, of energy."""
_SPL_OF_SPECTRUM = spl_scale(HANN_WINDOW) / SPECTRUM_SCALE**2
_WINDOW_POWER = np.square(HANN_WINDOW).reshape(-1, CELL_SAMPLES).mean(1)
_SPREAD = np.convolve(_WINDOW_POWER, _WINDOW_POWER) / _WINDOW_POWER.sum() ** 2
"""(79,) shares of a host's power in the cells of a residual: two windows spread it, of analysis and of synthesis."""


def limit_bands(
    host: NDArray[np.complex64], residual: NDArray[np.complex64], loudness: NDArray[np.floating]
) -> NDArray[np.complex64]:
    """The residual, with no band of any frame further above the masking curve of the host than its headroom.

    Between the tones of sparse music the curve is what spreads there from other bands. Noise that fills such a gap is
    heard as a new sound, so a band masks no more than the host's own energy in it allows.

    Args:
        host: (frames, NUM_BINS), at level 1.
        residual: (frames, NUM_BINS), as it leaves the network.
        loudness: (frames,), the level that the host was divided by.
    """
    power, noise = (np.square(spectrum.real) + np.square(spectrum.imag) for spectrum in (host, residual))
    quiet = quiet_energies(WINDOW_SAMPLES) / (_SPL_OF_SPECTRUM * np.square(loudness))[:, None]
    masked_by_itself = power @ _BANDS.inside.T * np.float32(10 ** (-SELF_MASKING_OFFSET_DB / 10))
    curve = np.minimum(masking_curve(power, _BANDS, np.log10), masked_by_itself)
    allowed = np.maximum(curve, quiet) * _HEADROOM
    energies = noise @ _BANDS.inside.T
    gains = np.sqrt(allowed / np.maximum(energies, allowed))
    return np.asarray(residual * gains.astype(np.float32)[:, _BAND_OF_BIN])


def temporal_mask(audio: NDArray[np.floating]) -> NDArray[np.float32]:
    """(n,) host at 16 kHz, n a multiple of HOP_SAMPLES → (n,) gains up to 1 for a residual under it.

    A residual is as loud as the host is under the windows of analysis and synthesis. Where the host's own power, or
    what it has just masked, is below that, so is the gain.
    """
    power = np.square(audio.reshape(-1, CELL_SAMPLES)).mean(1)
    spread = np.convolve(power, _SPREAD)[len(_SPREAD) // 2 :][: len(power)]
    mask, lag = power.copy(), 1
    while lag < FORWARD_MASK_CELLS:  # the decaying maximum over 2, 4, 8 … cells
        mask[lag:] = np.maximum(mask[lag:], mask[:-lag] * np.float32(10 ** (-lag * FORWARD_MASK_DB_PER_CELL / 10)))
        lag *= 2
    gains = np.sqrt(mask / np.maximum(np.maximum(spread, mask), np.finfo(np.float32).tiny))
    # Between two cells the gain is that of the softer one of the two before, so that it rises only after a sound began.
    before = np.concatenate([gains[:1], gains[:1], gains])
    borders = np.minimum(before[:-1], before[1:])
    moments = (np.arange(CELL_SAMPLES, dtype=np.float32) + 0.5) / CELL_SAMPLES
    return np.asarray(borders[:-1, None] + np.diff(borders)[:, None] * moments, np.float32).ravel()


class GainByEar:
    """The gain that brings a mark to a noise-to-mask ratio, from seconds at 16 kHz that come one by one.

    It has a node in the middle of each second and at its borders. A frame counts at a node by how near it is, down to
    nothing at the next node. There the squared gain is the one with which the mean ratio reaches its target, and from
    node to node it goes in a straight line: so what all nodes have on average, the whole has.

    Args:
        second: samples of a second at the rate of the gain.
        noise_to_mask: in dB, the mean over bands and over frames that hold sound.
    """

    def __init__(self, second: int, noise_to_mask: float) -> None:
        moments = (np.arange(second) + 0.5) / second
        half = second // 2
        self._rise, self._fall = 2 * moments[:half], 2 * moments[half:] - 1
        self._target = 10 ** (noise_to_mask / 10)
        self._middle: NDArray[np.float64] | None = None
        """The squared gain in the middle of the last second."""
        self._after: NDArray[np.float64] | float = 0.0
        """What the border after the last second has from it."""
        self._rest: NDArray[np.floating] | None = None
        """Host and residual (2, …, samples) from the next frame on."""

    def push(
        self, residual: NDArray[np.floating], audio: NDArray[np.floating], last: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The gain `(n, …)` from the middle before these seconds to the middle of their last, or to its end.

        Args:
            residual: (samples, seconds, …) of what is to be added, at 16 kHz.
            audio: the same of what it is added to.
            last: whether the audio ends with them.

        Returns:
            The gain, and the higher one `(seconds, …)` of the nodes before and in each second.
        """
        gains, highest = [], [np.empty((0, *audio.shape[2:]))]
        # Frames are taken along rows: far faster than along columns.
        seconds = np.moveaxis(np.stack([audio, residual]), (2, 1), (0, -1)).astype(np.float32, order="C")
        for second in seconds:
            before, inside, after = self._sums_at_nodes(second)
            border, middle = squared_gain(self._after + before, self._target), squared_gain(inside, self._target)
            if self._middle is not None:
                gains.append(interpolate(self._middle, border, self._fall))
            gains.append(interpolate(border, middle, self._rise))
            highest.append(np.sqrt(np.maximum(border, middle))[None])
            self._middle, self._after = middle, after
        if last:
            assert self._middle is not None
            gains.append(interpolate(self._middle, squared_gain(np.asarray(self._after), self._target), self._fall))
        whole = np.concatenate(gains)
        return np.sqrt(whole, out=whole), np.concatenate(highest)

    def _sums_at_nodes(self, second: NDArray[np.floating]) -> NDArray[np.float64]:
        """(2, …, samples), host and residual of the next second → (3, 4, …) sums over the frames that end in it.

        The nodes are the border before the second, its middle, and the border after it. Summed are, by nearness, the
        ratios of noise to mask times the weights of frames, these weights, and the powers of host and residual.
        """
        held = second[..., :0] if self._rest is None else self._rest
        samples = np.concatenate([held, second], -1)
        values = frame_values(samples)
        count = values.shape[-1]
        self._rest = samples[..., count * MASKING_HOP_SAMPLES :]
        centres = MASKING_WINDOW_SAMPLES / 2 - held.shape[-1] + MASKING_HOP_SAMPLES * np.arange(count)
        nodes = np.array([[0.0], [0.5], [1.0]])
        nearness = np.maximum(1 - 2 * np.abs(centres / second.shape[-1] - nodes), 0)
        return np.tensordot(nearness, values, (1, -1))


def frame_values(samples: NDArray[np.floating]) -> NDArray[np.float64]:
    """(2, …, samples), host and residual → (4, …, frames) of what gains are found from, to be summed over frames.

    These are the ratios of noise to mask times the weights of frames, these weights, and the powers of host and
    residual.
    """
    frames = np.lib.stride_tricks.sliding_window_view(samples, MASKING_WINDOW_SAMPLES, -1)
    frames = frames[..., ::MASKING_HOP_SAMPLES, :]
    _, curve, noise = band_energies(*frames)
    hops = samples[..., : (frames.shape[-2] + 1) * MASKING_HOP_SAMPLES]
    energies = np.square(hops).reshape(*hops.shape[:-1], -1, MASKING_HOP_SAMPLES).sum(-1)
    powers = (energies[..., 1:] + energies[..., :-1]) / MASKING_WINDOW_SAMPLES
    weights = np.where(powers[0] >= MIN_HEARD_POWER, 1.0, UNHEARD_WEIGHT)
    return np.stack([(noise / curve).mean(-1, dtype=np.float64) * weights, weights, *powers])


def squared_gain(sums: NDArray[np.float64], target: float, min_snr: float = MIN_SNR_BY_EAR_DB) -> NDArray[np.float64]:
    """The squared gain with which sums of `frame_values` reach a ratio of noise to mask, within the SNR's bounds."""
    ratio, weight, host, noise = sums
    lowest, most = (
        np.divide(host * 10 ** (-snr / 10), noise, out=np.zeros_like(host), where=noise > 0)
        for snr in (MAX_SNR_BY_EAR_DB, MIN_SNR_BY_EAR_DB)
    )
    wanted = target * weight / np.maximum(ratio, np.finfo(np.float32).tiny)
    return np.asarray(np.minimum(np.maximum(wanted, lowest), most))
