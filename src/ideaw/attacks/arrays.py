"""Every attack on audio as it lies in a file: numpy arrays (n,) or (n, channels) at any rate, real codecs,
a real resampler, no torch.

Each takes `samples` (float), `rate` in Hz, a random generator and its strength, and gives samples of the same
dtype and number of channels; only `crop`, `speed` and `tempo` change the length. Hours are worked through in blocks.
"""

import io
import math
from collections.abc import Callable
from functools import cache
from importlib import resources

import numpy as np
import soundfile
import soxr

from ideaw.attacks import codecs, dynamics, filters, responses, rooms
from ideaw.errors import IdeawError

VOCODER_BLOCK = 512
"""Frames that the phase vocoder makes at once."""

MEDIAN_BLOCK = 1 << 18
"""Samples of which medians are taken at once."""


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


def tempo(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    factor: float = 1.05,
    window: int = responses.STRETCH_WINDOW,
) -> np.ndarray:
    """`factor` times as fast at the same pitch, by a phase vocoder: n / factor samples."""
    _require(factor > 0, f"A tempo must be above 0, not {factor:g}.")
    _require(window >= 4 and window % 4 == 0, f"The window must be a multiple of 4 samples, not {window}.")
    return _per_channel(samples, lambda x: _vocode(x, factor, window))


def pitch(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    cents: float = 100.0,
    window: int = responses.STRETCH_WINDOW,
) -> np.ndarray:
    """Higher by `cents` (lower if negative) at the same tempo: a phase vocoder, then soxr."""
    _require(abs(cents) <= 2_400, f"The pitch moves by 2400 cents at most, not {cents:g}.")
    _require(window >= 4 and window % 4 == 0, f"The window must be a multiple of 4 samples, not {window}.")
    ratio = 2 ** (cents / 1200)
    return _per_channel(
        samples, lambda x: _fit(soxr.resample(_vocode(x, 1 / ratio, window), rate * ratio, rate), len(x))
    )


@cache
def _recordings(rate: int) -> np.ndarray:
    """(n,) at `rate` Hz: the packaged speech over the packaged music, at equal power."""
    out = []
    for name in ("speech.flac", "music.ogg"):
        packed = resources.files("ideaw").joinpath("samples", name).read_bytes()
        audio, own_rate = soundfile.read(io.BytesIO(packed), always_2d=True)
        mono = soxr.resample(audio.mean(1), own_rate, rate)
        out.append(mono / np.sqrt(np.mean(mono**2)))
    shortest = min(map(len, out))
    return out[0][:shortest] + out[1][:shortest]


def background(samples: np.ndarray, rate: int, rng: np.random.Generator, snr: float = 20.0) -> np.ndarray:
    """Someone speaking over music, from a random place on, at `snr` dB below the power of each channel."""
    recorded = _recordings(rate)
    added = np.resize(np.roll(recorded, -int(rng.integers(len(recorded)))), len(samples))
    power = max(float(np.mean(added**2)), 1e-12)
    return _per_channel(samples, lambda x: x + np.sqrt(np.mean(x**2) / power) * 10 ** (-snr / 20) * added)


def reverb(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    decay: float = 0.5,
    snr: float = 6.0,
    distance: float = 2.0,
) -> np.ndarray:
    """Add what a random room gives back, `snr` dB below the power of each channel; see `rooms.response`."""
    _require(0 < decay <= rooms.MOST_DECAY, f"A room's decay lies above 0 and up to 1 s, not at {decay:g}.")
    _require(distance > 0, f"A distance must be above 0 m, not {distance:g}.")
    taps = rooms.response(rate, rng, decay, distance)
    taps[0] = 0.0

    def one(x: np.ndarray) -> np.ndarray:
        wet = filters.convolve(x, taps)
        power = max(float(np.mean(wet**2)), 1e-20)
        return x + np.sqrt(np.mean(x**2) / power) * 10 ** (-snr / 20) * wet

    return _per_channel(samples, one)


def rerecord(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    distance: float = 1.0,
    decay: float = 0.3,
    snr: float = 30.0,
    low: float = 150.0,
    high: float = 7_000.0,
) -> np.ndarray:
    """Played in a random room and recorded `distance` metres away, simulated, at the power that it had: the room, pink
    noise at `snr` dB, and the band of a small loudspeaker and microphone from `low` to `high` Hz."""
    _require(0 < decay <= rooms.MOST_DECAY, f"A room's decay lies above 0 and up to 1 s, not at {decay:g}.")
    _require(distance > 0, f"A distance must be above 0 m, not {distance:g}.")
    _require(0 < low < min(high, rate / 2), f"A band from {low:g} to {high:g} Hz does not fit into {rate / 2:g} Hz.")
    taps = rooms.response(rate, rng, decay, distance)
    played = lowpass(highpass(samples, rate, rng, low, order=2), rate, rng, high, order=2)
    heard = noise(_per_channel(played, lambda x: filters.convolve(x, taps)), rate, rng, snr, tilt=1.0)
    before, after = (np.square(x, dtype=np.float64).mean(0) for x in (samples, heard))
    return (heard * np.sqrt(before / np.maximum(after, 1e-20))).astype(samples.dtype)


