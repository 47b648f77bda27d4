"""The attacks by name: what the command line, the benchmark and the tests choose from.

Strengths are the defaults of the functions themselves, so they stand in one place.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ideaw.attacks import arrays, denoise, dynamics, scenes, speech
from ideaw.errors import AudioError, IdeawError


@dataclass(frozen=True)
class Attack:
    """One attack: its name, its label in tables, one line about it, its default strengths, and the function
    `apply(samples, rate, rng, **strengths)`."""

    name: str
    label: str
    summary: str
    strengths: dict[str, float | str]
    apply: Callable[..., np.ndarray]


def _attack(label: str, apply: Callable[..., np.ndarray], summary: str) -> Attack:
    defaults = {p.name: p.default for p in list(inspect.signature(apply).parameters.values())[3:]}
    strengths = {name: default for name, default in defaults.items() if default is not None}
    return Attack(apply.__name__, label, summary, strengths, apply)


ATTACKS: dict[str, Attack] = {
    attack.name: attack
    for attack in (
        _attack("GN", arrays.noise, "Gaussian noise, 35 dB below the audio"),
        _attack("LF", arrays.lowpass, "low-pass filter at 5 kHz"),
        _attack("CP", arrays.mp3, "MP3 at 64 kbit/s"),
        _attack("QZ", arrays.quantise, "quantisation to 512 levels"),
        _attack("RD", arrays.dropout, "0.1 % of the samples set to zero"),
        _attack("RS", arrays.resample, "resampling to twice the rate and back"),
        _attack("AM", arrays.amplitude, "amplitude times 0.9"),
        _attack("TS", arrays.stretch, "time stretch to 90 % of the length and back"),
        _attack("HF", arrays.highpass, "high-pass filter at 300 Hz"),
        _attack("OGG", arrays.vorbis, "Ogg Vorbis at quality 0.4"),
        _attack("OPUS", arrays.opus, "Opus at 32 kbit/s per channel"),
        _attack("AAC", arrays.aac, "AAC at 64 kbit/s"),
        _attack("POL", arrays.polarity, "polarity reversed"),
        _attack("SHIFT", arrays.shift, "0.1 s later"),
        _attack("CROP", arrays.crop, "a random half cut out"),
        _attack("SPLICE", arrays.splice, "a random quarter replaced by unmarked audio"),
        _attack("SPEED", arrays.speed, "5 % faster, pitch included"),
        _attack("MARK", scenes.overmark, "a second mark with another key and message"),
        _attack("ECHO", arrays.echo, "an echo after 0.1 s, 10 dB down"),
        _attack("TEMPO", arrays.tempo, "5 % faster at the same pitch"),
        _attack("PITCH", arrays.pitch, "a semitone higher at the same tempo"),
        _attack("BACK", scenes.background, "speech over music, 20 dB below the audio"),
        _attack("REVERB", scenes.reverb, "a room's reverberation, 6 dB below the audio"),
        _attack("ROOM", scenes.rerecord, "played in a room and recorded a metre away, simulated"),
        _attack("COMP", dynamics.compress, "dynamic range compressed above −18 dBFS"),
        _attack("EXP", dynamics.expand, "dynamic range expanded below −12 dBFS"),
        _attack("EQ", arrays.equalise, "each of 24 critical bands up or down by up to 3 dB"),
        _attack("JITTER", arrays.jitter, "clock jitter of a tenth of a sample"),
        _attack("SMOOTH", arrays.smooth, "moving average of 6 samples"),
        _attack("MEDIAN", arrays.median, "median of 3 samples"),
        _attack("CRUSH", arrays.crush, "quantisation of the audio's own range to 64 levels"),
        _attack("ONE", arrays.onechannel, "all channels but one silent"),
        _attack("MONO", arrays.mono, "mixed to mono"),
        _attack("WAVE", denoise.wavelet, "noise removed by thresholds on wavelets"),
        _attack("SUB", denoise.subtract, "noise removed by spectral subtraction"),
        _attack("DN", denoise.afftdn, "noise removed by FFmpeg's afftdn, by 12 dB"),
        _attack("LOUD", denoise.loudnorm, "loudness normalised to −14 LUFS by FFmpeg's loudnorm"),
        _attack("LYRA", speech.lyra, "the neural codec Lyra v2 at 6 kbit/s; its weights by path"),
        _attack("WORLD", speech.world, "analysed and synthesised by the vocoder WORLD"),
        _attack("CODEC2", speech.codec2, "Codec 2 at 3.2 kbit/s"),
        _attack("GSM", speech.gsm, "a telephone call: GSM at 13 kbit/s"),
        _attack("AMR", speech.amr, "a mobile call: AMR at 12.2 kbit/s"),
        _attack("VOIP", speech.voip, "a voice message: Opus for speech at 16 kbit/s, mono"),
        _attack("SPEEX", speech.speex, "Speex at 16 kbit/s"),
        _attack("LC3", speech.lc3, "a Bluetooth headset: LC3 at 32 kbit/s"),
        _attack("RNN", speech.rnnoise, "noise suppressed by RNNoise"),
        _attack("NSNET", speech.nsnet2, "noise suppressed by NSNet2"),
    )
}

PAPER: tuple[str, ...] = ("noise", "lowpass", "mp3", "quantise", "dropout", "resample", "amplitude", "stretch")
"""The paper's eight attacks in the order of its table 2: GN LF CP QZ RD RS AM TS."""

