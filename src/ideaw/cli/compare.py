"""`ideaw compare`: how far one recording is from another."""

from collections.abc import Callable
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

PIECE_SAMPLES = 10 * SAMPLE_RATE
"""Length of the pieces that PESQ and STOI are averaged over, since both are made for single sentences."""

Samples = NDArray[np.float32]


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="The original.", show_default=False)],
    second: Annotated[Path, typer.Argument(metavar="B", help="The marked or attacked copy.", show_default=False)],
    plot: options.Plot = None,
    as_json: options.Json = False,
) -> None:
    """Compare two recordings: SNR, PESQ, STOI, masking; with --plot waveforms, spectrograms, most audible moment."""
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
    if plot is not None:
        outputs.write(plot, plots.comparison(a.samples, b.samples, a.rate, audibility, plot.suffix))
    if as_json:
        values = {"snr": snr, "lowest_snr": lowest, "pesq": pesq, "stoi": stoi, "masked": audibility.masked}
        finite = {name: _finite(value) for name, value in values.items()}
        console.say_json(finite | {"equal": bool(np.array_equal(a.samples, b.samples))})
        return
    rows = [
        ("SNR", _decibels(snr)),
        ("lowest SNR of a second", _decibels(lowest)),
        ("PESQ (wide band, 1 to 4.64)", pesq if isinstance(pesq, str) else f"{pesq:.2f}"),
        ("STOI (0 to 1)", stoi if isinstance(stoi, str) else f"{stoi:.4f}"),
        ("below the masking curve, of all moments and bands", f"{100 * audibility.masked:.1f} %"),
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


def _decibels(value: float) -> str:
    return f"{value:.2f} dB" if np.isfinite(value) else "nothing differs" if value > 0 else "the original is silent"
