"""`ideaw compare`: how far one recording is from another."""

from math import inf
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ideaw.audio.read import read_audio
from ideaw.cli import console, options, outputs
from ideaw.cli.extras import extra
from ideaw.quality.comparison import Comparison, compare_recordings
from ideaw.quality.onsets import Onsets

NO_DIFFERENCE = "nothing differs"
"""Said instead of a level where the recordings are equal."""


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="The original.", show_default=False)],
    second: Annotated[Path, typer.Argument(metavar="B", help="The marked or attacked copy.", show_default=False)],
    plot: options.Plot = None,
    as_json: options.Json = False,
) -> None:
    """Compare two recordings: SNR, PESQ, STOI, what can be heard and when; with --plot all of it as a picture.

    Where bands only got louder or softer for a while, as by the deep layer, that is told as modulation, and noise to
    mask is of what differs besides.
    """
    if plot is not None:
        with extra("bench", "a plot"):
            from ideaw.quality import plots
        outputs.check(plot, plots.PLOT_EXTENSIONS)
    a, b = read_audio(first), read_audio(second)
    compared = compare_recordings(a, b, (first, second))
    if plot is not None:
        outputs.write(plot, plots.comparison(a.samples, b.samples, a.rate, compared.audibility, plot.suffix))
    if as_json:
        console.say_json(compared.as_json())
        return
    names = [str(path) if first.name == second.name else path.name for path in (second, first)]
    console.say_table(("measure", " against ".join(names)), _rows(compared))


def _rows(compared: Comparison) -> list[tuple[str, str]]:
    """What the table says, measure by measure."""
    pesq, stoi = compared.pesq, compared.stoi
    highest, moment = compared.most_audible
    return [
        ("SNR", _decibels(compared.snr)),
        ("lowest SNR of a second", _decibels(compared.lowest_snr)),
        ("PESQ (wide band, 1 to 4.64)", pesq if isinstance(pesq, str) else f"{pesq:.2f}"),
        ("STOI (0 to 1)", stoi if isinstance(stoi, str) else f"{stoi:.4f}"),
        ("SNR without slow changes of loudness", NO_DIFFERENCE if compared.equal else _decibels(compared.noise_snr)),
        ("these changes, over what is just heard", _modulation(compared)),
        ("noise to mask, without these changes", NO_DIFFERENCE if compared.equal else f"{compared.ratio:+.1f} dB"),
        ("below the masking curve, of all moments and bands", f"{100 * compared.audibility.masked:.1f} %"),
        ("most audible moment", NO_DIFFERENCE if compared.equal else f"{highest:+.1f} dB at {moment:.2f} s"),
        ("loudest just before an onset", _before_onsets(compared.starts)),
        ("digital silence", "changed" if compared.starts.silence_changed else "not changed"),
    ]


def _modulation(compared: Comparison) -> str:
    highest = compared.modulation.worst
    if not np.isfinite(highest):
        return NO_DIFFERENCE if compared.equal else "cannot be measured"
    return f"{compared.modulation.percentile_99:+.1f} dB (of 99 % of all cells; the highest {highest:+.1f} dB)"


def _before_onsets(starts: Onsets) -> str:
    if not starts.count:
        return "no onset out of near-silence"
    if starts.level == -inf:
        return f"{NO_DIFFERENCE} (onsets: {starts.count})"
    return f"{starts.level:.1f} dBFS at {starts.seconds:.2f} s (onsets: {starts.count})"


def _decibels(value: float) -> str:
    return f"{value:.2f} dB" if np.isfinite(value) else NO_DIFFERENCE if value > 0 else "the original is silent"