OTHERS_PARTS: frozenset[str] = frozenset(("lyra", "world", "codec2", "speex", "lc3", "rnnoise", "nsnet2"))
"""Attacks that need a package, a program or weights that do not come with this package."""

MEASURED_ONLY: frozenset[str] = (
    OTHERS_PARTS
    | {"tempo", "pitch", "background", "reverb", "compress", "expand", "equalise", "jitter", "smooth", "median"}
    | {"crush", "onechannel", "mono", "wavelet", "subtract", "afftdn", "loudnorm", "gsm", "amr", "voip"}
)
"""Attacks that no shipped model was trained on; `batch.py` does not have them."""


def strength(attack: Attack, name: str, value: object) -> float | str:
    """A strength given by the caller, of the type of its default; `IdeawError` if it cannot be one."""
    if name not in attack.strengths:
        known = ", ".join(attack.strengths) or "none"
        raise IdeawError(f"attack {attack.name} has no strength {name!r}; it has: {known}")
    default = attack.strengths[name]
    if isinstance(default, str | bool):
        if type(value) is type(default):
            return value
        kind = "a text" if isinstance(default, str) else "true or false"
    elif isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value):
        if isinstance(default, float):
            return float(value)
        if int(value) == value:
            return int(value)
        kind = "a whole number"
    else:
        kind = "a number"
    raise IdeawError(f"strength {name} of attack {attack.name} must be {kind}, not {value!r}")


def run(name: str, samples: np.ndarray, rate: int, seed: int = 0, **overrides: float | str) -> np.ndarray:
    """Attack `samples`, float (n,) or (n, channels) at `rate` Hz; `overrides` replace default strengths."""
    if name not in ATTACKS:
        raise IdeawError(f"there is no attack {name!r}; there are: {', '.join(ATTACKS)}")
    samples = np.asarray(samples)
    if samples.ndim not in (1, 2) or samples.size == 0 or samples.dtype not in (np.float32, np.float64):
        raise AudioError(f"an attack needs float samples (n,) or (n, channels), not {samples.dtype} {samples.shape}")
    if not np.isfinite(samples).all():
        raise AudioError("the samples hold NaN or infinity")
    attack = ATTACKS[name]
    strengths = {key: strength(attack, key, value) for key, value in overrides.items()}
    try:
        result = attack.apply(samples, rate, np.random.default_rng(seed), **strengths)
    except (ArithmeticError, MemoryError) as problem:
        raise IdeawError(f"attack {name} cannot be made that strong: {strengths}") from problem
    if not np.isfinite(result).all():
        raise IdeawError(f"attack {name} leaves no audio at this strength: {strengths}")
    return result
