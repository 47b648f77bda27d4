"""Attacks that add other sound to audio: background, reverberation, re-recording in a room, a second mark.

The same contract as in `arrays.py`: float (n,) or (n, channels) at any rate, in and out.
"""

import io
from functools import cache
from importlib import resources

import numpy as np
import soundfile
import soxr

from ideaw.attacks import arrays, filters, rooms
from ideaw.attacks.channels import per_channel, require

RECORDINGS = {"both": ("speech.flac", "music.ogg"), "speech": ("speech.flac",), "music": ("music.ogg",)}
"""Kinds of background → packaged recordings."""

MAX_SOURCES = 64
"""Most sources of one background."""


@cache
def _recordings(rate: int, kind: str) -> np.ndarray:
    """(n,) at `rate` Hz: the packaged recordings of a kind over each other, at equal power."""
    out = []
    for name in RECORDINGS[kind]:
        packed = resources.files("ideaw").joinpath("samples", name).read_bytes()
        audio, own_rate = soundfile.read(io.BytesIO(packed), always_2d=True)
        mono = soxr.resample(audio.mean(1), own_rate, rate)
        out.append(mono / np.sqrt(np.mean(mono**2)))
    shortest = min(map(len, out))
    return np.asarray(sum(audio[:shortest] for audio in out))


def background(
    samples: np.ndarray, rate: int, rng: np.random.Generator, snr: float = 20.0, kind: str = "both", count: int = 1
) -> np.ndarray:
    """Someone speaking over music, or with `kind` "speech" or "music" one of them, from a random place on, `snr` dB
    below the power of each channel; or `count` of them, each from a place of its own."""
    require(kind in RECORDINGS, f"a background is of kind {', '.join(RECORDINGS)}, not {kind}")
    require(1 <= count <= MAX_SOURCES, f"a background has 1 to {MAX_SOURCES} sources, not {count}")
    recorded, added = _recordings(rate, kind), np.zeros(len(samples))
    for _ in range(count):
        added += np.resize(np.roll(recorded, -int(rng.integers(len(recorded)))), len(samples))
    power = max(float(np.mean(added**2)), 1e-12)
    return per_channel(samples, lambda x: x + np.sqrt(np.mean(x**2) / power) * 10 ** (-snr / 20) * added)


def reverb(
    samples: np.ndarray,
    rate: int,
    rng: np.random.Generator,
    decay: float = 0.5,
    snr: float = 6.0,
    distance: float = 2.0,
) -> np.ndarray:
    """Add the reverberation of a random room, `snr` dB below the power of each channel; see `rooms.response`."""
    require(0 < decay <= rooms.MAX_DECAY_SECONDS, f"a room's decay lies above 0 and up to 1 s, not at {decay:g}")
    require(distance > 0, f"a distance must be above 0 m, not {distance:g}")
    taps = rooms.response(rate, rng, decay, distance)
    taps[0] = 0.0

    def one(x: np.ndarray) -> np.ndarray:
        wet = filters.convolve(x, taps)
        power = max(float(np.mean(wet**2)), 1e-20)
        return np.asarray(x + np.sqrt(np.mean(x**2) / power) * 10 ** (-snr / 20) * wet)

    return per_channel(samples, one)


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
    require(0 < decay <= rooms.MAX_DECAY_SECONDS, f"a room's decay lies above 0 and up to 1 s, not at {decay:g}")
    require(distance > 0, f"a distance must be above 0 m, not {distance:g}")
    require(0 < low < min(high, rate / 2), f"a band from {low:g} to {high:g} Hz does not fit into {rate / 2:g} Hz")
    taps = rooms.response(rate, rng, decay, distance)
    played = arrays.lowpass(arrays.highpass(samples, rate, rng, low, order=2), rate, rng, high, order=2)
    recorded = arrays.noise(per_channel(played, lambda x: filters.convolve(x, taps)), rate, rng, snr, tilt=1.0)
    before, after = (np.square(x, dtype=np.float64).mean(0) for x in (samples, recorded))
    return np.asarray(recorded * np.sqrt(before / np.maximum(after, 1e-20)), samples.dtype)


def overmark(samples: np.ndarray, rate: int, rng: np.random.Generator, snr: float = 36.0) -> np.ndarray:
    """A second mark of the shipped model, of another key and message, its seconds beginning at a random place.

    In training the network itself does this: `train/step.py` marks a share of each batch twice.
    """
    from ideaw.keys import Key
    from ideaw.marker import load

    begin = int(rng.integers(rate)) if len(samples) >= 2 * rate else 0
    second = load(key=Key(rng.bytes(16)))
    marked = second.embed(samples[begin:], rate, rng.bytes(4), snr=snr)
    return np.concatenate([samples[:begin], marked])
