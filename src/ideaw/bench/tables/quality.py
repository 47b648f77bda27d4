"""How far marked files are from their hosts: measures that listeners' scores were modelled with, and what is masked.

Means hide the one file in which a mark is heard, so the worst of all files stands beside them; and what MP3 makes of
the same files, so that one knows what a number means.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.audio.blocks import Progress
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.corpus import SHORT_MESSAGE, audio_kind, list_audio_files, read_network_mono
from ideaw.bench.statistics import estimate_mean
from ideaw.engine.gain import check_level
from ideaw.layers import FAST_ALONE, LayersLike
from ideaw.marker import load
from ideaw.quality import fidelity
from ideaw.quality.loudness import masking_of_rest
from ideaw.quality.onsets import onsets

MP3_KBPS, HIGH_MP3_KBPS = 64, 128
"""kbit/s of MP3 that marks are compared with: the paper's, and what listeners take for good."""

FIDELITY_MEASURES = {"SNR": fidelity.snr, "PESQ": fidelity.pesq, "STOI": fidelity.stoi, "ViSQOL": fidelity.visqol}

WORST: dict[str, tuple[str, Callable[[NDArray[np.float64]], Any]]] = {
    "lowest SNR": ("lowest SNR", np.nanmin),
    "lowest PESQ": ("PESQ", np.nanmin),
    "lowest ViSQOL": ("ViSQOL", np.nanmin),
    "lowest noise to mask": ("noise to mask", np.nanmin),
    "highest noise to mask": ("noise to mask", np.nanmax),
    "onsets": ("onsets", np.sum),
    "silence changed": ("silence changed", np.sum),
}
"""Figure of all files → which measure of each it is made from, and how."""

MARGIN = " ±"
"""After the name of a measure: half of the 95 % interval of its mean."""


@dataclass(frozen=True)
class Table:
    """What `ideaw bench quality` measured: kind of file → measure → figure of all its files.

    Measures are means over the files, but for half of the 95 % interval of a mean ("±"; left out for a single file),
    those of the worst file ("lowest", "highest"), the number of onsets out of near-silence ("onsets"), the loudest
    difference just before any of them in dBFS ("before onsets"; left out where there is none), and the number of files
    whose digital silence was changed ("silence changed"). Noise to mask is of what differs besides slow changes of
    loudness.
    """

    model: str
    snr: float | None
    """dB that every second keeps; None where the level follows hearing."""
    audibility: float | None
    """dB of noise to mask that every second is brought to; None where an SNR was asked for."""
    by_kind: dict[str, dict[str, float]]
    mp3: dict[str, dict[str, float]]
    """The same of files that MP3 changed instead of a mark, at MP3_KBPS."""
    mp3_128: dict[str, dict[str, float]]
    """The same at HIGH_MP3_KBPS."""


def run(
    data: Path,
    model: str | None = None,
    snr: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    audibility: float | None = None,
    layers: LayersLike = FAST_ALONE,
) -> Table:
    """Mark every file under `data`, mixed to 16 kHz, and compare it with its host.

    Args:
        data: A folder of audio files.
        model: A packaged model or a model folder; None for the default.
        snr: In dB, that every second keeps at least, instead of the audibility.
        limit: At most so many files, evenly spaced.
        progress: Called with the share that is done.
        audibility: Noise to mask in dB that hearing sets the level to; None for what the model's card says.
        layers: Of the marks.
    """
    marker = load(model)
    level = check_level(snr, audibility, marker.card.audibility)
    chosen = list_audio_files(data, limit)
    sides: list[dict[str, list[dict[str, float]]]] = [{}, {}, {}]
    for number, path in enumerate(chosen):
        host = read_network_mono(path)
        copies = [marker.embed(host, SAMPLE_RATE, SHORT_MESSAGE, snr=level[0], audibility=level[1], layers=layers)]
        copies += [catalogue.run("mp3", host, SAMPLE_RATE, kbps=kbps) for kbps in (MP3_KBPS, HIGH_MP3_KBPS)]
        for side, copy in zip(sides, copies, strict=True):
            side.setdefault(audio_kind(path), []).append(_measure(host, copy))
        if progress:
            progress((number + 1) / len(chosen))
    summaries = [{kind: _summarise(values) for kind, values in sorted(side.items())} for side in sides]
    return Table(marker.card.name, *level, *summaries)


def _measure(host: NDArray[np.float32], changed: NDArray[np.float32]) -> dict[str, float]:
    values = {name: measure(host, changed) for name, measure in FIDELITY_MEASURES.items()}
    audibility, starts = masking_of_rest(host, changed), onsets(host, changed, SAMPLE_RATE)
    return values | {
        "noise to mask": audibility.ratio,
        "masked": 100 * audibility.masked,
        "lowest SNR": fidelity.lowest_snr(host, changed, SAMPLE_RATE),
        "onsets": float(starts.count),
        "before onsets": starts.level,
        "silence changed": float(starts.silence_changed),
    }


def _summarise(values: list[dict[str, float]]) -> dict[str, float]:
    """Figures of all files; PESQ only of those in which it hears speech."""
    columns = {name: np.array([value[name] for value in values]) for name in values[0]}
    means = {name: float(np.nanmean(columns[name])) for name in (*FIDELITY_MEASURES, "noise to mask", "masked")}
    margins = {name + MARGIN: _margin(columns[name]) for name in FIDELITY_MEASURES if len(values) > 1}
    worst = {name: float(of(columns[measure])) for name, (measure, of) in WORST.items()}
    levels = columns["before onsets"][np.isfinite(columns["before onsets"])]
    loudest = {"before onsets": float(levels.max())} if len(levels) else {}
    return {"files": float(len(values))} | means | margins | worst | loudest


def _margin(column: NDArray[np.float64]) -> float:
    """Half of the 95 % interval of the mean of what was measured; 0 where nothing was."""
    measured = column[np.isfinite(column)].tolist()
    if not measured:
        return 0.0
    estimate = estimate_mean(measured)
    return estimate.high - estimate.value
