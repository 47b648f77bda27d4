"""Attacks on audio as files hold it: numpy arrays (n,) or (n, channels) at any rate, real codecs, no torch.

Each takes float `samples`, `rate` in Hz, a random generator and its strengths, and returns samples of the same dtype
and number of channels; only `crop`, `speed` and `tempo` change the length. Hours are processed in blocks. A strength
out of its range raises `IdeawError`.
"""

from collections.abc import Callable

import numpy as np
import soxr

from ideaw.attacks import codecs, filters, responses, vocoder
from ideaw.attacks.channels import fit_length, per_channel, require

MEDIAN_BLOCK_SAMPLES = 1 << 18
"""Samples whose medians are computed at once; bounds memory."""


def _filter(samples: np.ndarray, rate: int, response: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply a response, a function of the frequencies in Hz, to each channel."""
    return per_channel(samples, lambda x: filters.respond(x, rate, response))


def _random_span(n: int, rng: np.random.Generator, share: float) -> tuple[int, int]:
    """Start and end of one stretch, `share` of n samples long, at a random place."""
    length = max(1, round(share * n))
    start = int(rng.integers(n - length + 1))
    return start, start + length


def noise(samples: np.ndarray, rate: int, rng: np.random.Generator, snr: float = 35.0, tilt: float = 0.0) -> np.ndarray:
    """Add Gaussian noise `snr` dB below the power of each channel; white, or with its power falling as f^-tilt."""

    def one(x: np.ndarray) -> np.ndarray:
        added = rng.standard_normal(len(x))
        if tilt > 0:
            added = _filter(added, rate, lambda frequency: responses.tilt(frequency, tilt))
        level = np.sqrt(np.mean(x**2) / np.mean(added**2)) * 10 ** (-snr / 20)
        return np.asarray(x + level * added)

    return per_channel(samples, one)


def _pass(samples: np.ndarray, rate: int, cutoff: float, order: int, zero_phase: bool, high: bool) -> np.ndarray:
    require(order >= 1, f"a filter's order must be at least 1, not {order}")

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
    require(cutoff > 0, f"the cutoff must be above 0 Hz, not {cutoff:g}")
    require(kind in ("butterworth", "steep"), f"a low-pass is of kind butterworth or steep, not {kind}")
    if cutoff >= rate / 2:
        return samples.copy()
    if kind == "steep":
        half = responses.FIR_TRANSITION_HZ / 2
        return _filter(
            samples, rate, lambda frequency: responses.lowpass_taper(frequency, cutoff - half, cutoff + half)
        )
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
    require(0 < cutoff < rate / 2, f"the cutoff must lie between 0 and {rate / 2:g} Hz, not at {cutoff:g}")
    return _pass(samples, rate, cutoff, order, zero_phase, high=True)


def mp3(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: int = 64) -> np.ndarray:
    """MP3 by LAME at a constant bitrate (of the whole file, as far as the rate allows it), and back."""
    require(kbps > 0, f"a bitrate must be above 0 kbit/s, not {kbps}")
    return codecs.mp3(samples, rate, kbps)


def vorbis(samples: np.ndarray, rate: int, rng: np.random.Generator, quality: float = 0.4) -> np.ndarray:
    """Ogg Vorbis at a quality from 0 to 1, and back."""
    require(0 <= quality <= 1, f"Vorbis has qualities from 0 to 1, not {quality:g}")
    return codecs.vorbis(samples, rate, quality)


def opus(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: int = 32) -> np.ndarray:
    """Ogg Opus at `kbps` per channel, and back."""
    require(kbps > 0, f"a bitrate must be above 0 kbit/s, not {kbps}")
    return codecs.opus(samples, rate, kbps)


def aac(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: int = 64) -> np.ndarray:
    """AAC by FFmpeg, and back; needs PyAV."""
    require(kbps > 0, f"a bitrate must be above 0 kbit/s, not {kbps}")
    return codecs.aac(samples, rate, kbps)


def quantise(
    samples: np.ndarray, rate: int, rng: np.random.Generator, levels: int = 512, midrise: bool = False
) -> np.ndarray:
    """Quantise to `levels` levels over [-1, 1]; zero is a level, or with `midrise` lies between two."""
    require(levels >= 2, f"quantisation needs at least 2 levels, not {levels}")
    half, offset = levels / 2, 0.5 if midrise else 0.0
    level = np.floor(samples * half + (0.5 - offset)) + offset
    return (level.clip(offset - half, offset + half - 1) / half).astype(samples.dtype)


def dropout(samples: np.ndarray, rate: int, rng: np.random.Generator, share: float = 0.001) -> np.ndarray:
    """Set exactly `share` of the samples, at random places of each channel, to zero."""
    require(0 <= share <= 1, f"a share lies between 0 and 1, not at {share:g}")

    def one(x: np.ndarray) -> np.ndarray:
        x[rng.choice(len(x), round(share * len(x)), replace=False)] = 0.0
        return x

    return per_channel(samples, one)


def resample(samples: np.ndarray, rate: int, rng: np.random.Generator, ratio: float = 2.0) -> np.ndarray:
    """Resample to `ratio` times the rate and back, by soxr."""
    require(ratio > 0, f"a ratio of rates must be above 0, not {ratio:g}")
    there = soxr.resample(samples, rate, rate * ratio)
    return fit_length(soxr.resample(there, rate * ratio, rate), len(samples))


def amplitude(samples: np.ndarray, rate: int, rng: np.random.Generator, gain: float = 0.9) -> np.ndarray:
    """Multiply by `gain`, clip at full scale."""
    return (samples * gain).clip(-1.0, 1.0).astype(samples.dtype)


def stretch(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    length: float = 0.9,
    window: int = responses.VOCODER_WINDOW_SAMPLES,
    kind: str = "vocoder",
) -> np.ndarray:
    """To `length` times the length and back to the original one: by a phase vocoder both times, or with
    `kind` "linear" by linear interpolation."""
    require(length > 0, f"a length must be above 0, not {length:g}")
    require(window >= 4 and window % 4 == 0, f"the window must be a multiple of 4 samples, not {window}")
    require(kind in ("vocoder", "linear"), f"a stretch is of kind vocoder or linear, not {kind}")

    def one(x: np.ndarray) -> np.ndarray:
        if kind == "linear":
            return vocoder.interpolate(vocoder.interpolate(x, max(1, round(len(x) * length))), len(x))
        return fit_length(vocoder.change_tempo(vocoder.change_tempo(x, 1 / length, window), length, window), len(x))

    return per_channel(samples, one)


def polarity(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """Reverse the polarity: every sample times −1."""
    return -samples


def shift(samples: np.ndarray, rate: int, rng: np.random.Generator, seconds: float = 0.1) -> np.ndarray:
    """Delay by `seconds` (advance if negative), in whole samples; zeros fill the gap, the length stays."""
    by, n = round(seconds * rate), len(samples)
    shifted = np.zeros_like(samples)
    if abs(by) < n:
        shifted[max(0, by) : n + min(0, by)] = samples[max(0, -by) : n - max(0, by)]
    return shifted


def crop(samples: np.ndarray, rate: int, rng: np.random.Generator, keep: float = 0.5) -> np.ndarray:
    """Keep one stretch of `keep` times the length at a random place; the rest is removed."""
    require(0 < keep <= 1, f"the share to keep lies above 0 and up to 1, not at {keep:g}")
    start, end = _random_span(len(samples), rng, keep)
    return samples[start:end].copy()


def splice(
    samples: np.ndarray, rate: int, rng: np.random.Generator, share: float = 0.25, other: np.ndarray | None = None
) -> np.ndarray:
    """Replace one stretch of `share` of the length, at a random place, by the same stretch of `other`; without `other`,
    by itself played backwards, which sounds alike and carries no readable mark."""
    require(0 < share <= 1, f"a share lies above 0 and up to 1, not at {share:g}")
    start, end = _random_span(len(samples), rng, share)
    spliced = samples.copy()
    spliced[start:end] = samples[start:end][::-1] if other is None else other[start:end]
    return spliced


def speed(samples: np.ndarray, rate: int, rng: np.random.Generator, factor: float = 1.05) -> np.ndarray:
    """Resample by soxr to play `factor` times as fast, pitch included: n / factor samples."""
    require(factor > 0, f"a speed must be above 0, not {factor:g}")
    return np.asarray(soxr.resample(samples, rate * factor, rate))


def echo(samples: np.ndarray, rate: int, rng: np.random.Generator, delay: float = 0.1, gain: float = 0.3) -> np.ndarray:
    """Add the audio delayed by `delay` seconds and multiplied by `gain`."""
    require(delay >= 0, f"an echo comes after 0 seconds or more, not {delay:g}")
    return (samples + gain * shift(samples, rate, rng, delay)).astype(samples.dtype)


def tempo(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    factor: float = 1.05,
    window: int = responses.VOCODER_WINDOW_SAMPLES,
) -> np.ndarray:
    """Play `factor` times as fast at the same pitch, by a phase vocoder: n / factor samples."""
    require(factor > 0, f"a tempo must be above 0, not {factor:g}")
    require(window >= 4 and window % 4 == 0, f"the window must be a multiple of 4 samples, not {window}")
    return per_channel(samples, lambda x: vocoder.change_tempo(x, factor, window))


def pitch(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    cents: float = 100.0,
    window: int = responses.VOCODER_WINDOW_SAMPLES,
) -> np.ndarray:
    """Raise the pitch by `cents` (lower it if negative) at the same tempo: a phase vocoder, then soxr."""
    require(abs(cents) <= 2_400, f"the pitch moves by 2400 cents at most, not {cents:g}")
    require(window >= 4 and window % 4 == 0, f"the window must be a multiple of 4 samples, not {window}")
    ratio = 2 ** (cents / 1200)
    return per_channel(
        samples,
        lambda x: fit_length(soxr.resample(vocoder.change_tempo(x, 1 / ratio, window), rate * ratio, rate), len(x)),
    )


def equalise(
    samples: np.ndarray, rate: int, rng: np.random.Generator, least: float = 0.0, most: float = 3.0
) -> np.ndarray:
    """Raise or lower each of the 24 critical bands by `least` to `most` dB, at random."""
    require(0 <= least <= most, f"an equaliser's gains go from 0 up, not from {least:g} to {most:g} dB")
    bands = len(responses.BARK_CENTRES_HZ)
    gains = rng.uniform(least, most, bands) * rng.choice((-1.0, 1.0), bands)
    return _filter(samples, rate, lambda frequency: responses.equaliser(frequency, gains))


def jitter(samples: np.ndarray, rate: int, rng: np.random.Generator, scale: float = 0.1) -> np.ndarray:
    """Clock jitter: each sample is taken at a time that is off by `scale` samples (standard deviation)."""
    require(scale >= 0, f"a jitter's scale must be 0 or more, not {scale:g}")
    places = np.arange(len(samples))
    taken = places + scale * rng.standard_normal(len(samples))
    return per_channel(samples, lambda x: np.interp(taken, places, x))


def smooth(samples: np.ndarray, rate: int, rng: np.random.Generator, window: int = 6) -> np.ndarray:
    """Moving average of each sample and those before it, `window` in all."""
    require(window >= 1, f"a window has at least 1 sample, not {window}")
    return per_channel(samples, lambda x: filters.convolve(x, np.full(window, 1 / window)))


def median(samples: np.ndarray, rate: int, rng: np.random.Generator, window: int = 3) -> np.ndarray:
    """The median of each sample and those around it, `window` in all."""
    require(window >= 1 and window % 2 == 1, f"a median's window is an odd number of samples, not {window}")

    def one(x: np.ndarray) -> np.ndarray:
        around = np.lib.stride_tricks.sliding_window_view(np.pad(x, window // 2, mode="edge"), window)
        return np.concatenate(
            [np.median(around[k : k + MEDIAN_BLOCK_SAMPLES], 1) for k in range(0, len(x), MEDIAN_BLOCK_SAMPLES)]
        )

    return per_channel(samples, one)


def crush(samples: np.ndarray, rate: int, rng: np.random.Generator, levels: int = 64) -> np.ndarray:
    """Quantise to `levels` levels from the lowest to the highest sample of each channel."""
    require(levels >= 2, f"quantisation needs at least 2 levels, not {levels}")

    def one(x: np.ndarray) -> np.ndarray:
        low, step = x.min(), max(float(np.ptp(x)), 1e-12) / (levels - 1)
        return np.asarray(low + step * np.rint((x - low) / step))

    return per_channel(samples, one)


def onechannel(samples: np.ndarray, rate: int, rng: np.random.Generator, keep: int = 0) -> np.ndarray:
    """Silence all channels but the one numbered `keep`; mono stays as it is."""
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    require(keep >= 0, f"channels are numbered from 0, not {keep}")
    return samples.copy() if channels == 1 else samples * (np.arange(channels) == min(keep, channels - 1))


def mono(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """The mean of all channels on each of them."""
    return samples.copy() if samples.ndim == 1 else np.repeat(samples.mean(1, keepdims=True), samples.shape[1], 1)