def compress(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    threshold: float = -18.0,
    ratio: float = 4.0,
    rise: float = 0.005,
    fall: float = 0.05,
) -> np.ndarray:
    """A compressor: levels above `threshold` dBFS rise by 1 dB for each `ratio` dB. With a high ratio, a limiter."""
    _require(ratio >= 1, f"A compressor's ratio must be at least 1, not {ratio:g}.")
    return dynamics.follow(samples, rate, rise, fall, lambda level: (1 / ratio - 1) * (level - threshold).clip(0, None))


def expand(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    threshold: float = -12.0,
    ratio: float = 2.0,
    rise: float = 0.005,
    fall: float = 0.05,
) -> np.ndarray:
    """An expander: levels below `threshold` dBFS fall by `ratio` dB for each dB, down to 40 dB less."""
    _require(ratio >= 1, f"An expander's ratio must be at least 1, not {ratio:g}.")
    return dynamics.follow(
        samples, rate, rise, fall, lambda level: ((ratio - 1) * (level - threshold)).clip(-40.0, 0.0)
    )


def equalise(
    samples: np.ndarray, rate: int, rng: np.random.Generator, least: float = 0.0, most: float = 3.0
) -> np.ndarray:
    """Each of the 24 bands of hearing up or down by `least` to `most` dB, at random."""
    _require(0 <= least <= most, f"An equaliser's gains go from 0 up, not from {least:g} to {most:g} dB.")
    bands = len(responses.BARK)
    gains = rng.uniform(least, most, bands) * rng.choice((-1.0, 1.0), bands)
    return _filter(samples, rate, lambda frequency: responses.bands(frequency, gains))


def jitter(samples: np.ndarray, rate: int, rng: np.random.Generator, scale: float = 0.1) -> np.ndarray:
    """An uneven clock: each sample is taken at a time that is off by `scale` samples (standard deviation)."""
    _require(scale >= 0, f"A jitter's scale must be 0 or more, not {scale:g}.")
    places = np.arange(len(samples))
    taken = places + scale * rng.standard_normal(len(samples))
    return _per_channel(samples, lambda x: np.interp(taken, places, x))


def smooth(samples: np.ndarray, rate: int, rng: np.random.Generator, window: int = 6) -> np.ndarray:
    """The mean of each sample and those before it, `window` in all."""
    _require(window >= 1, f"A window has at least 1 sample, not {window}.")
    return _per_channel(samples, lambda x: filters.convolve(x, np.full(window, 1 / window)))


def median(samples: np.ndarray, rate: int, rng: np.random.Generator, window: int = 3) -> np.ndarray:
    """The median of each sample and those around it, `window` in all."""
    _require(window >= 1 and window % 2 == 1, f"A median's window is an odd number of samples, not {window}.")

    def one(x: np.ndarray) -> np.ndarray:
        around = np.lib.stride_tricks.sliding_window_view(np.pad(x, window // 2, mode="edge"), window)
        return np.concatenate([np.median(around[k : k + MEDIAN_BLOCK], 1) for k in range(0, len(x), MEDIAN_BLOCK)])

    return _per_channel(samples, one)


def crush(samples: np.ndarray, rate: int, rng: np.random.Generator, levels: int = 64) -> np.ndarray:
    """`levels` steps from the lowest to the highest sample of each channel."""
    _require(levels >= 2, f"Quantisation needs at least 2 levels, not {levels}.")

    def one(x: np.ndarray) -> np.ndarray:
        low, step = x.min(), max(float(np.ptp(x)), 1e-12) / (levels - 1)
        return low + step * np.rint((x - low) / step)

    return _per_channel(samples, one)


def onechannel(samples: np.ndarray, rate: int, rng: np.random.Generator, keep: int = 0) -> np.ndarray:
    """All channels but the one numbered `keep` fall silent; mono stays as it is."""
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    _require(keep >= 0, f"Channels are numbered from 0, not {keep}.")
    return samples.copy() if channels == 1 else samples * (np.arange(channels) == min(keep, channels - 1))


def mono(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """The mean of all channels on each of them."""
    return samples.copy() if samples.ndim == 1 else np.repeat(samples.mean(1, keepdims=True), samples.shape[1], 1)


def overmark(samples: np.ndarray, rate: int, rng: np.random.Generator, snr: float = 36.0) -> np.ndarray:
    """A second mark of the shipped model, with another code and message, its seconds beginning at a random place.

    Its form for training is the network's own: `train/step.py` marks a share of each batch twice.
    """
    from ideaw.engine.network import Network
    from ideaw.keys import Key
    from ideaw.marker import DEFAULT_MODEL, Marker, model_folder

    begin = int(rng.integers(rate)) if len(samples) >= 2 * rate else 0
    other = Marker(Network(model_folder(DEFAULT_MODEL)), key=Key(rng.bytes(16)))
    marked = other.embed(samples[begin:], rate, rng.bytes(4), snr=snr)
    return np.concatenate([samples[:begin], marked])
