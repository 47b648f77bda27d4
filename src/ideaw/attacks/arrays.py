"""Every attack on audio as it lies in a file: numpy arrays (n,) or (n, channels) at any rate, real codecs,
a real resampler, no torch.

Each takes `samples` (float), `rate` in Hz, a random generator and its strength, and gives samples of the same
dtype and number of channels; only `crop` and `speed` change the length. Hours are worked through in blocks.
"""

import math
from collections.abc import Callable

import numpy as np
import soxr

from ideaw.attacks import codecs, filters, responses
from ideaw.errors import IdeawError

VOCODER_BLOCK = 512
"""Frames that the phase vocoder makes at once."""


def _require(ok: bool, what: str) -> None:
    if not ok:
        raise IdeawError(what)


def _per_channel(samples: np.ndarray, attack: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply to each channel in double precision; dtype as it was."""
    channels = [samples] if samples.ndim == 1 else list(samples.T)
    done = [attack(channel.astype(np.float64)) for channel in channels]
    return (done[0] if samples.ndim == 1 else np.stack(done, axis=1)).astype(samples.dtype)


def _filter(samples: np.ndarray, rate: int, response: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply a response, a function of the frequencies in Hz, to each channel."""
    return _per_channel(samples, lambda x: filters.respond(x, rate, response))


def _fit(samples: np.ndarray, n: int) -> np.ndarray:
    """Cut or fill with zeros to n samples."""
    return np.pad(samples[:n], [(0, max(0, n - len(samples)))] + [(0, 0)] * (samples.ndim - 1))


def _stretch_of(n: int, rng: np.random.Generator, share: float) -> tuple[int, int]:
    """Start and end of one stretch, `share` of n samples long, at a random place."""
    length = max(1, round(share * n))
    start = int(rng.integers(n - length + 1))
    return start, start + length


def noise(samples: np.ndarray, rate: int, rng: np.random.Generator, snr: float = 35.0, tilt: float = 0.0) -> np.ndarray:
    """Gaussian noise at `snr` dB below the power of each channel; white, or with its power falling as f^-tilt."""

    def one(x: np.ndarray) -> np.ndarray:
        added = rng.standard_normal(len(x))
        if tilt > 0:
            added = _filter(added, rate, lambda frequency: responses.tilt(frequency, tilt))
        level = np.sqrt(np.mean(x**2) / np.mean(added**2)) * 10 ** (-snr / 20)
        return x + level * added

    return _per_channel(samples, one)


def _pass(samples: np.ndarray, rate: int, cutoff: float, order: int, zero_phase: bool, high: bool) -> np.ndarray:
    _require(order >= 1, f"A filter's order must be at least 1, not {order}.")

    def response(frequency: np.ndarray) -> np.ndarray:
        h = filters.pass_response(frequency, rate, cutoff, order, high)
        return abs(h) ** 2 if zero_phase else h

    return _filter(samples, rate, response)


def lowpass(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    cutoff: float = 5_000.0,
    order: int = 8,
    zero_phase: bool = False,
    kind: str = "butterworth",
) -> np.ndarray:
    """Low-pass at `cutoff` Hz: a Butterworth filter of `order` run forwards (or, `zero_phase`, forwards and
    backwards), or with `kind` "steep" a symmetric FIR near to a brick wall. Above half the rate it does nothing."""
    _require(cutoff > 0, f"The cutoff must be above 0 Hz, not {cutoff:g}.")
    _require(kind in ("butterworth", "steep"), f"A low-pass is of kind butterworth or steep, not {kind}.")
    if cutoff >= rate / 2:
        return samples.copy()
    if kind == "steep":
        half = responses.FIR_TRANSITION / 2
        return _filter(samples, rate, lambda frequency: responses.fall(frequency, cutoff - half, cutoff + half))
    return _pass(samples, rate, cutoff, order, zero_phase, high=False)


def highpass(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    cutoff: float = 300.0,
    order: int = 4,
    zero_phase: bool = False,
) -> np.ndarray:
    """Butterworth high-pass at `cutoff` Hz, run forwards or, `zero_phase`, forwards and backwards."""
    _require(0 < cutoff < rate / 2, f"The cutoff must lie between 0 and {rate / 2:g} Hz, not at {cutoff:g}.")
    return _pass(samples, rate, cutoff, order, zero_phase, high=True)


def mp3(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: int = 64) -> np.ndarray:
    """MP3 by LAME at a constant bitrate (of the whole file, as far as the rate allows it), and back."""
    _require(kbps > 0, f"A bitrate must be above 0 kbit/s, not {kbps}.")
    return codecs.mp3(samples, rate, kbps)


def vorbis(samples: np.ndarray, rate: int, rng: np.random.Generator, quality: float = 0.4) -> np.ndarray:
    """Ogg Vorbis at a quality from 0 to 1, and back."""
    _require(0 <= quality <= 1, f"Vorbis has qualities from 0 to 1, not {quality:g}.")
    return codecs.vorbis(samples, rate, quality)


def opus(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: int = 32) -> np.ndarray:
    """Ogg Opus at `kbps` per channel, and back."""
    _require(kbps > 0, f"A bitrate must be above 0 kbit/s, not {kbps}.")
    return codecs.opus(samples, rate, kbps)


def aac(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: int = 64) -> np.ndarray:
    """AAC by FFmpeg, and back; needs PyAV."""
    _require(kbps > 0, f"A bitrate must be above 0 kbit/s, not {kbps}.")
    return codecs.aac(samples, rate, kbps)


def quantise(
    samples: np.ndarray, rate: int, rng: np.random.Generator, levels: int = 512, midrise: bool = False
) -> np.ndarray:
    """`levels` steps over [-1, 1]; zero is a level, or with `midrise` lies between two."""
    _require(levels >= 2, f"Quantisation needs at least 2 levels, not {levels}.")
    half, offset = levels / 2, 0.5 if midrise else 0.0
    level = np.floor(samples * half + (0.5 - offset)) + offset
    return (level.clip(offset - half, offset + half - 1) / half).astype(samples.dtype)


def dropout(samples: np.ndarray, rate: int, rng: np.random.Generator, share: float = 0.001) -> np.ndarray:
    """Exactly `share` of the samples, at random places of each channel, become zero."""
    _require(0 <= share <= 1, f"A share lies between 0 and 1, not at {share:g}.")

    def one(x: np.ndarray) -> np.ndarray:
        x[rng.choice(len(x), round(share * len(x)), replace=False)] = 0.0
        return x

    return _per_channel(samples, one)


def resample(samples: np.ndarray, rate: int, rng: np.random.Generator, ratio: float = 2.0) -> np.ndarray:
    """To `ratio` times the rate and back, by soxr."""
    _require(ratio > 0, f"A ratio of rates must be above 0, not {ratio:g}.")
    there = soxr.resample(samples, rate, rate * ratio)
    return _fit(soxr.resample(there, rate * ratio, rate), len(samples))


def amplitude(samples: np.ndarray, rate: int, rng: np.random.Generator, gain: float = 0.9) -> np.ndarray:
    """Multiply by `gain`, clip at full scale."""
    return (samples * gain).clip(-1.0, 1.0).astype(samples.dtype)


def _vocode(x: np.ndarray, speed: float, size: int) -> np.ndarray:
    """Phase vocoder: `x` (n,) played `speed` times as fast, (round(n / speed),); see the batched form."""
    hop = size // 4
    window = np.hanning(size + 1)[:-1]
    frames = 1 + len(x) // hop
    made = responses.stretched_frames(frames, speed)
    padded = np.pad(x, (size // 2, size // 2 + 2 * hop))
    y = np.zeros((made - 1) * hop + size)
    weight = np.zeros_like(y)
    phase = np.zeros(size // 2 + 1)
    for first in range(0, made, VOCODER_BLOCK):
        steps = np.arange(first, min(first + VOCODER_BLOCK, made)) * speed
        left = steps.astype(np.int64)
        share = (steps - left)[:, None]
        taken = np.arange(left[0], left[-1] + 2)
        spectrum = np.fft.rfft(padded[np.minimum(taken, frames - 1)[:, None] * hop + np.arange(size)] * window)
        spectrum[taken >= frames] = 0.0
        here, there = spectrum[left - left[0]], spectrum[left - left[0] + 1]
        magnitude = (1 - share) * abs(here) + share * abs(there)
        if first == 0:
            phase = np.angle(here[0])
        advance = np.cumsum(np.angle(there) - np.angle(here), axis=0)
        phases = phase + np.concatenate((np.zeros((1, len(phase))), advance[:-1]))
        phase = (phase + advance[-1]) % (2 * math.pi)
        for k, piece in enumerate(np.fft.irfft(magnitude * np.exp(1j * phases), size) * window, first):
            y[k * hop : k * hop + size] += piece
            weight[k * hop : k * hop + size] += window**2
    y /= np.maximum(weight, 1e-6)
    return _fit(y[size // 2 :], round(len(x) / speed))


def _interpolate(x: np.ndarray, n: int) -> np.ndarray:
    """Linear interpolation of `x` at n places, evenly over its length."""
    return np.interp((np.arange(n) + 0.5) * (len(x) / n) - 0.5, np.arange(len(x)), x)


def stretch(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    length: float = 0.9,
    window: int = responses.STRETCH_WINDOW,
    kind: str = "vocoder",
) -> np.ndarray:
    """To `length` times the length and back to the original one: by a phase vocoder both times, or with
    `kind` "linear" by linear interpolation."""
    _require(length > 0, f"A length must be above 0, not {length:g}.")
    _require(window >= 4 and window % 4 == 0, f"The window must be a multiple of 4 samples, not {window}.")
    _require(kind in ("vocoder", "linear"), f"A stretch is of kind vocoder or linear, not {kind}.")

    def one(x: np.ndarray) -> np.ndarray:
        if kind == "linear":
            return _interpolate(_interpolate(x, max(1, round(len(x) * length))), len(x))
        return _fit(_vocode(_vocode(x, 1 / length, window), length, window), len(x))

    return _per_channel(samples, one)


def polarity(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """Upside down."""
    return -samples


def shift(samples: np.ndarray, rate: int, rng: np.random.Generator, seconds: float = 0.1) -> np.ndarray:
    """Later by `seconds` (earlier if negative), in whole samples; zeros move in, the length stays."""
    by, n = round(seconds * rate), len(samples)
    shifted = np.zeros_like(samples)
    if abs(by) < n:
        shifted[max(0, by) : n + min(0, by)] = samples[max(0, -by) : n - max(0, by)]
    return shifted


def crop(samples: np.ndarray, rate: int, rng: np.random.Generator, keep: float = 0.5) -> np.ndarray:
    """Cut out one stretch of `keep` times the length at a random place; the rest is gone."""
    _require(0 < keep <= 1, f"The share to keep lies above 0 and up to 1, not at {keep:g}.")
    start, end = _stretch_of(len(samples), rng, keep)
    return samples[start:end].copy()


def splice(
    samples: np.ndarray, rate: int, rng: np.random.Generator, share: float = 0.25, other: np.ndarray | None = None
) -> np.ndarray:
    """One stretch of `share` of the length at a random place is replaced by the same stretch of `other`; without
    it, by itself played backwards, the one unmarked audio at hand that sounds alike."""
    _require(0 < share <= 1, f"A share lies above 0 and up to 1, not at {share:g}.")
    start, end = _stretch_of(len(samples), rng, share)
    spliced = samples.copy()
    spliced[start:end] = samples[start:end][::-1] if other is None else other[start:end]
    return spliced


def speed(samples: np.ndarray, rate: int, rng: np.random.Generator, factor: float = 1.05) -> np.ndarray:
    """`factor` times as fast, pitch and all, by soxr: n / factor samples."""
    _require(factor > 0, f"A speed must be above 0, not {factor:g}.")
    return soxr.resample(samples, rate * factor, rate)


def echo(samples: np.ndarray, rate: int, rng: np.random.Generator, delay: float = 0.1, gain: float = 0.3) -> np.ndarray:
    """Add the audio itself, `delay` seconds later, times `gain`."""
    _require(delay >= 0, f"An echo comes after 0 seconds or more, not {delay:g}.")
    return (samples + gain * shift(samples, rate, rng, delay)).astype(samples.dtype)


def overmark(samples: np.ndarray, rate: int, rng: np.random.Generator, snr: float = 36.0) -> np.ndarray:
    """A second mark of the shipped model, with another code and message, its seconds beginning at a random place.

    Its form for training is the network's own: `train/step.py` marks a share of each batch twice.
    """
    from ideaw.engine.network import Network
    from ideaw.marker import DEFAULT_MODEL, Marker, model_folder
    from ideaw.payload.keys import Key

    begin = int(rng.integers(rate)) if len(samples) >= 2 * rate else 0
    other = Marker(Network(model_folder(DEFAULT_MODEL)), key=Key(rng.bytes(16)))
    marked = other.embed(samples[begin:], rate, rng.bytes(4), snr=snr)
    return np.concatenate([samples[:begin], marked])
