"""Codecs and programs for speech as attacks of the catalogue: at any rate, on any number of channels.

They know one channel at 16 kHz: channels are mixed before, and all of them hold the same after. Which of them need a
package, a program or weights of others is said in `resynthesis.py`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import soxr

from ideaw.attacks import resynthesis
from ideaw.attacks.channels import fit_length, require
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.errors import MissingExtraError

VOIP_KBPS_RANGE, SPEEX_KBPS_RANGE, LC3_KBPS_RANGE = (6, 64), (4, 42), (16, 128)
"""Lowest and highest bitrates in kbit/s."""

MIN_SPEECH_SAMPLES = SAMPLE_RATE // 2
"""Shorter audio is followed by silence: codecs give nothing for less than a few frames."""


def lyra(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: float = 6.0, weights: str = "") -> np.ndarray:
    """Lyra v2, a neural codec, and back; `weights` is the folder of its three files."""
    _one_of(kbps, tuple(resynthesis.LYRA_STAGES), "Lyra has", "kbit/s")
    if not weights:
        raise MissingExtraError("this attack needs the folder of Lyra's weights")
    return _at_16_khz(samples, rate, lambda x: resynthesis.lyra(x, kbps, Path(weights)))


def world(samples: np.ndarray, rate: int, rng: np.random.Generator, semitones: float = 0.0) -> np.ndarray:
    """Analysis and synthesis by the vocoder WORLD, at the same pitch or `semitones` above it."""
    require(abs(semitones) <= 12, f"the pitch moves by 12 semitones at most, not {semitones:g}")
    return _at_16_khz(samples, rate, lambda x: resynthesis.world(x, semitones))


def codec2(samples: np.ndarray, rate: int, rng: np.random.Generator, bps: int = 3_200) -> np.ndarray:
    """Codec 2 of digital radio, and back."""
    _one_of(bps, resynthesis.CODEC2_BPS, "Codec 2 has", "bit/s")
    return _at_16_khz(samples, rate, lambda x: resynthesis.codec2(x, bps))


def gsm(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """GSM 06.10 at 13 kbit/s, and back."""
    return _at_16_khz(samples, rate, resynthesis.gsm)


def amr(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: float = 12.2) -> np.ndarray:
    """AMR narrow-band, and back."""
    _one_of(kbps, resynthesis.AMR_KBPS, "AMR has", "kbit/s")
    return _at_16_khz(samples, rate, lambda x: resynthesis.amr(x, kbps))


def voip(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: int = 16) -> np.ndarray:
    """Opus in mono in its mode for speech, and back."""
    _within(kbps, VOIP_KBPS_RANGE, "Opus for speech")
    return _at_16_khz(samples, rate, lambda x: resynthesis.opus_voip(x, kbps))


def speex(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: int = 16) -> np.ndarray:
    """Wide-band Speex, and back."""
    _within(kbps, SPEEX_KBPS_RANGE, "Speex")
    return _at_16_khz(samples, rate, lambda x: resynthesis.speex(x, kbps))


def lc3(samples: np.ndarray, rate: int, rng: np.random.Generator, kbps: int = 32) -> np.ndarray:
    """LC3 of Bluetooth headsets at 16 kHz, and back."""
    _within(kbps, LC3_KBPS_RANGE, "LC3")
    return _at_16_khz(samples, rate, lambda x: resynthesis.lc3(x, kbps))


def rnnoise(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """Noise suppression by RNNoise."""
    return _at_16_khz(samples, rate, resynthesis.rnnoise)


def nsnet2(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """Noise suppression by NSNet2."""
    return _at_16_khz(samples, rate, resynthesis.nsnet2)


def _at_16_khz(samples: np.ndarray, rate: int, process: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The mix of all channels, processed, on each of them."""
    mixed = samples if samples.ndim == 1 else samples.mean(1)
    narrow = soxr.resample(mixed.astype(np.float64), rate, SAMPLE_RATE)
    narrow = np.pad(narrow, (0, max(0, MIN_SPEECH_SAMPLES - len(narrow))))
    processed = fit_length(soxr.resample(np.asarray(process(narrow), np.float64), SAMPLE_RATE, rate), len(samples))
    spread = processed if samples.ndim == 1 else np.repeat(processed[:, None], samples.shape[1], 1)
    return spread.astype(samples.dtype)


def _one_of(value: float, known: Sequence[float], has: str, unit: str) -> None:
    require(value in known, f"{has} {', '.join(f'{one:g}' for one in known)} {unit}, not {value:g}")


def _within(kbps: int, known: tuple[int, int], name: str) -> None:
    low, high = known
    require(low <= kbps <= high, f"{name} has {low} to {high} kbit/s, not {kbps}")
