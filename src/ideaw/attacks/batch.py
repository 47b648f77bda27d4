"""Every attack as a layer for training: batches of 16 kHz segments, on the device, with a gradient.

The arrays' forms in `arrays.py` are the real thing; these follow them closely (the tests hold them against
each other) but never wait for the device, and let a gradient through: the true one where there is one, else
straight through. Only the codecs leave the device, because they are the real encoders; `coarse` stands in for AAC.

A strength on a scale is a number (exactly that) or a pair (low, high) to draw from, per sample unless the
docstring says per call. A strength that is a choice is one value or a tuple to choose from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ideaw.attacks import filters, responses, rooms
from ideaw.attacks.codecs import mp3_clips, opus_clips, vorbis_clips
from ideaw.audio.grid import SAMPLE_RATE

Strength = float | tuple[float, float]
ROOMS = 64
"""Rooms that audio is recorded again in: drawn once, since a response takes a CPU longer than a step has."""

CODER_WINDOW, CODER_BAND = 512, 9
"""Samples and bins, 32 ms and 280 Hz, over which `coarse` keeps the power."""

T = TypeVar("T")
P = ParamSpec("P")


@dataclass
class Draw:
    """The random choices of one call: `host` for what shapes the work, `device` for tensors."""

    host: np.random.Generator
    device: torch.Generator

    @classmethod
    def at(cls, seed: int, step: int, device: torch.device | str) -> Draw:
        """The draws of one training step: the same seed and step give the same draws, with no state kept."""
        host, tensors = np.random.SeedSequence((seed, step)).spawn(2)
        generator = torch.Generator(device)
        generator.manual_seed(int(tensors.generate_state(1, np.uint64)[0]) >> 1)
        return cls(np.random.default_rng(host), generator)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform in [0, 1), float32, on the device."""
        return torch.rand(shape, generator=self.device, device=self.device.device)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal, float32, on the device."""
        return torch.randn(shape, generator=self.device, device=self.device.device)

    def strength(self, value: Strength, batch: int, geometric: bool = False) -> Tensor:
        """A number as it is, (1, 1); a pair drawn per sample, (batch, 1), evenly or evenly in the logarithm."""
        if not isinstance(value, tuple):
            return torch.full((1, 1), float(value), device=self.device.device)
        low, high = value
        if geometric:
            return low * (self.uniform(batch, 1) * math.log(high / low)).exp()
        return low + (high - low) * self.uniform(batch, 1)

    def once(self, value: Strength) -> float:
        """A number as it is; a pair drawn once for the call."""
        return float(self.host.uniform(*value)) if isinstance(value, tuple) else float(value)

    def choose(self, value: T | tuple[T, ...]) -> T:
        """A value as it is; one of a tuple for the call."""
        return value[int(self.host.integers(len(value)))] if isinstance(value, tuple) else value

    def choose_each(self, value: T | tuple[T, ...], batch: int) -> list[T]:
        """One value per sample."""
        return [self.choose(value) for _ in range(batch)]


def _single_precision(
    attack: Callable[Concatenate[Tensor, Draw, P], Tensor],
) -> Callable[Concatenate[Tensor, Draw, P], Tensor]:
    """Keep autocast out of the attack: half-precision audio would be an attack of its own."""

    @wraps(attack)
    def wrapped(x: Tensor, draw: Draw, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return attack(x.float(), draw, *args, **kwargs)

    return wrapped


def _straight_through(x: Tensor, y: Tensor) -> Tensor:
    """The values of `y` with the gradient of `x`."""
    return x + (y - x).detach()


def _frequencies(length: int, device: torch.device) -> Tensor:
    """Frequencies in Hz of a real FFT of `length` samples, (1, length // 2 + 1)."""
    return torch.fft.rfftfreq(length, 1 / SAMPLE_RATE, device=device)[None]


def _filter(x: Tensor, response: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a response, a function of the frequencies in Hz; zeros around the segment keep it from wrapping."""
    n = x.shape[-1]
    length = filters.fast_length(2 * n)
    spectrum = torch.fft.rfft(x, length) * response(_frequencies(length, x.device))
    return torch.fft.irfft(spectrum, length)[..., :n]


def _at(x: Tensor, index: Tensor) -> Tensor:
    """The samples of `x` (batch, m) at whole positions (batch, n); zero outside."""
    inside = (index >= 0) & (index < x.shape[-1])
    return x.gather(-1, index.clamp(0, x.shape[-1] - 1)) * inside


def _stretch_of(x: Tensor, draw: Draw, share: Strength) -> Tensor:
    """Mask (batch, n) of one stretch per sample, `share` of the length long, at a random place."""
    batch, n = x.shape
    length = draw.strength(share, batch) * n
    start = draw.uniform(batch, 1) * (n - length)
    position = torch.arange(n, device=x.device)[None] + 0.5
    return (position >= start) & (position < start + length)


@_single_precision
def noise(x: Tensor, draw: Draw, snr: Strength = 35.0, tilt: Strength = 0.0) -> Tensor:
    """Gaussian noise at `snr` dB below the power of each sample; white, or with its power falling as f^-tilt.
    A negative tilt counts as white: a pair such as (-2, 2) leaves half of the samples with white noise."""
    batch, n = x.shape
    added = draw.normal(batch, n)
    if tilt != 0.0:
        exponent = draw.strength(tilt, batch).clamp_min(0.0)
        added = torch.fft.irfft(torch.fft.rfft(added) * responses.tilt(_frequencies(n, x.device), exponent), n)
        added = added / added.square().mean(-1, keepdim=True).sqrt()
    ratio = 10.0 ** (draw.strength(snr, batch) / -20.0)
    return x + added * ratio * x.square().mean(-1, keepdim=True).clamp_min(1e-20).sqrt()


def _pass(
    x: Tensor,
    draw: Draw,
    cutoff: Strength,
    order: int | tuple[int, ...],
    zero_phase: bool | tuple[bool, ...],
    high: bool,
) -> Tensor:
    corner = draw.strength(cutoff, len(x), geometric=True) * (math.pi / SAMPLE_RATE)
    poles, both_ways = draw.choose(order), draw.choose(zero_phase)

    def response(frequency: Tensor) -> Tensor:
        angle = (frequency * (math.pi / SAMPLE_RATE)).clip(filters.LOWEST_ANGLE, filters.HIGHEST_ANGLE)
        h = filters.butterworth(angle.tan() / corner.tan(), poles, high)
        return abs(h) ** 2 if both_ways else h

    return _filter(x, response)


@_single_precision
def lowpass(
    x: Tensor,
    draw: Draw,
    cutoff: Strength = 5_000.0,
    order: int | tuple[int, ...] = 8,
    zero_phase: bool | tuple[bool, ...] = False,
    kind: str | tuple[str, ...] = "butterworth",
) -> Tensor:
    """Low-pass at `cutoff` Hz: a Butterworth filter of `order` run forwards (or, `zero_phase`, forwards and
    backwards), or with `kind` "steep" a symmetric FIR near to a brick wall."""
    if draw.choose(kind) == "steep":
        corner = draw.strength(cutoff, len(x), geometric=True)
        half = responses.FIR_TRANSITION / 2
        return _filter(x, lambda frequency: responses.fall(frequency, corner - half, corner + half))
    return _pass(x, draw, cutoff, order, zero_phase, high=False)


@_single_precision
def highpass(
    x: Tensor,
    draw: Draw,
    cutoff: Strength = 300.0,
    order: int | tuple[int, ...] = 4,
    zero_phase: bool | tuple[bool, ...] = False,
) -> Tensor:
    """Butterworth high-pass at `cutoff` Hz, run forwards or, `zero_phase`, forwards and backwards."""
    return _pass(x, draw, cutoff, order, zero_phase, high=True)


@_single_precision
def mp3(x: Tensor, draw: Draw, kbps: int | tuple[int, ...] = 64) -> Tensor:
    """MP3 by LAME at a constant bitrate, straight through. Waits for the device: see `mp3_clips`."""
    coded = mp3_clips(x.detach().cpu().numpy(), draw.choose_each(kbps, len(x)))
    return _straight_through(x, torch.from_numpy(coded).to(x.device))


@_single_precision
def vorbis(x: Tensor, draw: Draw, quality: float | tuple[float, ...] = 0.4) -> Tensor:
    """Ogg Vorbis at a quality from 0 to 1, straight through. Waits for the device."""
    coded = vorbis_clips(x.detach().cpu().numpy(), draw.choose_each(quality, len(x)))
    return _straight_through(x, torch.from_numpy(coded).to(x.device))


@_single_precision
def opus(x: Tensor, draw: Draw, kbps: int | tuple[int, ...] = 32) -> Tensor:
    """Ogg Opus, straight through. Waits for the device."""
    coded = opus_clips(x.detach().cpu().numpy(), draw.choose_each(kbps, len(x)))
    return _straight_through(x, torch.from_numpy(coded).to(x.device))


@_single_precision
def quantise(x: Tensor, draw: Draw, levels: Strength = 512.0, midrise: bool | tuple[bool, ...] = False) -> Tensor:
    """`levels` steps over [-1, 1], straight through; zero is a level, or with `midrise` lies between two."""
    half = draw.strength(levels, len(x), geometric=True) / 2
    offset = 0.5 if draw.choose(midrise) else 0.0
    level = (x * half + (0.5 - offset)).floor() + offset
    return _straight_through(x, level.clamp(offset - half, offset + half - 1) / half)


@_single_precision
def dropout(x: Tensor, draw: Draw, share: Strength = 0.001) -> Tensor:
    """Each sample becomes zero with probability `share`."""
    return x * (draw.uniform(*x.shape) >= draw.strength(share, len(x), geometric=True))


@_single_precision
def resample(
    x: Tensor, draw: Draw, ratio: float | tuple[float, ...] = 2.0, start: Strength = responses.RESAMPLER_PASS
) -> Tensor:
    """To `ratio` times the rate and back: what two passes of a resampler's filter leave, with no aliases.
    `start` is where the filter begins to fall, in parts of the lower Nyquist frequency."""
    nyquist = min(1.0, draw.choose(ratio)) * SAMPLE_RATE / 2
    fall = draw.strength(start, len(x)) * nyquist
    stop = fall + responses.RESAMPLER_WIDTH * nyquist
    return _filter(x, lambda frequency: responses.fall(frequency, fall, stop) ** 2)


@_single_precision
def amplitude(x: Tensor, draw: Draw, gain: Strength = 0.9) -> Tensor:
    """Multiply by `gain`; a file would clip at full scale, so do we."""
    return (x * draw.strength(gain, len(x), geometric=True)).clamp(-1.0, 1.0)


def _overlap_add(frames: Tensor) -> Tensor:
    """Frames (batch, size, count) at steps of a quarter of their size -> (batch, (count + 3)·size / 4)."""
    quarters = frames.chunk(4, 1)
    out = sum(F.pad(quarter, (i, 3 - i)) for i, quarter in enumerate(quarters))
    assert isinstance(out, Tensor)
    return out.transpose(1, 2).flatten(1)


def _analysed(x: Tensor, window: Tensor) -> Tensor:
    """(batch, n) -> (batch, bins, frames): its spectrum at steps of a quarter of the window."""
    size = len(window)
    return torch.stft(x, size, size // 4, window=window, center=True, pad_mode="constant", return_complex=True)


def _synthesised(spectrum: Tensor, window: Tensor, length: int) -> Tensor:
    """The way back, to `length` samples."""
    size = len(window)
    pieces = torch.fft.irfft(spectrum, size, dim=-2) * window[:, None]
    weight = _overlap_add(window.square()[None, :, None].expand(1, size, spectrum.shape[-1]))
    y = _overlap_add(pieces)[:, size // 2 : size // 2 + length]
    y = y / weight[:, size // 2 : size // 2 + length].clamp_min(1e-6)
    return F.pad(y, (0, length - y.shape[-1]))


def _vocode(x: Tensor, rate: float, size: int) -> Tensor:
    """Phase vocoder: `x` (batch, n) played `rate` times as fast, (batch, round(n / rate)).

    Magnitudes are interpolated between frames and carry the gradient; phases add up the advances between
    neighbouring frames, which is all that the accumulated phase is once whole turns are dropped.
    """
    window = torch.hann_window(size, device=x.device)
    spectrum = _analysed(x, window)
    frames = spectrum.shape[-1]
    spectrum = F.pad(spectrum, (0, 2))
    steps = torch.arange(responses.stretched_frames(frames, rate), device=x.device, dtype=torch.float64) * rate
    left = steps.floor().long()
    share = (steps - left).float()
    magnitude, phase = spectrum.abs(), spectrum.detach().angle()
    magnitude = (1 - share) * magnitude[..., left] + share * magnitude[..., left + 1]
    advance = phase[..., left + 1] - phase[..., left]
    advance = torch.cat((phase[..., :1], advance[..., :-1]), -1)
    advance = advance - 2 * math.pi * (advance / (2 * math.pi)).round()
    phase = advance.cumsum(-1)
    return _synthesised(torch.polar(magnitude, phase), window, round(x.shape[-1] / rate))


@_single_precision
def stretch(
    x: Tensor,
    draw: Draw,
    length: Strength = 0.9,
    window: int | tuple[int, ...] = responses.STRETCH_WINDOW,
    kind: str | tuple[str, ...] = "vocoder",
) -> Tensor:
    """To `length` times the length and back to the original one: by a phase vocoder both times, or with
    `kind` "linear" by linear interpolation. A pair is drawn per call, in whole percent, so that few shapes occur."""
    n = x.shape[-1]
    part = round(draw.once(length), 2) if isinstance(length, tuple) else float(length)
    size = draw.choose(window)
    if draw.choose(kind) == "linear":
        short = F.interpolate(x[:, None], size=round(n * part), mode="linear")
        return F.interpolate(short, size=n, mode="linear")[:, 0]
    y = _vocode(_vocode(x, 1 / part, size), part, size)
    return F.pad(y, (0, n - y.shape[-1]))


@_single_precision
def polarity(x: Tensor, draw: Draw) -> Tensor:
    """Upside down."""
    return -x


@_single_precision
def shift(x: Tensor, draw: Draw, seconds: Strength = 0.1) -> Tensor:
    """Later by `seconds` (earlier if negative), in whole samples; zeros move in."""
    batch, n = x.shape
    by = draw.strength(seconds, batch) * SAMPLE_RATE
    return _at(x, torch.arange(n, device=x.device) - by.round().long().expand(batch, 1))


@_single_precision
def crop(x: Tensor, draw: Draw, keep: Strength = 0.5) -> Tensor:
    """A stretch of `keep` times the length stays in its place, the rest becomes zero."""
    return x * _stretch_of(x, draw, keep)


@_single_precision
def splice(x: Tensor, draw: Draw, share: Strength = 0.25, other: Tensor | None = None) -> Tensor:
    """A stretch of `share` of the length is replaced by `other` (batch, n), unmarked audio; without it, by
    another item of the batch from half a segment on."""
    if other is None:
        other = x.detach().roll((1, x.shape[-1] // 2), (0, 1))
    return torch.where(_stretch_of(x, draw, share), other.to(x.dtype), x)


@_single_precision
def speed(x: Tensor, draw: Draw, factor: Strength = 1.05) -> Tensor:
    """`factor` times as fast, pitch and all, from the first sample on; cut, or filled with zeros, to n samples.

    Four times oversampled by FFT, then cubic between the samples: the error lies 60 dB down.
    """
    batch, n = x.shape
    oversampling = 4
    pace = draw.strength(factor, batch)
    length = filters.fast_length(n + 2_000)
    nyquist = SAMPLE_RATE / 2 / pace.clamp_min(1.0)
    start = responses.RESAMPLER_PASS * nyquist
    kept = responses.fall(_frequencies(length, x.device), start, start + responses.RESAMPLER_WIDTH * nyquist)
    fine = torch.fft.irfft(torch.fft.rfft(x, length) * kept, length * oversampling) * oversampling
    place = (torch.arange(n, device=x.device) * pace.double() * oversampling).expand(batch, n)
    left = place.floor().long()
    t = (place - left).float()
    inside = place < n * oversampling
    last = length * oversampling
    a, b, c, d = (fine.gather(-1, (left + k).remainder(last)) for k in (-1, 0, 1, 2))
    y = b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))
    return y * inside


@_single_precision
def echo(x: Tensor, draw: Draw, delay: Strength = 0.1, gain: Strength = 0.3) -> Tensor:
    """Add the audio itself, `delay` seconds later, times `gain`."""
    batch, n = x.shape
    by = draw.strength(delay, batch) * SAMPLE_RATE
    late = _at(x, torch.arange(n, device=x.device) - by.round().long().expand(batch, 1))
    return x + draw.strength(gain, batch) * late


@cache
def _rooms(decay: Strength, distance: Strength, device: torch.device) -> Tensor:
    """(ROOMS, taps): responses of random rooms, the same ones in every process."""
    rng = np.random.default_rng(1)
    drawn = [
        [float(rng.uniform(*value)) if isinstance(value, tuple) else value for value in (decay, distance)]
        for _ in range(ROOMS)
    ]
    taps = [torch.from_numpy(rooms.response(SAMPLE_RATE, rng, *of)).float() for of in drawn]
    return torch.nn.utils.rnn.pad_sequence(taps, batch_first=True).to(device)


@_single_precision
def rerecord(
    x: Tensor,
    draw: Draw,
    distance: Strength = 1.0,
    decay: Strength = 0.3,
    snr: Strength = 30.0,
    low: Strength = 150.0,
    high: Strength = 7_000.0,
) -> Tensor:
    """Played in one of ROOMS random rooms and recorded `distance` metres away, at the power that it had: the band of
    loudspeaker and microphone from `low` to `high` Hz, the room that dies down in `decay` seconds, pink noise at `snr`
    dB."""
    played = _pass(_pass(x, draw, low, 2, False, high=True), draw, high, 2, False, high=False)
    taps = _rooms(decay, distance, x.device)
    chosen = torch.randint(ROOMS, (len(x),), generator=draw.device, device=x.device)
    length = filters.fast_length(x.shape[-1] + taps.shape[-1])
    spectrum = torch.fft.rfft(played, length) * torch.fft.rfft(taps, length)[chosen]
    heard = noise(torch.fft.irfft(spectrum, length)[:, : x.shape[-1]], draw, snr, tilt=1.0)
    before, after = (y.square().mean(-1, keepdim=True).clamp_min(1e-20) for y in (x, heard))
    return heard * (before / after).sqrt()


@_single_precision
def coarse(x: Tensor, draw: Draw, cutoff: Strength = 4_000.0, snr: Strength = 12.0) -> Tensor:
    """What a codec with too few bits leaves, AAC above all: noise `snr` dB below the power of every band and moment,
    and from `cutoff` Hz on noise of the same power in place of what was there."""
    window = torch.hann_window(CODER_WINDOW, device=x.device)
    sound, noise = (_analysed(each, window) for each in (x, draw.normal(*x.shape)))
    power = F.avg_pool2d(sound.abs().square(), (CODER_BAND, 1), 1, (CODER_BAND // 2, 0), count_include_pad=False)
    like_it = noise * (power.clamp_min(1e-20) / window.square().sum()).sqrt()
    kept = _frequencies(CODER_WINDOW, x.device) < draw.strength(cutoff, len(x))
    share = torch.where(kept, 10.0 ** (draw.strength(snr, len(x)) / -20.0), 1.0)
    return _synthesised(sound * kept[..., None] + like_it * share[..., None], window, x.shape[-1])


CODEC_STRENGTHS: dict[str, tuple[Any, ...]] = {
    "mp3": (32, 48, 64, 96, 128),
    "vorbis": (0.1, 0.2, 0.4, 0.6, 0.8),
    "opus": (24, 32, 48, 64),
}
"""Codec → bitrates in kbit/s, or qualities, that it is trained on, one of these for each clip."""

TRAINING: dict[str, Callable[..., Tensor]] = {
    "noise": partial(noise, snr=(20.0, 45.0), tilt=(-2.0, 2.0)),
    "lowpass": partial(
        lowpass,
        cutoff=(3_500.0, 6_500.0),
        order=tuple(range(2, 13)),
        zero_phase=(False, True),
        kind=("butterworth", "butterworth", "steep"),
    ),
    "highpass": partial(highpass, cutoff=(60.0, 500.0), order=tuple(range(1, 9)), zero_phase=(False, True)),
    "mp3": partial(mp3, kbps=CODEC_STRENGTHS["mp3"]),
    "vorbis": partial(vorbis, quality=CODEC_STRENGTHS["vorbis"]),
    "opus": partial(opus, kbps=CODEC_STRENGTHS["opus"]),
    "quantise": partial(quantise, levels=(2.0**8.5, 2.0**11), midrise=(False, True)),
    "dropout": partial(dropout, share=(0.0005, 0.005)),
    "resample": partial(resample, ratio=(0.5, 0.5, 0.5, 0.69, 0.75, 2.0, 2.0, 3.0), start=(0.85, 0.98)),
    "amplitude": partial(amplitude, gain=(0.1, 1.6)),
    "stretch": partial(stretch, length=(0.88, 1.12), window=(1024, 2048, 2048), kind=(*["vocoder"] * 7, "linear")),
    "polarity": polarity,
    "shift": partial(shift, seconds=(-0.1, 0.1)),
    "crop": partial(crop, keep=(0.3, 1.0)),
    "splice": partial(splice, share=(0.05, 0.5)),
    "speed": partial(speed, factor=(0.985, 1.015)),
    "echo": partial(echo, delay=(0.01, 0.3), gain=(0.1, 0.5)),
    "coarse": partial(coarse, cutoff=(3_000.0, 8_000.0), snr=(6.0, 25.0)),
    "rerecord": partial(
        rerecord,
        distance=(0.1, 2.0),
        decay=(0.1, 0.5),
        snr=(20.0, 40.0),
        low=(60.0, 250.0),
        high=(5_000.0, 7_500.0),
    ),
}
"""Every attack over the range that it is trained on; `splice` also takes `other`."""
