"""`ideaw compare`: how far one recording is from another."""

from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from ideaw.audio.blocks import to_network_mono
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.read import Recording, read_audio
from ideaw.audio.samples import check_samples
from ideaw.cli import console, options, outputs
from ideaw.cli.extras import extra
from ideaw.errors import AudioError, MissingExtraError
from ideaw.quality import fidelity
from ideaw.quality.masking import masking
from ideaw.quality.onsets import Onsets, onsets

PIECE_SAMPLES = 10 * SAMPLE_RATE
"""Length of the pieces that PESQ and STOI are averaged over, since both are made for single sentences."""

NO_DIFFERENCE = "nothing differs"
"""Said instead of a level where the recordings are equal."""

Samples = NDArray[np.float32]


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="The original.", show_default=False)],
    second: Annotated[Path, typer.Argument(metavar="B", help="The marked or attacked copy.", show_default=False)],
    plot: options.Plot = None,
    as_json: options.Json = False,
) -> None:
    """Compare two recordings: SNR, PESQ, STOI, what can be heard and when; with --plot all of it as a picture."""
    if plot is not None:
        with extra("bench", "a plot"):
            from ideaw.quality import plots
        outputs.check(plot, plots.PLOT_EXTENSIONS)
    a, b = read_audio(first), read_audio(second)
    _check_alike(first, a, second, b)
    with np.errstate(divide="ignore"):
        snr = fidelity.snr(a.samples, b.samples)
    lowest = fidelity.lowest_snr(a.samples, b.samples, a.rate)
    host, marked = (to_network_mono(recording.samples, recording.rate) for recording in (a, b))
    pesq, stoi = _perceived(fidelity.pesq, host, marked), _perceived(fidelity.stoi, host, marked)
    audibility = masking(host, marked)
    starts = onsets(a.samples, b.samples, a.rate)
    if plot is not None:
        outputs.write(plot, plots.comparison(a.samples, b.samples, a.rate, audibility, plot.suffix))
    equal = bool(np.array_equal(a.samples, b.samples))
    ratio, frame = audibility.ratio, audibility.most_audible
    highest, moment = float(audibility.frame_ratios[frame]), float(audibility.seconds[frame])
    if equal:
        ratio = highest = moment = nan
    if as_json:
        values = {
            "snr": snr,
            "lowest_snr": lowest,
            "pesq": pesq,
            "stoi": stoi,
            "noise_to_mask": ratio,
            "masked": audibility.masked,
            "most_audible_noise_to_mask": highest,
            "most_audible_seconds": moment,
            "before_onsets_dbfs": starts.level,
            "before_onsets_seconds": starts.seconds,
        }
        finite = {name: _finite(value) for name, value in values.items()}
        exact = {"onsets": starts.count, "digital_silence_changed": starts.silence_changed, "equal": equal}
        console.say_json(finite | exact)
        return
    rows = [
        ("SNR", _decibels(snr)),
        ("lowest SNR of a second", _decibels(lowest)),
        ("PESQ (wide band, 1 to 4.64)", pesq if isinstance(pesq, str) else f"{pesq:.2f}"),
        ("STOI (0 to 1)", stoi if isinstance(stoi, str) else f"{stoi:.4f}"),
        ("noise to mask", NO_DIFFERENCE if equal else f"{ratio:+.1f} dB"),
        ("below the masking curve, of all moments and bands", f"{100 * audibility.masked:.1f} %"),
        ("most audible moment", NO_DIFFERENCE if equal else f"{highest:+.1f} dB at {moment:.2f} s"),
        ("loudest just before an onset", _before_onsets(starts)),
        ("digital silence", "changed" if starts.silence_changed else "not changed"),
    ]
    names = [str(path) if first.name == second.name else path.name for path in (second, first)]
    console.say_table(("measure", " against ".join(names)), rows)


def _check_alike(first: Path, a: Recording, second: Path, b: Recording) -> None:
    """Raise `AudioError` unless both have the same rate, channels and length."""
    for path, recording in ((first, a), (second, b)):
        try:
            check_samples(recording.samples, recording.rate)
        except AudioError as problem:
            raise AudioError(f"{path}: {problem}") from None
    for what, here, there in (
        ("Hz", a.rate, b.rate),
        ("channels", a.samples.shape[1], b.samples.shape[1]),
        ("samples", len(a.samples), len(b.samples)),
    ):
        if here != there:
            raise AudioError(f"{first} has {here} {what}, {second} has {there}; only equal ones can be compared")


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


def _before_onsets(starts: Onsets) -> str:
    if not starts.count:
        return "no onset out of near-silence"
    if starts.level == -inf:
        return f"{NO_DIFFERENCE} (onsets: {starts.count})"
    return f"{starts.level:.1f} dBFS at {starts.seconds:.2f} s (onsets: {starts.count})"


def _decibels(value: float) -> str:
    return f"{value:.2f} dB" if np.isfinite(value) else NO_DIFFERENCE if value > 0 else "the original is silent"
