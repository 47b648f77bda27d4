"""Every attack as a layer for training: batches of 16 kHz segments, on the device, with a gradient.

These follow the functions of `arrays.py` closely (tests compare the two), but never wait for the device and pass a
gradient: the true one where there is one, else a straight-through estimate. Only the codecs leave the device, because
they are the real encoders; `coarse` stands in for AAC.

A numerical strength is a number or a pair (low, high) to draw from, per row unless the docstring says per call. A
strength that is a choice is one value or a tuple to choose from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any, Concatenate, ParamSpec

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ideaw.attacks import batch_vocoder, filters, responses, rooms
from ideaw.attacks.codecs import mp3_clips, opus_clips, vorbis_clips
from ideaw.attacks.draw import Draw, Strength
from ideaw.audio.grid import SAMPLE_RATE

NUM_ROOMS = 64
"""Simulated rooms for `rerecord`: drawn once, since computing a response takes longer than a training step."""

CODER_WINDOW_SAMPLES, CODER_BAND_BINS = 512, 9
"""Samples and bins, 32 ms and 280 Hz, over which `coarse` keeps the power."""

P = ParamSpec("P")


def _single_precision(
    attack: Callable[Concatenate[Tensor, Draw, P], Tensor],
) -> Callable[Concatenate[Tensor, Draw, P], Tensor]:
    """Keep autocast out of the attack: half-precision audio would be an attack of its own."""

    @wraps(attack)
    def wrapped(x: Tensor, draw: Draw, /, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return attack(x.float(), draw, *args, **kwargs)

    return wrapped


def _straight_through(x: Tensor, y: Tensor) -> Tensor:
    """The values of `y` with the gradient of `x`."""
    return x + (y - x).detach()


def _frequencies(length: int, device: torch.device) -> Tensor:
    """Frequencies in Hz of a real FFT of `length` samples, (1, length // 2 + 1)."""
    frequencies: Tensor = torch.fft.rfftfreq(length, 1 / SAMPLE_RATE, device=device)[None]
    return frequencies


def _filter(x: Tensor, response: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a response, a function of the frequencies in Hz; zeros around the segment keep it from wrapping."""
    n = x.shape[-1]
    length = filters.fast_length(2 * n)
    spectrum = torch.fft.rfft(x, length) * response(_frequencies(length, x.device))
    filtered: Tensor = torch.fft.irfft(spectrum, length)[..., :n]
    return filtered


def _at(x: Tensor, index: Tensor) -> Tensor:
    """The samples of `x` (batch, m) at whole positions (batch, n); zero outside."""
    inside = (index >= 0) & (index < x.shape[-1])
    return x.gather(-1, index.clamp(0, x.shape[-1] - 1)) * inside


def _random_span(x: Tensor, draw: Draw, share: Strength) -> Tensor:
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
        angle = (frequency * (math.pi / SAMPLE_RATE)).clip(filters.MIN_BILINEAR_ANGLE, filters.MAX_BILINEAR_ANGLE)
        h: Tensor = filters.butterworth(angle.tan() / corner.tan(), poles, high)
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
        half = responses.FIR_TRANSITION_HZ / 2
        return _filter(x, lambda frequency: responses.lowpass_taper(frequency, corner - half, corner + half))
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
    x: Tensor, draw: Draw, ratio: float | tuple[float, ...] = 2.0, start: Strength = responses.RESAMPLER_PASSBAND
) -> Tensor:
    """To `ratio` times the rate and back: what two passes of a resampler's filter leave, with no aliases.
    `start` is where the filter begins to fall, in parts of the lower Nyquist frequency."""
    nyquist = min(1.0, draw.choose(ratio)) * SAMPLE_RATE / 2
    fall = draw.strength(start, len(x)) * nyquist
    stop = fall + responses.RESAMPLER_TRANSITION * nyquist
    return _filter(x, lambda frequency: responses.lowpass_taper(frequency, fall, stop) ** 2)


@_single_precision
def amplitude(x: Tensor, draw: Draw, gain: Strength = 0.9) -> Tensor:
    """Multiply by `gain` and clip at full scale, as a file would."""
    return (x * draw.strength(gain, len(x), geometric=True)).clamp(-1.0, 1.0)


@_single_precision
def stretch(
    x: Tensor,
    draw: Draw,
    length: Strength = 0.9,
    window: int | tuple[int, ...] = responses.VOCODER_WINDOW_SAMPLES,
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
    y = batch_vocoder.change_tempo(batch_vocoder.change_tempo(x, 1 / part, size), part, size)
    return F.pad(y, (0, n - y.shape[-1]))


@_single_precision
def polarity(x: Tensor, draw: Draw) -> Tensor:
    """Reverse the polarity: every sample times −1."""
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
    return x * _random_span(x, draw, keep)


@_single_precision
def splice(x: Tensor, draw: Draw, share: Strength = 0.25, other: Tensor | None = None) -> Tensor:
    """A stretch of `share` of the length is replaced by `other` (batch, n), unmarked audio; without it, by
    another item of the batch from half a segment on."""
    if other is None:
        other = x.detach().roll((1, x.shape[-1] // 2), (0, 1))
    return torch.where(_random_span(x, draw, share), other.to(x.dtype), x)


@_single_precision
def speed(x: Tensor, draw: Draw, factor: Strength = 1.05) -> Tensor:
    """Play `factor` times as fast, pitch included, from the first sample on; truncated or zero-padded to n samples.

    Four times oversampled by FFT, then cubic between the samples: the error lies 60 dB down.
    """
    batch, n = x.shape
    oversampling = 4
    pace = draw.strength(factor, batch)
    length = filters.fast_length(n + 2_000)
    nyquist = SAMPLE_RATE / 2 / pace.clamp_min(1.0)
    start = responses.RESAMPLER_PASSBAND * nyquist
    antialiasing = responses.lowpass_taper(
        _frequencies(length, x.device), start, start + responses.RESAMPLER_TRANSITION * nyquist
    )
    fine = torch.fft.irfft(torch.fft.rfft(x, length) * antialiasing, length * oversampling) * oversampling
    place = (torch.arange(n, device=x.device) * pace.double() * oversampling).expand(batch, n)
    left = place.floor().long()
    t = (place - left).float()
    inside = place < n * oversampling
    last = length * oversampling
    a, b, c, d = (fine.gather(-1, (left + k).remainder(last)) for k in (-1, 0, 1, 2))
    y: Tensor = b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))
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
    """(NUM_ROOMS, taps): responses of random rooms, the same ones in every process."""
    rng = np.random.default_rng(1)
    drawn = [
        [float(rng.uniform(*value)) if isinstance(value, tuple) else value for value in (decay, distance)]
        for _ in range(NUM_ROOMS)
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
    """Played in one of NUM_ROOMS random rooms and recorded `distance` metres away, at the power that it had: the band
    of loudspeaker and microphone from `low` to `high` Hz, a room that dies down in `decay` seconds, pink noise at `snr`
    dB."""
    played = _pass(_pass(x, draw, low, 2, False, high=True), draw, high, 2, False, high=False)
    taps = _rooms(decay, distance, x.device)
    chosen = torch.randint(NUM_ROOMS, (len(x),), generator=draw.device, device=x.device)
    length = filters.fast_length(x.shape[-1] + taps.shape[-1])
    spectrum = torch.fft.rfft(played, length) * torch.fft.rfft(taps, length)[chosen]
    recorded = noise(torch.fft.irfft(spectrum, length)[:, : x.shape[-1]], draw, snr, tilt=1.0)
    before, after = (y.square().mean(-1, keepdim=True).clamp_min(1e-20) for y in (x, recorded))
    return recorded * (before / after).sqrt()


@_single_precision
def coarse(x: Tensor, draw: Draw, cutoff: Strength = 4_000.0, snr: Strength = 12.0) -> Tensor:
    """A model of codecs at low bitrates, AAC above all: noise `snr` dB below the power of each band and frame and, from
    `cutoff` Hz on, noise of the same power in place of the signal (perceptual noise substitution)."""
    window = torch.hann_window(CODER_WINDOW_SAMPLES, device=x.device)
    sound, noise = (batch_vocoder.analyse(signal, window) for signal in (x, draw.normal(*x.shape)))
    power = F.avg_pool2d(
        sound.abs().square(), (CODER_BAND_BINS, 1), 1, (CODER_BAND_BINS // 2, 0), count_include_pad=False
    )
    shaped_noise = noise * (power.clamp_min(1e-20) / window.square().sum()).sqrt()
    coded = _frequencies(CODER_WINDOW_SAMPLES, x.device) < draw.strength(cutoff, len(x))
    share = torch.where(coded, 10.0 ** (draw.strength(snr, len(x)) / -20.0), 1.0)
    return batch_vocoder.synthesise(sound * coded[..., None] + shaped_noise * share[..., None], window, x.shape[-1])


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
