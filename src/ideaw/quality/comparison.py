"""How far one recording is from another, all measures at once: what `ideaw compare` prints and the service answers."""

from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import to_network_mono
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.read import Recording
from ideaw.audio.samples import check_samples
from ideaw.errors import AudioError, MissingExtraError
from ideaw.quality import fidelity
from ideaw.quality.loudness import follow_loudness, masking_of_rest
from ideaw.quality.masking import Masking
from ideaw.quality.modulation import ModulationAudibility, modulation_audibility
from ideaw.quality.onsets import Onsets, onsets

PIECE_SAMPLES = 10 * SAMPLE_RATE
"""Length of the pieces that PESQ and STOI are averaged over, since both are made for single sentences."""

TIME_POINTS = 300
"""Points of the noise-to-mask ratio over time, at most: enough for a picture, and few enough for JSON."""

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Comparison:
    """What differs between two recordings.

    Attributes:
        snr, lowest_snr: in dB, of everything and of the worst second; infinite where nothing differs.
        pesq, stoi: the measures, or in words why there are none.
        noise_snr: in dB, of what differs besides slow changes of loudness.
        modulation: how far slow changes of loudness are above what is just heard.
        audibility: what differs besides them, against the masking curve.
        starts: what sounds before onsets.
        equal: whether no sample differs.
    """

    snr: float
    lowest_snr: float
    pesq: float | str
    stoi: float | str
    noise_snr: float
    modulation: ModulationAudibility
    audibility: Masking
    starts: Onsets
    equal: bool

    @property
    def ratio(self) -> float:
        """Noise to mask in dB, without slow changes of loudness; NaN where nothing differs."""
        return nan if self.equal else self.audibility.ratio

    @property
    def most_audible(self) -> tuple[float, float]:
        """Noise to mask in dB of the most audible moment, and its time in seconds; NaN where nothing differs."""
        frame = self.audibility.most_audible
        moment = float(self.audibility.frame_ratios[frame]), float(self.audibility.seconds[frame])
        return (nan, nan) if self.equal else moment

    def as_json(self) -> dict[str, Any]:
        """All measures by name; None for what is infinite or cannot be measured.

        Noise to mask over time is told of equally long stretches, the most audible frame of each; of none where nothing
        differs.
        """
        highest, moment = self.most_audible
        values = {
            "snr": self.snr,
            "lowest_snr": self.lowest_snr,
            "noise_snr": nan if self.equal else self.noise_snr,
            "modulation": self.modulation.percentile_99,
            "highest_modulation": self.modulation.worst,
            "pesq": self.pesq,
            "stoi": self.stoi,
            "noise_to_mask": self.ratio,
            "masked": self.audibility.masked,
            "most_audible_noise_to_mask": highest,
            "most_audible_seconds": moment,
            "before_onsets_dbfs": self.starts.level,
            "before_onsets_seconds": self.starts.seconds,
        }
        exact = {
            "onsets": self.starts.count,
            "digital_silence_changed": self.starts.silence_changed,
            "equal": self.equal,
        }
        over_time = () if self.equal else self.audibility.over_time(TIME_POINTS)
        curve = {"noise_to_mask_over_time": [round(float(ratio), 1) for ratio in over_time]}
        return {name: _finite(value) for name, value in values.items()} | exact | curve


def compare_recordings(original: Recording, copy: Recording, names: tuple[object, object]) -> Comparison:
    """Measure `copy` against `original`; `names` are what errors call them.

    Raises:
        AudioError: they differ in rate, channels or length, or one cannot be marked.
    """
    _check_alike(original, copy, names)
    with np.errstate(divide="ignore"):
        snr = fidelity.snr(original.samples, copy.samples)
    host, marked = (to_network_mono(recording.samples, recording.rate) for recording in (original, copy))
    followed = follow_loudness(host, marked)
    with np.errstate(divide="ignore"):
        noise_snr = fidelity.snr(followed, marked)
    return Comparison(
        snr=snr,
        lowest_snr=fidelity.lowest_snr(original.samples, copy.samples, original.rate),
        pesq=_perceived(fidelity.pesq, host, marked),
        stoi=_perceived(fidelity.stoi, host, marked),
        noise_snr=noise_snr,
        modulation=modulation_audibility(host, marked),
        audibility=masking_of_rest(host, marked),
        starts=onsets(original.samples, copy.samples, original.rate),
        equal=bool(np.array_equal(original.samples, copy.samples)),
    )


def _check_alike(a: Recording, b: Recording, names: tuple[object, object]) -> None:
    """Raise `AudioError` unless both have the same rate, channels and length."""
    for name, recording in zip(names, (a, b), strict=True):
        try:
            check_samples(recording.samples, recording.rate)
        except AudioError as problem:
            raise AudioError(f"{name}: {problem}") from None
    for what, here, there in (
        ("Hz", a.rate, b.rate),
        ("channels", a.samples.shape[1], b.samples.shape[1]),
        ("samples", len(a.samples), len(b.samples)),
    ):
        if here != there:
            raise AudioError(f"{names[0]} has {here} {what}, {names[1]} has {there}; only equal ones can be compared")


def _perceived(measure: Callable[[Samples, Samples], float], host: Samples, marked: Samples) -> float | str:
    """A measure of 16 kHz mono audio, the mean over pieces; in words why there is none, where there is none."""
    count = max(1, round(len(host) / PIECE_SAMPLES))
    pieces = list(zip(np.array_split(host, count), np.array_split(marked, count), strict=True))
    try:
        return float(np.mean([measure(*pair) for pair in pieces if all(side.any() for side in pair)] or [np.nan]))
    except MissingExtraError as problem:
        return str(problem)
    except RuntimeError as problem:  # PESQ's own errors, whose text is bytes
        return f"cannot be measured: {problem.args[0].decode() if problem.args else 'no reason given'}"


def _finite(value: float | str) -> float | None:
    """A measure as JSON has it, which knows no infinity."""
    return None if isinstance(value, str) or not np.isfinite(value) else round(value, 4)
